# SPDX-License-Identifier: BSD-3-Clause
"""Holds the samples of a run and prints them as a page."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..report import geomean, show
from .frame import ScalingCase


@dataclass
class Cell:
    """Holds the samples of one case, module and number of threads."""

    samples: list[float] = field(default_factory=list)
    error: str = ""

    @property
    def best(self) -> float | None:
        """Returns the least sample."""
        return min(self.samples) if self.samples else None


def processor() -> str:
    """Returns the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


@dataclass
class Table:
    """Holds all figures of a run; `threads` are the numbers of threads, ascending."""

    threads: list[int]
    subject: str
    reference: str
    cases: dict[str, ScalingCase] = field(default_factory=dict)
    cells: dict[tuple[str, str, int], Cell] = field(default_factory=dict)
    peaks: dict[int, dict[str, float]] = field(default_factory=dict)
    hand_off: dict[int, dict[str, float]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, case: ScalingCase, module: str, threads: int, reply: dict[str, Any]) -> None:
        """Stores a worker's reply."""
        self.cases[case.key] = case
        cell = self.cells.setdefault((case.key, module, threads), Cell())
        if "error" in reply:
            cell.error = reply["error"]
        else:
            cell.samples.append(reply["time"])

    def best(self, key: str, module: str, threads: int) -> float | None:
        """Returns the least time of a cell, or None."""
        cell = self.cells.get((key, module, threads))
        return cell.best if cell is not None else None

    def ratio(self, key: str, threads: int) -> float | None:
        """Returns the reference's time over the subject's."""
        other, own = (self.best(key, m, threads) for m in (self.reference, self.subject))
        return other / own if other and own else None

    def efficiency(self, key: str, threads: int) -> float | None:
        """Returns the part of the peak, with as many threads, that the subject reached."""
        case, peak = self.cases[key], self.peaks.get(threads)
        own = self.best(key, self.subject, threads)
        if peak is None or own is None:
            return None
        if case.multiplications:
            return case.multiplications * (2 if case.double else 1) / own / peak["multiplications"]
        return case.nbytes / own / peak["nbytes"] if case.nbytes else None

    def errors(self, module: str) -> list[str]:
        """Returns a line for each cell of a module that failed."""
        return [
            f"{key}, {threads} threads: {cell.error}"
            for (key, m, threads), cell in self.cells.items()
            if m == module and cell.error
        ]

    def _cell(self, key: str, threads: int) -> str:
        own = self.best(key, self.subject, threads)
        if own is None:
            return "-"
        one = self.best(key, self.subject, 1)
        parts = [show(own, is_bytes=False)]
        if one is not None and threads > 1:
            parts.append(f"x{one / own:.1f}")
        if (part := self.efficiency(key, threads)) is not None:
            parts.append(f"{part:.0%}")
        if (ratio := self.ratio(key, threads)) is not None:
            parts.append(f"**{ratio:.2f}**")
        return ", ".join(parts)

    def _rows(self) -> list[str]:
        head = [f"{n} thread{'s' * (n > 1)}" for n in self.threads]
        lines: list[str] = []
        group = ""
        for key, case in self.cases.items():
            if case.group != group:
                group = case.group
                lines += ["", f"| {group} | {' | '.join(head)} |", "|---" * (len(head) + 1) + "|"]
            cells = [self._cell(key, n) for n in self.threads]
            lines.append(f"| {case.name} | {' | '.join(cells)} |")
        return lines

    def _machine(self) -> list[str]:
        lines = []
        if self.peaks:
            lines += [
                "",
                "| threads | 1e9 multiplications/s, float32 | copying, GB/s |",
                "|---|---|---|",
            ]
            for n, p in self.peaks.items():
                lines.append(
                    f"| {n} | {p['multiplications'] / 1e9:.0f} | {p['nbytes'] / 1e9:.1f} |"
                )
        if self.hand_off:
            names = list(next(iter(self.hand_off.values())))
            lines += ["", f"| hand-off, threads | {' | '.join(names)} |"]
            lines.append("|---" * (len(names) + 1) + "|")
            for n, costs in self.hand_off.items():
                cells = [
                    show(v, is_bytes=False) if isinstance(v, float) else str(v)
                    for v in costs.values()
                ]
                lines.append(f"| {n} | {' | '.join(cells)} |")
        return lines

    def _ratios(self) -> list[str]:
        if not self.reference:
            return []
        lines = ["", "| geometric mean, worst case | " + " | ".join(map(str, self.threads)) + " |"]
        lines.append("|---" * (len(self.threads) + 1) + "|")
        for group in dict.fromkeys(c.group for c in self.cases.values()):
            cells = []
            for n in self.threads:
                keys = [k for k, c in self.cases.items() if c.group == group]
                ratios = [q for k in keys if (q := self.ratio(k, n)) is not None]
                mean = geomean(ratios)
                cells.append(f"{mean:.2f}, {min(ratios):.2f}" if mean is not None else "-")
            lines.append(f"| {group} | {' | '.join(cells)} |")
        return lines

    def text(self) -> str:
        """Returns the whole page."""
        ratio = f", **time of {self.reference} / time of {self.subject}**"
        versus = ratio if self.reference else ""
        versions = ", ".join(f"{m} {v}" for m, v in self.versions.items())
        lines = [
            f"{versions}; {processor()}, {len(os.sched_getaffinity(0))} processors; "
            f"{self.seconds:.0f} s.",
            f"Each cell: time of {self.subject}, speed-up over one thread, part of the peak with "
            f"as many threads{versus}.",
        ]
        lines += self._machine() + self._ratios() + self._rows()
        lines += ["", *self.notes] if self.notes else []
        for module in (self.subject, self.reference):
            lines += [f"{module} failed: {line}" for line in self.errors(module)]
        if self.left_out:
            lines.append(f"Left out, for lack of time: {', '.join(self.left_out)}.")
        return "\n".join(lines)

    def write(self, folder: Path) -> None:
        """Writes scaling_threads.md and scaling_threads.json."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "scaling_threads.md").write_text(f"# Scaling with threads\n\n{self.text()}\n")
        data = {
            "processor": processor(),
            "versions": self.versions,
            "peaks": self.peaks,
            "hand-off": self.hand_off,
            "cells": [
                {"case": key, "module": module, "threads": threads, **asdict(cell)}
                for (key, module, threads), cell in self.cells.items()
            ],
        }
        (folder / "scaling_threads.json").write_text(json.dumps(data, indent=1) + "\n")
