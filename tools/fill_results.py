# SPDX-License-Identifier: BSD-3-Clause
"""Writes measured figures into README.md and docs/performance.md: fill_results.py [RESULTS.json].

Reads the results of `make bench` in benchmarks/results/ (or the given file), replaces the text
between the comments `benchmarks: begin` and `benchmarks: end`, and copies the chart.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.report import geomean, show  # noqa: E402

# Label, group, row; a row of None is the geometric mean of the group.
README_ROWS = [
    ("add, 4 elements", "small", "add"),
    ("add, 4 elements, with grad", "small", "add, grad"),
    ("multiply by a scalar, 4 elements, with grad", "small", "mul by scalar, grad"),
    ("{n} small operations, geometric mean", "small", None),
    ("backward through 1000 multiplications, per node", "chain", "backward"),
    ("chain of a million nodes: backward", "long-chain", "1e6 nodes: backward"),
    ("chain of a million nodes: peak memory", "long-chain", "1e6 nodes: peak"),
    ("Python Function, forward", "function", "forward, saves one tensor"),
    ("Python Function, forward + backward", "function", "forward + backward"),
    ("the Legendre program, 2000 steps", "program", "Legendre fit, 2000 steps"),
    ("training step of a small network", "program", "MLP 64-64-10, batch 32, step of SGD"),
    ("{n} float32 kernels, 1e5 elements, geometric mean", "kernels-1e5", None),
    ("{n} float32 kernels, 4e6 elements, geometric mean", "kernels-4e6", None),
    ("{n} matrix products, geometric mean", "matmul", None),
    ("import", "package", "import"),
    ("installed, with all but NumPy", "package", "installed size, with all but NumPy"),
]


def table(results: dict[str, Any]) -> str:
    """Returns the README's table."""
    versions, machine = results["versions"], results["machine"]
    lines = [
        "Both were measured in one run, in turns on the same cores "
        f"({machine['threads']} threads, {machine['cpu']}, Python {machine['python']}, "
        f"{machine['date']}); reproduce with `make bench`.",
        "",
        f"| | torch {versions['torch'].split('+')[0]} | cograd | ratio |",
        "|---|---|---|---|",
    ]
    rows = {(r["group"], r["name"]): r for r in results["rows"]}
    for label, group, name in README_ROWS:
        if name is None:
            ratios = [r["ratio"] for r in results["rows"] if r["group"] == group and r["ratio"]]
            mean = geomean(ratios)
            if mean is not None:
                lines.append(f"| {label.format(n=len(ratios))} | | | {mean:.1f} |")
        elif (row := rows.get((group, name))) is not None and row["ratio"]:
            cells = [show(row["best"][m], row["unit"] == "bytes") for m in ("torch", "cograd")]
            lines.append(f"| {label} | {' | '.join(cells)} | {row['ratio']:.1f} |")
        else:
            print(f"no figure for {group}/{name}", file=sys.stderr)
    return "\n".join(lines)


def replace(path: Path, text: str) -> None:
    """Replaces the text between the two comments of a file."""
    old = path.read_text()
    pattern = r"(<!-- benchmarks: begin -->\n).*?(<!-- benchmarks: end -->)"
    new, count = re.subn(pattern, lambda m: f"{m[1]}{text}\n{m[2]}", old, flags=re.S)
    if count != 1:
        raise SystemExit(f"{path}: expected one pair of benchmark comments, found {count}")
    path.write_text(new)
    print(f"filled {path.relative_to(ROOT)}")


def main() -> None:
    """Fills both pages."""
    given = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "benchmarks/results/benchmarks.json"
    if not given.exists():
        raise SystemExit(f"{given} does not exist; run: make bench")
    results = json.loads(given.read_text())
    replace(ROOT / "README.md", table(results))
    page = given.with_name("benchmarks.md").read_text().replace("\n## ", "\n### ")
    figure = "![Ratios by group](_static/benchmarks.png)\n"
    replace(ROOT / "docs" / "performance.md", f"{figure}\n{page}")
    static = ROOT / "docs" / "_static"
    static.mkdir(exist_ok=True)
    shutil.copy(given.with_name("benchmarks.png"), static / "benchmarks.png")


if __name__ == "__main__":
    main()
