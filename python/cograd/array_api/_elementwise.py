# SPDX-License-Identifier: BSD-3-Clause
"""Defines the elementwise functions of the array API standard."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import cograd
from cograd import Tensor

from ._dtypes import result_type

_UNARY = {
    name: name
    for name in (
        "acos acosh asin asinh atan atanh cos cosh exp expm1 isfinite isinf isnan log log1p log2 "
        "log10 logical_not reciprocal signbit sin sinh sqrt square tan tanh"
    ).split()
}
_UNARY |= {"abs": "abs", "bitwise_invert": "bitwise_not", "negative": "neg"}
_BINARY = {
    name: name
    for name in (
        "atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign "
        "hypot logaddexp logical_and logical_or logical_xor maximum minimum nextafter pow remainder"
    ).split()
}
_BINARY |= {
    "add": "add",
    "divide": "true_divide",
    "equal": "eq",
    "floor_divide": "floor_divide",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "multiply": "mul",
    "not_equal": "ne",
    "subtract": "sub",
}

__all__ = ["ceil", "clip", "conj", "floor", "imag", "positive", "real", "round", "sign", "trunc"]
__all__ += sorted({*_UNARY, *_BINARY})


def promoted(*values: Any) -> tuple[Tensor, ...]:
    """Converts arrays and numbers to arrays of the dtype that they promote to."""
    dtype = result_type(*values)
    return tuple(
        v.to(dtype) if isinstance(v, Tensor) else cograd.full((), v, dtype=dtype) for v in values
    )


def _need_array(name: str, x: Any) -> None:
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}(): x must be an array, got {type(x).__name__}")


def _unary(name: str, op: Callable[..., Tensor]) -> Any:
    def function(x: Tensor, /) -> Tensor:
        _need_array(name, x)
        return op(x)

    return _named(function, name, f"Returns {name} of each element.")


def _binary(name: str, op: Callable[..., Tensor]) -> Any:
    def function(x1: Any, x2: Any, /) -> Tensor:
        if isinstance(x1, Tensor) and isinstance(x2, Tensor) and x1.dtype == x2.dtype:
            return op(x1, x2)
        return op(*promoted(x1, x2))

    return _named(
        function, name, f"Returns {name} of each pair of elements; one argument may be a number."
    )


def _named(function: Any, name: str, doc: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


for _name, _of in _UNARY.items():
    globals()[_name] = _unary(_name, getattr(cograd, _of))
for _name, _of in _BINARY.items():
    globals()[_name] = _binary(_name, getattr(cograd, _of))


def _rounding(name: str) -> Any:
    op = getattr(cograd, name)

    def function(x: Tensor, /) -> Tensor:
        _need_array(name, x)
        if x.is_complex():
            return cograd.complex(op(x.real), op(x.imag))
        return op(x) if x.is_floating_point() else x.clone()

    return _named(
        function, name, f"Returns {name} of each element, for a complex number {name} of each part."
    )


ceil, floor, round, trunc = (_rounding(name) for name in ("ceil", "floor", "round", "trunc"))


def positive(x: Tensor, /) -> Tensor:
    """Returns a copy."""
    return x.clone()


def conj(x: Tensor, /) -> Tensor:
    """Returns the complex conjugates, or a copy if the elements are real."""
    return cograd.conj(x) if x.is_complex() else x.clone()


def real(x: Tensor, /) -> Tensor:
    """Returns the real parts."""
    return cograd.real(x) if x.is_complex() else x.clone()


def imag(x: Tensor, /) -> Tensor:
    """Returns the imaginary parts."""
    return cograd.imag(x) if x.is_complex() else cograd.zeros_like(x)


def sign(x: Tensor, /) -> Tensor:
    """Returns -1, 0 or 1, or x / abs(x) for complex numbers; nan stays nan."""
    if x.is_complex():
        return cograd.sgn(x)
    return cograd.where(x.isnan(), x, cograd.sign(x)) if x.is_floating_point() else cograd.sign(x)


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """Clamps elements to [``min``, ``max``], in the dtype of ``x``."""
    result = x
    for bound, op in ((min, cograd.maximum), (max, cograd.minimum)):
        if bound is None:
            continue
        if not isinstance(bound, Tensor):
            bound = _within(bound, x.dtype)
        result = op(*promoted(result, bound)).to(x.dtype)
    return result.clone() if result is x else result


def _within(bound: Any, dtype: Any) -> Any:
    """Clamps an integer bound to the range of a dtype."""
    if dtype.is_floating_point or not isinstance(bound, int):
        return bound
    limits = cograd.iinfo(dtype)
    return builtins.min(builtins.max(bound, limits.min), limits.max)
