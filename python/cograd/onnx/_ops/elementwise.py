# SPDX-License-Identifier: BSD-3-Clause
"""Functions of single elements, comparisons and where."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import cograd
from cograd.onnx._ops._table import OPS, many, op, promoted, refuse, scaled, unlike
from cograd.onnx._writer import Value, Writer

# One ONNX node each: the op, and the name here.
_UNARY = """
Exp exp, Log log, Sqrt sqrt, Sin sin, Cos cos, Tan tan, Asin asin arcsin, Acos acos arccos,
Atan atan arctan, Sinh sinh, Cosh cosh, Asinh asinh arcsinh, Acosh acosh arccosh,
Atanh atanh arctanh, Tanh tanh, Sigmoid sigmoid special_expit, Erf erf special_erf,
Reciprocal reciprocal, Abs abs absolute, Neg neg negative, Softsign softsign
"""
_COMPARE = """
Equal eq, Less lt less, LessOrEqual le less_equal, Greater gt greater,
GreaterOrEqual ge greater_equal
"""
_LOGICAL = "And logical_and, Or logical_or, Xor logical_xor"
_BITS = "And and_ bitwise_and, Or or_ bitwise_or, Xor xor bitwise_xor"


def _rows(text: str) -> Any:
    for row in text.replace("\n", " ").split(","):
        onnx, *names = row.split()
        yield onnx, names


def _unary(onnx: str) -> Callable[..., Any]:
    return lambda w, input: w.emit(onnx, w.to(input))


def _comparison(onnx: str) -> Callable[..., Any]:
    def compare(w: Writer, input: Any, other: Any) -> str:
        dtype = promoted(input, other)
        if dtype is cograd.bool and onnx != "Equal":
            dtype = cograd.int32
        return unlike(w, w.emit(onnx, *many(w, dtype, input, other)), cograd.bool)

    return compare


def _logical(onnx: str) -> Callable[..., Any]:
    return lambda w, input, other: unlike(
        w, w.emit(onnx, *many(w, cograd.bool, input, other)), cograd.bool
    )


def _bits(onnx: str) -> Callable[..., Any]:
    def compute(w: Writer, input: Any, other: Any) -> Any:
        dtype = promoted(input, other)
        name = onnx if dtype is cograd.bool else f"Bitwise{onnx}"
        return unlike(w, w.emit(name, *many(w, dtype, input, other)), dtype)

    return compute


for _table, _make in (
    (_UNARY, _unary),
    (_COMPARE, _comparison),
    (_LOGICAL, _logical),
    (_BITS, _bits),
):
    for _onnx, _names in _rows(_table):
        op(*_names)(_make(_onnx))


@op("ne", "not_equal")
def ne(w: Writer, input: Any, other: Any) -> Any:
    equal = w.emit("Equal", *many(w, promoted(input, other), input, other))
    return unlike(w, w.emit("Not", equal), cograd.bool)


@op("logical_not", "__invert__", "bitwise_not", "invert")
def logical_not(w: Writer, input: Value) -> Any:
    if w.dtype is cograd.bool:
        return w.emit("Not", w.cast(input, cograd.bool))
    return w.emit("BitwiseNot", input)


for _onnx, _name in (("Floor", "floor"), ("Ceil", "ceil")):
    OPS[_name] = lambda w, input, onnx=_onnx: (
        w.emit(onnx, input) if input.dtype.is_floating_point else w.emit("Identity", input)
    )


@op("round")
def round(w: Writer, input: Value, *, decimals: int = 0) -> Any:
    if not input.dtype.is_floating_point:
        return w.emit("Identity", input)
    if not decimals:
        return w.emit("Round", input)
    factor = w.to(10.0 ** abs(decimals))
    first, second = ("Mul", "Div") if decimals > 0 else ("Div", "Mul")
    return w.emit(second, w.emit("Round", w.emit(first, input, factor)), factor)


@op("sign", "sgn")
def sign(w: Writer, input: Value) -> Any:
    if not input.dtype.is_floating_point:
        return (
            w.emit("Sign", input) if input.dtype is not cograd.bool else w.emit("Identity", input)
        )
    zero = w.to(0)  # a NaN has the sign 0
    up, down = (w.cast(w.emit(t, input, zero), w.dtype, cograd.bool) for t in ("Greater", "Less"))
    return w.emit("Sub", up, down)


@op("trunc", "fix")
def trunc(w: Writer, input: Value) -> Any:
    if not input.dtype.is_floating_point:
        return w.emit("Identity", input)
    return _truncated(w, input)


def _truncated(w: Writer, x: Any) -> Any:
    return w.emit("Mul", w.emit("Sign", x), w.emit("Floor", w.emit("Abs", x)))


@op("frac")
def frac(w: Writer, input: Value) -> Any:
    return w.emit("Sub", input, trunc(w, input))


@op("isnan")
def isnan(w: Writer, input: Value) -> Any:
    if not input.dtype.is_floating_point:
        return w.emit("Not", w.emit("Equal", input, input))
    return w.emit("IsNaN", input)


@op("isinf")
def isinf(w: Writer, input: Value) -> Any:
    wide = input.dtype if input.dtype in (cograd.float32, cograd.float64) else cograd.float32
    return w.emit("IsInf", w.cast(input, wide))


@op("isfinite")
def isfinite(w: Writer, input: Value) -> Any:
    if not input.dtype.is_floating_point:
        return w.emit("Equal", input, input)
    return w.emit("Not", w.emit("Or", isnan(w, input), isinf(w, input)))


@op("square")
def square(w: Writer, input: Value) -> Any:
    return w.emit("Mul", w.to(input), w.to(input))


@op("rsqrt")
def rsqrt(w: Writer, input: Value) -> Any:
    return w.emit("Reciprocal", w.emit("Sqrt", w.to(input)))


for _name, _base in (("log2", 2), ("log10", 10)):
    OPS[_name] = lambda w, input, base=_base: w.emit(
        "Div", w.emit("Log", w.to(input)), w.to(math.log(base))
    )


@op("exp2", "special_exp2")
def exp2(w: Writer, input: Value) -> Any:
    return w.emit("Pow", w.to(2), w.to(input))


@op("log1p", "special_log1p")
def log1p(w: Writer, input: Value) -> Any:
    # log(u) * x / (u - 1) with u = 1 + x has full precision near 0, where log(u) alone has none.
    x, one = w.to(input), w.to(1)
    u = w.emit("Add", x, one)
    away = w.emit("Sub", u, one)
    plain = w.emit(
        "Or", w.emit("Equal", away, x), w.emit("IsInf", w.cast(u, cograd.float32, w.dtype))
    )
    safe = w.emit("Where", w.emit("Equal", away, w.to(0)), one, away)
    better = w.emit("Mul", w.emit("Log", u), w.emit("Div", x, safe))
    near = w.emit("Where", w.emit("Equal", away, w.to(0)), x, better)
    return w.emit("Where", plain, w.emit("Log", u), near)


@op("expm1", "special_expm1")
def expm1(w: Writer, input: Value) -> Any:
    # tanh(x / 2) * (exp(x) + 1) has full precision near 0, where exp(x) - 1 has none.
    x = w.to(input)
    half = w.emit("Tanh", w.emit("Mul", x, w.to(0.5)))
    return w.emit("Mul", half, w.emit("Add", w.emit("Exp", x), w.to(1)))


@op("erfc", "special_erfc")
def erfc(w: Writer, input: Value) -> Any:
    return w.emit("Sub", w.to(1), w.emit("Erf", w.to(input)))


@op("add")
def add(w: Writer, input: Any, other: Any, *, alpha: Any = 1, onnx: str = "Add") -> Any:
    if w.dtype is cograd.bool and onnx == "Add":
        return w.emit("Or", w.to(input), w.to(other))
    return w.emit(onnx, w.to(input), scaled(w, w.to(other), alpha))


OPS["sub"] = OPS["subtract"] = lambda w, input, other, *, alpha=1: add(
    w, input, other, alpha=alpha, onnx="Sub"
)
OPS["rsub"] = lambda w, input, other, *, alpha=1: add(w, other, input, alpha=alpha, onnx="Sub")


@op("mul", "multiply")
def mul(w: Writer, input: Any, other: Any) -> Any:
    onnx = "And" if w.dtype is cograd.bool else "Mul"
    return w.emit(onnx, w.to(input), w.to(other))


@op("div", "divide", "truediv", "true_divide")
def div(w: Writer, input: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    if rounding_mode == "floor":
        return floordiv(w, input, other)
    x, y = w.to(input), w.to(other)
    found = w.emit("Div", x, y)
    if rounding_mode == "trunc" and w.dtype.is_floating_point:
        return _truncated(w, found)
    return found


@op("floordiv", "floor_divide")
def floordiv(w: Writer, input: Any, other: Any) -> Any:
    x, y = w.to(input), w.to(other)
    if w.dtype.is_floating_point:
        rest = w.emit("Mod", x, y, fmod=1)
        whole = w.emit("Div", w.emit("Sub", x, rest), y)
        less = w.emit("Sub", whole, w.to(1))
        whole = w.emit("Round", w.emit("Where", _opposite(w, rest, y), less, whole))
        return w.emit("Where", w.emit("Equal", y, w.to(0)), w.emit("Div", x, y), whole)
    return w.emit("Div", w.emit("Sub", x, w.emit("Mod", x, y)), y)


def _float_mod(w: Writer, x: str, y: str) -> str:
    """Returns the remainder with the sign of ``y``."""
    rest = w.emit("Mod", x, y, fmod=1)
    return str(w.emit("Where", _opposite(w, rest, y), w.emit("Add", rest, y), rest))


def _opposite(w: Writer, rest: str, y: str) -> str:
    """Returns whether a remainder has another sign than the divisor."""
    return str(w.emit("Less", w.emit("Mul", w.emit("Sign", rest), w.emit("Sign", y)), w.to(0)))


@op("remainder", "mod")
def remainder(w: Writer, input: Any, other: Any) -> Any:
    x, y = w.to(input), w.to(other)
    return _float_mod(w, x, y) if w.dtype.is_floating_point else w.emit("Mod", x, y)


@op("fmod")
def fmod(w: Writer, input: Any, other: Any) -> Any:
    return w.emit("Mod", w.to(input), w.to(other), fmod=1)


@op("pow")
def power(w: Writer, input: Any, exponent: Any) -> Any:
    if isinstance(exponent, (int, float)):
        x = w.to(input)
        if exponent == 2:
            return w.emit("Mul", x, x)
        if exponent == 0.5:
            return w.emit("Sqrt", x)
    return w.emit("Pow", w.to(input), w.to(exponent))


@op("minimum")
def minimum(w: Writer, input: Any, other: Any, onnx: str = "Min") -> Any:
    if w.dtype is cograd.bool:
        return w.emit({"Min": "And", "Max": "Or"}[onnx], w.to(input), w.to(other))
    return w.emit(onnx, w.to(input), w.to(other))


OPS["maximum"] = lambda w, input, other: minimum(w, input, other, "Max")


@op("clamp", "clip")
def clamp(w: Writer, input: Value, min: Any = None, max: Any = None) -> Any:
    found = w.to(input)
    found = found if min is None else w.emit("Max", found, w.to(min))
    return found if max is None else w.emit("Min", found, w.to(max))


OPS["clamp_min"] = lambda w, input, min: clamp(w, input, min)
OPS["clamp_max"] = lambda w, input, max: clamp(w, input, None, max)


@op("where")
def where(w: Writer, condition: Value, *choices: Any, input: Any = None, other: Any = None) -> Any:
    if not choices and input is None:
        raise refuse("where() with a condition alone")
    if w.is_method:  # x.where(condition, other)
        condition, choices = choices[0], (condition, *choices[1:])
    first, second = (
        choices if len(choices) == 2 else (*choices, other)[:2] if choices else (input, other)
    )
    return w.emit("Where", w.cast(condition, cograd.bool), w.to(first), w.to(second))


OPS["masked_fill"] = lambda w, input, mask, value: w.emit(
    "Where", w.cast(mask, cograd.bool), w.to(value), w.to(input)
)


@op("lerp")
def lerp(w: Writer, input: Value, end: Value, weight: Any) -> Any:
    x = w.to(input)
    return w.emit("Add", x, w.emit("Mul", w.to(weight), w.emit("Sub", w.to(end), x)))


@op("addcmul")
def addcmul(w: Writer, input: Any, a: Any, b: Any, *, value: Any = 1, onnx: str = "Mul") -> Any:
    return w.emit("Add", w.to(input), scaled(w, w.emit(onnx, w.to(a), w.to(b)), value))


OPS["addcdiv"] = lambda w, input, a, b, *, value=1: addcmul(w, input, a, b, value=value, onnx="Div")


@op("fill", "zero")
def fill(w: Writer, input: Value, value: Any = 0) -> Any:
    return w.emit("Expand", w.to(value, input.dtype), w.emit("Shape", input))


@op("copy")
def copy(w: Writer, input: Value, src: Any, non_blocking: bool = False) -> Any:
    return w.emit("Expand", w.to(src, input.dtype), w.emit("Shape", input))


@op("nan_to_num")
def nan_to_num(
    w: Writer, input: Value, nan: Any = None, posinf: Any = None, neginf: Any = None
) -> Any:
    if not input.dtype.is_floating_point:
        return w.emit("Identity", input)
    limits = cograd.finfo(input.dtype)
    high = limits.max if posinf is None else posinf
    low = limits.min if neginf is None else neginf
    found = w.emit("Where", w.emit("IsNaN", input), w.to(nan or 0.0), input)
    found = w.emit("Where", w.emit("Equal", found, w.to(math.inf)), w.to(high), found)
    return w.emit("Where", w.emit("Equal", found, w.to(-math.inf)), w.to(low), found)
