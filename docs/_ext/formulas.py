# SPDX-License-Identifier: BSD-3-Clause
"""A Sphinx extension that writes formulas as MathML at build time, so that pages need no network.

Docutils translates LaTeX, and browsers draw MathML; Sphinx's own renderers fetch MathJax when a
page is viewed, or need a TeX installation.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)


def mathml(node: nodes.Element, block: bool) -> str:
    """Returns a formula's MathML; warns and returns "" if it cannot be translated."""
    try:
        return latex2mathml.tex2mathml(node.astext(), as_block=block)
    except MathError as error:
        logger.warning("formula: %s: %s", error, node.astext(), location=node)
        return ""


def visit_inline(self: Any, node: nodes.math) -> None:
    """Writes a formula within a line."""
    text = mathml(node, block=False) or f"<code>{self.encode(node.astext())}</code>"
    self.body.append(text)
    raise nodes.SkipNode


def visit_block(self: Any, node: nodes.math_block) -> None:
    """Writes a formula in a line of its own."""
    text = mathml(node, block=True) or f"<pre>{self.encode(node.astext())}</pre>"
    self.body.append(f"{self.starttag(node, 'div', CLASS='math')}{text}</div>\n")
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, Any]:
    """Registers the renderer; html_math_renderer = "mathml" chooses it."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
