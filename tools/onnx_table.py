# SPDX-License-Identifier: BSD-3-Clause
"""Writes the table of ops that are exported into docs/onnx.md, from the package's own table.

Run it by the Python into which this tree is installed, after a change in python/cograd/onnx/_ops.
"""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "onnx.md"


def rows() -> list[str]:
    """Returns the rows of the table."""
    from cograd.onnx._ops import OPS

    names: dict[str, list[str]] = {}  # the functions under the module of _ops that enters them
    for name, function in OPS.items():
        if not name.startswith("_"):
            names.setdefault(function.__module__.rpartition(".")[2], []).append(name)
    return [f"| {f} | {' '.join(f'`{n}`' for n in sorted(names[f]))} |" for f in sorted(names)]


def main() -> None:
    """Rewrites the table."""
    text = PAGE.read_text()
    table = "\n".join(["| family | names |", "|---|---|", *rows()])
    mark = re.compile(r"(<!-- ops -->\n).*?(<!-- end -->)", re.S)
    PAGE.write_text(mark.sub(lambda m: f"{m[1]}\n{table}\n\n{m[2]}", text))


if __name__ == "__main__":
    main()
