# SPDX-License-Identifier: BSD-3-Clause
"""Tensors made from sizes and numbers."""

from __future__ import annotations

from typing import Any

import cograd
from cograd.onnx._ops._table import OPS, op
from cograd.onnx._ops.shape import sizes_of
from cograd.onnx._writer import Value, Writer


def filled(w: Writer, sizes: Any, value: Any) -> Any:
    """Returns a tensor of one number."""
    return w.emit("Expand", w.to(value), w.shape(sizes))


def _sized(value: Any) -> Any:
    def convert(w: Writer, *size: Any, **other: Any) -> Any:
        return filled(w, sizes_of(size) if size else other["size"], value)

    return convert


def _new(value: Any) -> Any:
    return lambda w, input, *size, **other: filled(w, sizes_of(size) or other["size"], value)


def _like(value: Any) -> Any:
    return lambda w, input, **other: w.emit("Expand", w.to(value), w.emit("Shape", input))


for _name, _value in (("zeros", 0), ("ones", 1), ("empty", 0)):
    OPS[_name], OPS[f"new_{_name}"], OPS[f"{_name}_like"] = (
        make(_value) for make in (_sized, _new, _like)
    )


@op("full")
def full(w: Writer, size: Any, fill_value: Any, **other: Any) -> Any:
    return filled(w, size, fill_value)


@op("new_full")
def new_full(w: Writer, input: Value, size: Any, fill_value: Any, **other: Any) -> Any:
    return filled(w, size, fill_value)


@op("full_like")
def full_like(w: Writer, input: Value, fill_value: Any, **other: Any) -> Any:
    return w.emit("Expand", w.to(fill_value), w.emit("Shape", input))


@op("arange")
def arange(
    w: Writer, *limits: Any, start: Any = 0, end: Any = None, step: Any = 1, **other: Any
) -> Any:
    if len(limits) == 1 and end is None:
        limits = (start, *limits)
    elif len(limits) == 1:
        limits = (*limits, end)
    elif not limits:
        limits = (start, end)
    numbers = (*limits, step)[:3]
    if all(isinstance(n, (int, float)) for n in numbers):
        return w.const(cograd.arange(*numbers, dtype=w.dtype), None)
    exact = all(isinstance(n, (int, Value)) for n in numbers)
    kind = cograd.int64 if exact else w.dtype
    return w.cast(w.emit("Range", *(w.to(n, kind) for n in numbers)), w.dtype, kind)


@op("linspace")
def linspace(w: Writer, start: Any, end: Any, steps: Any, **other: Any) -> Any:
    steps = w.static(steps, "the number of steps of linspace()")
    if isinstance(start, Value) or isinstance(end, Value):
        part = w.const(cograd.linspace(0, 1, steps, dtype=w.dtype), None)
        return w.emit(
            "Add", w.to(start), w.emit("Mul", part, w.emit("Sub", w.to(end), w.to(start)))
        )
    return w.const(cograd.linspace(start, end, steps, dtype=w.dtype), None)


@op("eye")
def eye(w: Writer, n: Any, m: Any = None, **other: Any) -> Any:
    zeros = w.emit("Expand", w.const(0, cograd.float32), w.shape([n, n if m is None else m]))
    return w.cast(w.emit("EyeLike", zeros), w.dtype, cograd.float32)


@op("scalar_tensor")
def scalar_tensor(w: Writer, value: Any, **other: Any) -> Any:
    return w.to(value)
