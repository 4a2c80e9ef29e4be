# SPDX-License-Identifier: BSD-3-Clause
"""Functions of single elements that take several nodes, exact also at zeros and infinities."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from cograd.onnx._ops._table import OPS, op, refuse
from cograd.onnx._writer import Value, Writer


@op("hypot")
def hypot(w: Writer, input: Any, other: Any) -> Any:
    x, y = w.emit("Abs", w.to(input)), w.emit("Abs", w.to(other))
    big, small = w.emit("Max", x, y), w.emit("Min", x, y)
    zero, endless = w.emit("Equal", big, w.to(0)), w.to(math.inf)
    ratio = w.emit("Where", zero, w.to(0), w.emit("Div", small, big))
    length = w.emit("Sqrt", w.emit("Add", w.to(1), w.emit("Mul", ratio, ratio)))
    either = w.emit("Or", w.emit("Equal", x, endless), w.emit("Equal", y, endless))
    return w.emit("Where", either, endless, w.emit("Mul", big, length))


def _constant_factor(factor: float) -> Callable[..., Any]:
    return lambda w, input: w.emit("Mul", w.to(input), w.to(factor))


OPS["deg2rad"] = _constant_factor(math.pi / 180)
OPS["rad2deg"] = _constant_factor(180 / math.pi)


@op("logit", "special_logit")
def logit(w: Writer, input: Value, eps: Any = None) -> Any:
    x = w.to(input)
    if eps is not None:
        x = w.emit("Min", w.emit("Max", x, w.to(eps)), w.to(1 - eps))
    return w.emit("Log", w.emit("Div", x, w.emit("Sub", w.to(1), x)))


@op("isclose")
def isclose(
    w: Writer,
    input: Value,
    other: Value,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
) -> Any:
    if equal_nan or not input.dtype.is_floating_point:
        raise refuse("isclose() of integers or with equal_nan")
    x, y = input, other
    apart = w.emit("Abs", w.emit("Sub", x, y))
    size = w.emit("Mul", w.emit("Abs", y), w.to(rtol, input.dtype))
    near = w.emit("LessOrEqual", apart, w.emit("Add", size, w.to(atol, input.dtype)))
    finite = w.emit("Less", w.emit("Abs", y), w.to(math.inf, input.dtype))
    return w.emit("Or", w.emit("Equal", x, y), w.emit("And", near, finite))


@op("xlogy", "special_xlogy")
def xlogy(w: Writer, input: Any, other: Any) -> Any:
    x, y, zero = w.to(input), w.to(other), w.to(0)
    product = w.emit("Mul", x, w.emit("Log", y))
    kept = w.emit("And", w.emit("Equal", x, zero), w.emit("Equal", y, y))
    return w.emit("Where", kept, zero, product)


@op("logaddexp")
def logaddexp(w: Writer, input: Value, other: Value) -> Any:
    x, y = w.to(input), w.to(other)
    apart = w.emit("Neg", w.emit("Abs", w.emit("Sub", x, y)))
    more = w.emit("Log", w.emit("Add", w.to(1), w.emit("Exp", apart)))
    same = w.emit("Equal", x, y)
    more = w.emit("Where", same, w.to(math.log(2)), more)
    return w.emit("Add", w.emit("Max", x, y), more)


def _is_negative(w: Writer, x: str) -> str:
    """Returns whether numbers have a minus, as -0.0 has."""
    minus_zero = w.emit("And", w.emit("Equal", x, w.to(0)), _less_than_zero(w, "Reciprocal", x))
    return str(w.emit("Or", w.emit("Less", x, w.to(0)), minus_zero))


def _less_than_zero(w: Writer, onnx: str, x: str) -> str:
    return str(w.emit("Less", w.emit(onnx, x), w.to(0)))


@op("atan2", "arctan2")
def atan2(w: Writer, input: Value, other: Value) -> Any:
    y, x = w.to(input), w.to(other)
    tall, wide = w.emit("Abs", y), w.emit("Abs", x)
    big, small = w.emit("Max", tall, wide), w.emit("Min", tall, wide)
    ratio = w.emit("Where", w.emit("Equal", big, small), w.to(1), w.emit("Div", small, big))
    ratio = w.emit("Where", w.emit("Equal", big, w.to(0)), w.to(0), ratio)
    angle = w.emit("Atan", ratio)
    steep = w.emit("Sub", w.to(math.pi / 2), angle)
    angle = w.emit("Where", w.emit("Greater", tall, wide), steep, angle)
    angle = w.emit("Where", _is_negative(w, x), w.emit("Sub", w.to(math.pi), angle), angle)
    return w.emit("Where", _is_negative(w, y), w.emit("Neg", angle), angle)
