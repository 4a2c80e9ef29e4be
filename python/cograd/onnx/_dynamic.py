# SPDX-License-Identifier: BSD-3-Clause
"""Axes whose sizes vary: their names, and example inputs of other sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from cograd._recording.sizes import resized

__all__ = ["axes_of", "check_axes", "check_names", "resized", "sizes_to_try"]

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


def check_names(what: str, given: Any, count: int) -> None:
    """Raises unless names can be those of the first of ``count`` inputs or outputs."""
    if given is None:
        return
    if isinstance(given, str) or not all(isinstance(name, str) for name in given):
        raise TypeError(f"onnx.export: {what}_names is {given!r}, expected a list of names")
    names = list(given)
    if len(names) > count:
        raise ValueError(
            f"onnx.export: {what}_names has {len(names)} names, but the model has {count} "
            f"{what}s: {names[count]!r} is too many"
        )
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"onnx.export: {what}_names has {name!r} twice")


def check_axes(axes: Any, inputs: list[str], outputs: list[str]) -> None:
    """Raises for a name in ``dynamic_axes`` that no input or output has."""
    for name in axes or {}:
        if name not in inputs and name not in outputs:
            raise ValueError(
                f"onnx.export: dynamic_axes names {name!r}, which is no input or output; the "
                f"inputs are {inputs}, the outputs {outputs}"
            )


def _axes(what: str, name: str, given: Any) -> Any:
    """Returns {axis: label}, or the axes."""
    if isinstance(given, str) or not hasattr(given, "__iter__"):
        what = f"{what}[{name!r}]" if name else what
        raise TypeError(
            f"onnx.export: {what} is {given!r}, expected a list of axes or {{axis: label}}"
        )
    for axis in given:
        if what == "dynamic_axes" and not isinstance(axis, int):
            raise TypeError(f"onnx.export: {what}[{name!r}] has the axis {axis!r}, expected an int")
    return given


def axes_of(names: list[str], dynamic_axes: Any, dynamic_shapes: Any) -> dict[str, dict[int, str]]:
    """Returns for each input or output the labels of its axes that vary."""
    found: dict[str, dict[int, str]] = {}
    for name, axes in (dynamic_axes or {}).items():
        axes = _axes("dynamic_axes", name, axes)
        if not hasattr(axes, "items"):
            axes = dict.fromkeys(axes)
        found[name] = {int(a): _label(name, a, label) for a, label in axes.items()}
    if dynamic_shapes is None:
        return found
    if hasattr(dynamic_shapes, "items"):
        unknown = [name for name in dynamic_shapes if name not in names]
        pairs = list(dynamic_shapes.items())
    else:
        shapes = list(_axes("dynamic_shapes", "", dynamic_shapes))
        if len(shapes) != len(names):
            raise ValueError(
                f"onnx.export: dynamic_shapes has {len(shapes)} entries, expected one for each of "
                f"the inputs {names}"
            )
        unknown, pairs = [], list(zip(names, shapes, strict=True))
    if unknown:
        raise ValueError(
            f"onnx.export: dynamic_shapes names {unknown[0]!r}, expected names of {names}"
        )
    for name, axes in pairs:
        if axes is None:
            continue
        axes = _axes("dynamic_shapes", name, axes)
        given = axes.items() if hasattr(axes, "items") else enumerate(axes)
        chosen = {a: d for a, d in given if d is not None and not isinstance(d, int)}
        found[name] = {a: _label(name, a, label) for a, label in chosen.items()}
    return found


def sizes_to_try(count: int) -> Iterator[Callable[[int], int]]:
    """Returns functions from a size of the example to another size."""
    yield from _CHANGES if count else _CHANGES[:0]
