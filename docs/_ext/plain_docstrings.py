# SPDX-License-Identifier: BSD-3-Clause
"""A Sphinx extension that reads docstrings as prose, where * and | mean product and modulus.

Backticks mark code, as in the Markdown pages. The only other markup is napoleon's sections, lists
and literal blocks.
"""

from __future__ import annotations

import re
from typing import Any

CODE = re.compile(r"(``[^`]+``|:[a-z:]+:`[^`]+`|`[^`]+`)")
FIELD = re.compile(r"^(\s*:(?:param|type|raises|returns?|rtype)[^:]*:\s?)(.*)$")


def plain_line(line: str) -> str:
    """Returns a line in which only code is markup."""
    parts = CODE.split(line)
    for i, part in enumerate(parts):
        if i % 2:
            parts[i] = part if part.startswith(("``", ":")) else f"`{part}`"
        else:
            parts[i] = re.sub(r"([*|])", r"\\\1", re.sub(r"(\w)_(?=\W|$)", r"\1\\_", part))
    return "".join(parts)


def plain(lines: list[str]) -> list[str]:
    """Returns the lines of a docstring; examples and literal blocks stay as they are."""
    result, literal = [], None
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if literal is not None and line.strip() and indent <= literal:
            literal = None
        quoted = literal is not None or line.lstrip().startswith(
            (">>>", "...", "..", "* ", "*args", "**")
        )
        if field := FIELD.match(line):
            result.append(field[1].replace("*", r"\*") + plain_line(field[2]))
        else:
            result.append(line if quoted else plain_line(line))
        if literal is None and line.rstrip().endswith("::"):
            literal = indent
    return result


def on_docstring(
    app: Any, what: str, name: str, obj: object, options: Any, lines: list[str]
) -> None:
    """Rewrites a docstring before it is read as reStructuredText."""
    lines[:] = plain(lines)


def setup(app: Any) -> dict[str, bool]:
    """Registers with Sphinx, to run after napoleon."""
    app.connect("autodoc-process-docstring", on_docstring, priority=900)
    return {"parallel_read_safe": True}
