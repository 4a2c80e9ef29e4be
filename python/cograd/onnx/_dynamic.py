# SPDX-License-Identifier: BSD-3-Clause
"""Axes whose sizes vary: their names, and example inputs of other sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from cograd._recording.sizes import resized

__all__ = ["axes_of", "resized", "sizes_to_try"]

_CHANGES: tuple[Callable[[int], int], ...] = (
    lambda n: 2 * n,
    lambda n: n + 1,
    lambda n: n - 1,
    lambda n: n // 2,
)


def _label(name: str, axis: int, given: Any) -> str:
    if isinstance(given, str):
        return given
    label = getattr(given, "__name__", None)
    return label if isinstance(label, str) else f"{name}_dim_{axis}"


def axes_of(names: list[str], dynamic_axes: Any, dynamic_shapes: Any) -> dict[str, dict[int, str]]:
    """Returns for each input or output the labels of its axes that vary."""
    found: dict[str, dict[int, str]] = {}
    for name, axes in (dynamic_axes or {}).items():
        if not hasattr(axes, "items"):
            axes = dict.fromkeys(axes)
        found[name] = {int(a): _label(name, a, label) for a, label in axes.items()}
    if dynamic_shapes is None:
        return found
    if hasattr(dynamic_shapes, "items"):
        unknown = [name for name in dynamic_shapes if name not in names]
        pairs = list(dynamic_shapes.items())
    else:
        unknown, pairs = [], list(zip(names, dynamic_shapes, strict=True))
    if unknown:
        raise ValueError(
            f"onnx.export: dynamic_shapes names {unknown[0]!r}, expected names of {names}"
        )
    for name, axes in pairs:
        if axes is None:
            continue
        given = axes.items() if hasattr(axes, "items") else enumerate(axes)
        chosen = {a: d for a, d in given if d is not None and not isinstance(d, int)}
        found[name] = {a: _label(name, a, label) for a, label in chosen.items()}
    return found


def sizes_to_try(count: int) -> Iterator[Callable[[int], int]]:
    """Returns functions from a size of the example to another size."""
    yield from _CHANGES if count else _CHANGES[:0]
