# SPDX-License-Identifier: BSD-3-Clause
"""Prints the requirements of an extra of pyproject.toml, one per line: requirements.py EXTRA.

The extra `run` means only the run-time dependencies; every other extra includes them. The program
reads the file as text if Python has no tomllib (3.10).
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def arrays(section: str, text: str) -> dict[str, list[str]]:
    """Returns the arrays of strings under `[section]` of a TOML document.

    Args:
        section: the table's name, such as "project".
        text: the document; only arrays of plain strings are supported, and it has no others.
    """
    body = re.search(rf"^\[{re.escape(section)}\]\n(.*?)(?=^\[|\Z)", text, re.M | re.S)
    if body is None:
        raise KeyError(f"pyproject.toml has no [{section}]")
    found = re.findall(r"^([\w-]+) = (\[.*?\])\n", body[1], re.M | re.S)
    return {name: list(ast.literal_eval(value)) for name, value in found}


def requirements(extra: str) -> list[str]:
    """Returns what an extra installs; self-references such as cograd[demo] are resolved."""
    text = (ROOT / "pyproject.toml").read_text()
    extras = arrays("project.optional-dependencies", text)
    result = list(arrays("project", text)["dependencies"])
    todo = [] if extra == "run" else [extra]
    while todo:
        name = todo.pop()
        if name not in extras:
            raise KeyError(f"no extra {name!r} in pyproject.toml, there are: {sorted(extras)}")
        for requirement in extras[name]:
            if own := re.fullmatch(r"cograd\[([\w,-]+)\]", requirement):
                todo += own[1].split(",")
            elif requirement not in result:
                result.append(requirement)
    return result


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print("\n".join(requirements(sys.argv[1])))
