# SPDX-License-Identifier: BSD-3-Clause
"""Sums, products and quotients of sparse tensors, and functions of their elements."""

from __future__ import annotations

import numbers
from typing import Any

import cograd
from cograd import Tensor

from ._blocks import BlockPattern
from ._convert import (
    coalesce,
    elements,
    found_at,
    laid_out_like,
    same_places,
    to_dense,
    to_layout,
    values_at,
)
from ._pattern import Pattern
from ._tensor import HANDLERS, SparseTensor, handles, make, refuse


def _is_number(x: Any) -> bool:
    if isinstance(x, SparseTensor):
        return False
    return isinstance(x, numbers.Number) or (isinstance(x, Tensor) and x.dim() == 0)


def same_shape(name: str, a: Any, b: Any) -> None:
    """Raises unless two tensors have one shape."""
    if a.shape != b.shape:
        raise RuntimeError(
            f"{name}(): expected sizes of 'self' and 'other' to match, but {list(a.shape)} != "
            f"{list(b.shape)}"
        )


def _scaled(x: Any, alpha: Any) -> Any:
    if alpha == 1:
        return x
    if isinstance(alpha, float) and not (x.dtype.is_floating_point or x.dtype.is_complex):
        raise RuntimeError(
            "For integral input tensors, argument alpha must not be a floating point number."
        )
    return (x * alpha).to(x.dtype)


def _sum_of(a: SparseTensor, b: SparseTensor, alpha: Any) -> SparseTensor:
    same_shape("add", a, b)
    if isinstance(a._pattern, BlockPattern) or isinstance(b._pattern, BlockPattern):
        return _sum_of_blocks(a, b, alpha)
    if len(a._pattern.shape) != len(b._pattern.shape):
        refuse("add", " with different numbers of sparse dims")
    dtype = cograd.result_type(a._v[:0], b._v[:0])
    left, right = a._v.to(dtype), _scaled(b._v, alpha).to(dtype)
    if a._pattern is b._pattern or (
        a._pattern.parts[0] is b._pattern.parts[0] and a._pattern.parts == b._pattern.parts
    ):
        return make(a._pattern, left + right)
    at = cograd.cat((a._pattern.indices(), b._pattern.indices()), 1)
    out = make(Pattern(cograd.sparse_coo, a._pattern.shape, (at,)), cograd.cat((left, right)))
    if a._pattern.coalesced and b._pattern.coalesced:
        out = coalesce(out)
    if a._pattern.is_coo:
        return out
    wanted: SparseTensor = to_layout(out, a._pattern.layout)
    return wanted


def _sum_of_blocks(a: SparseTensor, b: SparseTensor, alpha: Any) -> SparseTensor:
    if same_places(a, b):
        dtype = cograd.result_type(a._v[:0], b._v[:0])
        return make(a._pattern, a._v.to(dtype) + _scaled(b._v, alpha).to(dtype))
    left, right = (to_layout(s, cograd.sparse_coo) for s in (a, b))
    total = _sum_of(left, right, alpha)
    out: SparseTensor = laid_out_like(total, a._pattern, "add")
    return out


def _dense_sum(x: Tensor, s: SparseTensor) -> Tensor:
    """Returns the sum of a dense and a sparse tensor, dense."""
    same_shape("add", x, s)
    if isinstance(s._pattern, BlockPattern):
        total: Tensor = x + to_dense(s)
        return total
    dtype = cograd.result_type(x, s._v[:0].sum(0) if s._v.dim() == 0 else s._v[:0])
    pattern, values = s._pattern, s._v.to(dtype)
    flat = x.to(dtype).reshape(pattern.size, *s.shape[len(pattern.shape) :])
    return flat.index_add(0, pattern.linear(), values).reshape(x.shape)


@handles("add", "__add__", "__radd__")
def add(input: Any, other: Any, *, alpha: Any = 1, out: Any = None) -> Any:
    """Returns ``input + alpha * other``, of which at least one is sparse."""
    if out is not None:
        refuse("add", " with out=")
    a, b = isinstance(input, SparseTensor), isinstance(other, SparseTensor)
    if a and b:
        return _sum_of(input, other, alpha)
    if (
        not isinstance(input, Tensor)
        or not isinstance(other, Tensor)
        or _is_number(other if a else input)
    ):
        raise RuntimeError(
            "add(sparse, dense) is not supported for numbers: the result would have no zeros. "
            "Call to_dense() first"
        )
    if isinstance(input, SparseTensor):
        return _dense_sum(_scaled(other, alpha), input)
    scaled: Any = _scaled(other, alpha)
    return _dense_sum(input, scaled)


@handles("sub", "subtract", "__sub__")
def _sub(input: Any, other: Any, *, alpha: Any = 1, out: Any = None) -> Any:
    if any(getattr(t, "dtype", None) == cograd.bool for t in (input, other)):
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying "
            "to invert a mask, use the `~` or `logical_not()` operator instead."
        )
    return add(input, other, alpha=-alpha, out=out)


@handles("rsub", "__rsub__")
def _rsub(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    return _sub(other, self, alpha=alpha)


@handles("add_", "__iadd__")
def _add_(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    if isinstance(self, SparseTensor):
        if not isinstance(other, SparseTensor):
            raise RuntimeError(
                "add_(): add(sparse, dense) is not supported in place. Use add(dense, sparse) "
                "instead, or call to_dense() first"
            )
        return _written(self, _sum_of(self, other, alpha))
    same_shape("add_", self, other)
    other = to_layout(other, cograd.sparse_coo)
    pattern = other._pattern
    values = _scaled(other._v, alpha).to(self.dtype)
    if len(pattern.shape) == 1:
        return self.index_add_(0, pattern.parts[0][0], values)
    if not pattern.shape:
        return self.add_(values.sum(0))
    return self.index_put_(tuple(pattern.indices()), values, accumulate=True)


@handles("sub_", "subtract_", "__isub__")
def _sub_(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    return _add_(self, other, alpha=-alpha)


def _written(self: SparseTensor, result: SparseTensor) -> SparseTensor:
    if result.dtype != self.dtype:
        raise RuntimeError(
            f"result type {result.dtype} can't be cast to the desired output type {self.dtype}"
        )
    return self._replace(result)


def _both(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    """Returns the product of the elements that both have."""
    same_shape("mul", a, b)
    a, b = coalesce(a), coalesce(b)
    if same_places(a, b):
        return make(a._pattern, a._v * b._v)
    if isinstance(a._pattern, BlockPattern) or isinstance(b._pattern, BlockPattern):
        return make(a._pattern, a._v * values_at(b, a))
    hits: Any = cograd.isin(a._pattern.linear(), b._pattern.linear()).nonzero()
    there = hits[:, 0]
    linear = a._pattern.linear()[there]
    at = a._pattern.indices()[:, there]
    pattern = Pattern(cograd.sparse_coo, a._pattern.shape, (at,), True)
    product = make(pattern, a._v[there] * found_at(b, linear))
    return product if a._pattern.is_coo else to_layout(product, a._pattern.layout)


@handles("mul", "multiply", "__mul__", "__rmul__")
def _mul(input: Any, other: Any, *, out: Any = None) -> Any:
    if out is not None:
        refuse("mul", " with out=")
    if not isinstance(input, SparseTensor):
        input, other = other, input
    if _is_number(other):
        return make(input._pattern, input._v * other)
    if not isinstance(other, Tensor):
        return NotImplemented
    if isinstance(other, SparseTensor):
        return _both(input, other)
    try:
        spread = other.expand(input.shape)
    except RuntimeError:
        refuse("mul", f" of shape {tuple(input.shape)} with a tensor of shape {tuple(other.shape)}")
    return make(input._pattern, input._v * elements(spread, input))


@handles("mul_", "multiply_", "__imul__")
def _mul_(self: Any, other: Any) -> Any:
    if not isinstance(self, SparseTensor):
        refuse("mul_", " as the factor of a dense tensor in place")
    return _written(self, _mul(self, other))


@handles("div", "divide", "true_divide", "__truediv__")
def _div(input: Any, other: Any, *, rounding_mode: str | None = None, out: Any = None) -> Any:
    if out is not None:
        refuse("div", " with out=")
    if not isinstance(input, SparseTensor) or not _is_number(other):
        got = list(other.shape) if isinstance(other, Tensor) else type(other).__name__
        raise RuntimeError(
            "Sparse division requires a scalar or zero-dim dense tensor divisor (got shape "
            f"{got} for divisor)"
        )
    if rounding_mode is not None:
        input = coalesce(input)
    return make(input._pattern, input._v.div(other, rounding_mode=rounding_mode))


@handles("floor_divide", "__floordiv__")
def _floor_divide(input: Any, other: Any) -> Any:
    return _div(input, other, rounding_mode="floor")


@handles("div_", "divide_", "true_divide_", "__itruediv__")
def _div_(self: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    return _written(self, _div(self, other, rounding_mode=rounding_mode))


@handles("pow", "__pow__")
def _pow(input: Any, exponent: Any, *, out: Any = None) -> Any:
    positive = isinstance(exponent, (int, float)) and exponent > 0
    if out is not None or not positive:
        refuse("pow", f" but to a positive number (exponent {exponent!r})")
    s = coalesce(input)
    values: Any = s._v**exponent
    return make(s._pattern, values)


_LINEAR = "neg negative positive conj conj_physical resolve_conj"
_UNARY = (
    "abs absolute asin arcsin asinh arcsinh atan arctan ceil deg2rad erf erfinv expm1 floor frac "
    "isinf isnan isneginf isposinf log1p nan_to_num rad2deg relu round sgn sign signbit sin sinh "
    "sqrt square tan tanh trunc fix"
)


def _unary(name: str, linear: bool) -> None:
    def compute(input: Any, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        if out is not None:
            refuse(name, " with out=")
        s = input if linear else coalesce(input)
        return make(s._pattern, getattr(s._v, name)(*args, **kwargs))

    def compute_(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _written(self, compute(self, *args, **kwargs))

    compute.__doc__ = f"Applies ``{name}`` to the values."
    handles(name)(compute)
    handles(name + "_")(compute_)


for _name in _LINEAR.split():
    _unary(_name, True)
for _name in _UNARY.split():
    _unary(_name, False)
handles("__neg__")(HANDLERS["neg"])
handles("__pos__")(HANDLERS["positive"])
handles("__abs__")(HANDLERS["abs"])
for _name in ("isinf_", "isnan_", "isneginf_", "isposinf_", "signbit_", "positive_", "conj_"):
    del HANDLERS[_name]
