# SPDX-License-Identifier: BSD-3-Clause
"""A Sphinx extension that draws curves into the reference, as SVG inside of the page.

Colours come from the page's style sheet, so they follow its theme, dark or light.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from typing import Any

import curve_tables as tables
from curve_tables import Series

WIDTH, HEIGHT = 340, 170
LEFT, RIGHT, TOP, BOTTOM = 34, 8, 8, 18


def _range(values: Sequence[float], largest: float = 50.0) -> tuple[float, float]:
    """Returns the ends of an axis; poles are cut off."""
    finite = sorted(v for v in values if math.isfinite(v))
    low, high = finite[0], finite[-1]
    bulk = finite[len(finite) // 50], finite[-1 - len(finite) // 50]
    if high - low > 3 * (bulk[1] - bulk[0]) > 0:
        low, high = bulk
    margin = 0.06 * (high - low) or 0.5
    return max(low - margin, -largest), min(high + margin, largest)


def _ticks(low: float, high: float) -> list[float]:
    """Returns round numbers between the ends of an axis."""
    power = 10.0 ** math.floor(math.log10((high - low) / 3))
    step = min((m * power for m in (1, 2, 5, 10)), key=lambda s: abs((high - low) / s - 4))
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


class Frame:
    """Maps numbers to places in the picture."""

    def __init__(self, series: Sequence[Series], bars: bool) -> None:
        xs = [x for _, values, _ in series for x in values]
        ys = [y for _, _, values in series for y in values]
        half = 0.5 if bars else 0.0
        self.x0, self.x1 = min(xs) - half, max(xs) + half
        self.y0, self.y1 = _range([*ys, 0.0] if bars else ys)

    def x(self, v: float) -> float:
        return LEFT + (v - self.x0) / (self.x1 - self.x0) * (WIDTH - LEFT - RIGHT)

    def y(self, v: float) -> float:
        return TOP + (self.y1 - v) / (self.y1 - self.y0) * (HEIGHT - TOP - BOTTOM)

    def axes(self) -> list[str]:
        """Returns the ticks, and the lines through 0 where these are inside."""
        parts, foot, end = [], HEIGHT - BOTTOM, WIDTH - RIGHT
        for t in _ticks(self.x0, self.x1):
            parts.append(f'<text x="{self.x(t):.0f}" y="{HEIGHT - 4}" class="x">{t:g}</text>')
        for t in _ticks(self.y0, self.y1):
            y = self.y(t)
            parts.append(f'<text x="{LEFT - 5}" y="{y + 3:.0f}" class="y">{round(t, 9):g}</text>')
            parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{end}"/>')
        if self.x0 < 0 < self.x1:
            parts.append(f'<path class="axis" d="M{self.x(0):.1f} {TOP}V{foot}"/>')
        if self.y0 < 0 < self.y1:
            parts.append(f'<path class="axis" d="M{LEFT} {self.y(0):.1f}H{end}"/>')
        return parts

    def line(self, xs: Sequence[float], ys: Sequence[float]) -> str:
        """Returns a path; it breaks where the curve leaves the picture."""
        path, pen = "", "M"
        for x, y in zip(xs, ys, strict=True):
            if not (math.isfinite(y) and self.y0 <= y <= self.y1):
                pen = "M"
                continue
            path += f"{pen}{self.x(x):.1f} {self.y(y):.1f}"
            pen = "L"
        return path

    def sticks(self, xs: Sequence[float], ys: Sequence[float], shift: float) -> str:
        """Returns a vertical line for each value."""
        foot = f"V{self.y(0):.1f}"
        return "".join(
            f"M{self.x(x) + shift:.1f} {self.y(y):.1f}{foot}" for x, y in zip(xs, ys, strict=True)
        )


def figure(series: Sequence[Series], title: str, bars: bool = False) -> str:
    """Returns the SVG of some curves, on one line."""
    frame = Frame(series, bars)
    parts = frame.axes()
    for i, (_, xs, ys) in enumerate(series):
        path = frame.sticks(xs, ys, 4.0 * i - 2.0) if bars else frame.line(xs, ys)
        parts.append(f'<path class="c{i}{" bars" if bars else ""}" d="{path}"/>')
    legend = ""
    if len(series) > 1 or series[0][0] not in ("value", "rate", "window"):
        legend = "".join(
            f'<span class="c{i}">{escape(label)}</span>' for i, (label, _, _) in enumerate(series)
        )
    return (
        f'<figure class="curve"><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(title, quote=True)}">{"".join(parts)}</svg>'
        f"<figcaption>{legend}</figcaption></figure>"
    )


def all_figures() -> dict[str, Callable[[], str]]:
    """Returns what draws the figure of each name below cograd."""

    def draw(make: Callable[[str], list[Series]], name: str, what: str, bars: bool = False) -> str:
        return figure(make(name), f"{what} {name}", bars)

    found: dict[str, Callable[[], str]] = {}
    for name in tables.ACTIVATIONS:
        found[f"nn.{name}"] = partial(draw, tables.activation, name, "activation")
    for name in tables.LOSSES:
        found[f"nn.{name}"] = partial(draw, tables.loss, name, "loss")
    for name in tables.SCHEDULERS:
        found[f"optim.lr_scheduler.{name}"] = partial(draw, tables.scheduler, name, "schedule")
    for name in tables.WINDOWS:
        found[name] = partial(draw, tables.window, name, "window")
    for name in tables.DISTRIBUTIONS:
        make, bars = tables.distribution, tables.counts(name)
        found[f"distributions.{name}"] = partial(draw, make, name, "density", bars)
    return found


def setup(app: Any) -> dict[str, bool]:
    """Registers with Sphinx, to run after the docstring has been rewritten."""
    figures = all_figures()

    def add(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
        make = figures.get(name.removeprefix("cograd."))
        if make is None or what not in ("class", "function"):
            return
        at = lines.index("") if "" in lines else len(lines)  # behind the first paragraph
        lines[at:at] = ["", ".. raw:: html", "", f"   {make()}", ""]

    app.connect("autodoc-process-docstring", add, priority=950)
    return {"parallel_read_safe": True}
