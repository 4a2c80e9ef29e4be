# SPDX-License-Identifier: BSD-3-Clause
"""Writes the table, the JSON file and the bar chart of a run."""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .case import GROUPS
from .run import Row


@dataclass(frozen=True)
class Sides:
    """Holds the names and versions of the reference, torch, and of cograd."""

    reference: str
    subject: str
    versions: dict[str, str]


def show(value: float | None, is_bytes: bool) -> str:
    """Formats seconds or bytes with three significant digits."""
    if value is None:
        return "-"
    scales = (
        [(1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")]
        if is_bytes
        else [(1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")]
    )
    scale, unit = next((s for s in scales if value >= s[0]), scales[-1])
    scaled = value / scale
    digits = 2 if scaled < 10 else 1 if scaled < 100 else 0
    return f"{scaled:.{digits}f} {unit}"


def geomean(values: Iterable[float]) -> float | None:
    """Returns the geometric mean, or None if there are no values."""
    logs = [math.log(v) for v in values]
    return math.exp(sum(logs) / len(logs)) if logs else None


def summary(rows: list[Row], sides: Sides) -> list[dict[str, Any]]:
    """Returns each group's title, geometric mean, worst row, and True if its targets are met."""
    result = []
    for name, (title, target) in GROUPS.items():
        group = [r for r in rows if r.group == name]
        ratios = {r.name: q for r in group if (q := r.ratio(sides.reference, sides.subject))}
        mean = geomean(ratios.values())
        misses = []
        if target.geomean and mean is not None and mean < target.geomean:
            misses.append(f"geometric mean {mean:.2f} < {target.geomean:g}")
        for row in group:
            goal = row.target or target.each
            if goal and row.name in ratios and ratios[row.name] < goal:
                misses.append(f"{row.name}: {ratios[row.name]:.2f} < {goal:g}")
        if not group:
            continue
        worst = min(ratios, key=ratios.__getitem__, default=None)
        result.append(
            {
                "group": name,
                "title": title,
                "geomean": mean,
                "worst": worst,
                "worst_ratio": ratios.get(worst or ""),
                "target_geomean": target.geomean,
                "target_each": target.each,
                "misses": misses,
            }
        )
    return result


def table(rows: list[Row], sides: Sides) -> str:
    """Returns the table as text, with one block per group."""
    a, b = sides.reference, sides.subject
    width = max((len(r.name) for r in rows), default=0)
    heading = f"{a} / {b}"
    lines = []
    for group in summary(rows, sides):
        lines += ["", group["title"]]
        lines.append(f"  {'':{width}}  {a:>9}  {b:>9}  {heading:>14}")
        for row in rows:
            if row.group != group["group"]:
                continue
            ratio = row.ratio(a, b)
            text = f"{ratio:.2f}" if ratio else "-"
            left, right = show(row.best(a), row.is_bytes), show(row.best(b), row.is_bytes)
            goal = f"  (target {row.target:g})" if row.target else ""
            lines.append(f"  {row.name:{width}}  {left:>9}  {right:>9}  {text:>14}{goal}")
            lines += [f"      {module}: {error}" for module, error in row.errors.items()]
        if group["geomean"] is not None:
            goal = f"  (target {group['target_geomean']:g})" if group["target_geomean"] else ""
            mean = f"{group['geomean']:.2f}"
            lines.append(f"  {'geometric mean':{width}}  {'':9}  {'':9}  {mean:>14}{goal}")
        lines += [f"  missed: {miss}" for miss in group["misses"]]
    return "\n".join(lines)


def markdown(rows: list[Row], sides: Sides) -> str:
    """Returns the groups' summary and every row as Markdown, for the documentation."""
    a, b = sides.reference, sides.subject
    lines = [f"| group | geometric mean {a} / {b} | worst row |", "|---|---|---|"]
    for g in summary(rows, sides):
        if g["geomean"] is not None:
            worst = f"{g['worst']} ({g['worst_ratio']:.2f})"
            lines.append(f"| {g['title']} | {g['geomean']:.2f} | {worst} |")
    for g in summary(rows, sides):
        lines += ["", f"## {g['title']}", "", f"| | {a} | {b} | {a} / {b} |", "|---|---|---|---|"]
        for row in rows:
            if row.group == g["group"]:
                ratio = row.ratio(a, b)
                cells = [show(row.best(m), row.is_bytes) for m in (a, b)]
                cells.append(f"{ratio:.2f}" if ratio else "-")
                lines.append(f"| {row.name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def machine(threads: int) -> dict[str, Any]:
    """Describes where the run took place."""
    cpu = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                cpu = line.split(":", 1)[1].strip()
                break
    return {
        "cpu": cpu,
        "threads": threads,
        "system": platform.platform(),
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"),
    }


def write_json(path: Path, rows: list[Row], sides: Sides, threads: int) -> None:
    """Writes all samples."""
    content = {
        "machine": machine(threads),
        "versions": sides.versions,
        "groups": summary(rows, sides),
        "rows": [
            {
                "group": r.group,
                "name": r.name,
                "unit": "bytes" if r.is_bytes else "s",
                "best": {m: r.best(m) for m in r.samples},
                "median": {m: statistics.median(v) for m, v in r.samples.items()},
                "ratio": r.ratio(sides.reference, sides.subject),
                "samples": r.samples,
                "errors": r.errors,
            }
            for r in rows
        ],
    }
    path.write_text(json.dumps(content, indent=1) + "\n")


def chart(path: Path, rows: list[Row], sides: Sides) -> None:
    """Draws one bar per group, the geometric mean of its ratios, with a dot for each row."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    a, b = sides.reference, sides.subject
    groups = [g for g in summary(rows, sides) if g["geomean"] is not None]
    fig, ax = plt.subplots(figsize=(9, 0.62 * len(groups) + 1.6), layout="constrained")
    positions = range(len(groups), 0, -1)
    for y, g in zip(positions, groups, strict=True):
        ratios = [q for r in rows if r.group == g["group"] and (q := r.ratio(a, b))]
        mean = g["geomean"]
        ax.barh(y, mean - 1, left=1, height=0.56, color="#3b6ea5" if mean >= 1 else "#b5482f")
        spread = [y + 0.2 * math.sin(2.4 * i) for i in range(len(ratios))]
        ax.scatter(ratios, spread, s=9, color="#1b1b1b", alpha=0.45, linewidths=0, zorder=3)
        if g["target_geomean"]:
            ax.plot(
                [g["target_geomean"]] * 2, [y - 0.38, y + 0.38], color="#d98c1f", lw=2, zorder=4
            )
        ax.annotate(
            f"{mean:.1f}x",
            (1.0, y),
            xycoords=("axes fraction", "data"),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontweight="bold",
        )
    ax.set_xscale("log")
    ax.axvline(1, color="#1b1b1b", lw=1)
    ax.set_yticks(list(positions), [g["title"] for g in groups])
    ax.xaxis.set_major_formatter(lambda v, _: f"{v:g}x")
    ax.set_xlabel(f"{a} {sides.versions.get(a, '')} time / {b} {sides.versions.get(b, '')} time")
    # Uses the figure, not the axes: next to long names the axes are narrower than the line.
    fig.suptitle(
        "How many times faster (bar: geometric mean, dot: one benchmark, line: target)", fontsize=10
    )
    ax.grid(axis="x", which="major", color="#d8d8d8", lw=0.6)
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    fig.savefig(path, dpi=130)
    plt.close(fig)
