# SPDX-License-Identifier: BSD-3-Clause
"""Writes the HTML that notebooks show: tables, and pages in frames of their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

__all__ = ["frame", "table"]


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Returns an HTML table. Every text is escaped; the cells keep their line breaks."""
    lines = [f"<table><caption>{escape(caption)}</caption>"]
    lines.append("<tr>" + "".join(f"<th>{escape(h)}</th>" for h in head) + "</tr>")
    style = ' style="text-align:left;white-space:pre-wrap"'
    for row in rows:
        lines.append("<tr>" + "".join(f"<td{style}>{escape(str(c))}</td>" for c in row) + "</tr>")
    return "\n".join([*lines, "</table>"])


def frame(page: str, height: int = 480) -> str:
    """Returns a frame with a whole page, whose scripts cannot reach the notebook."""
    return (
        f'<iframe srcdoc="{escape(page)}" sandbox="allow-scripts" loading="lazy" '
        f'style="width:100%;height:{height}px;border:1px solid #ccc"></iframe>'
    )
