# SPDX-License-Identifier: BSD-3-Clause
"""Reductions and running sums of the standard."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor

from ._manipulation import _axes

__all__ = [
    "all",
    "any",
    "cumulative_prod",
    "cumulative_sum",
    "max",
    "mean",
    "min",
    "prod",
    "std",
    "sum",
    "var",
]


def _wide(x: Tensor, dtype: Any) -> Tensor:
    """Converts to the dtype of sums: integers to int64 or uint64, bools to int64."""
    if dtype is None:
        dtype = x.dtype
        if not (x.is_floating_point() or x.is_complex()):
            dtype = cograd.int64 if x.dtype == cograd.bool or x.is_signed() else cograd.uint64
    return x.to(dtype)


def sum(x: Tensor, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Returns the sum over axes."""
    x = _wide(x, dtype)
    axes = _axes(x, axis)
    return cograd.sum(x, axes, keepdim=keepdims, dtype=x.dtype) if axes else x.clone()


def prod(x: Tensor, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Returns the product over axes."""
    x = _wide(x, dtype)
    for one in sorted((a % x.ndim for a in _axes(x, axis)), reverse=True):
        x = cograd.prod(x, one, keepdim=keepdims, dtype=x.dtype)
    return x


def _extreme(name: str, x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    axes = _axes(x, axis)
    if not axes:
        return x.clone()
    return getattr(cograd, name)(x, axes, keepdim=keepdims)  # type: ignore[no-any-return]


def max(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Returns the largest element along axes."""
    return _extreme("amax", x, axis, keepdims)


def min(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Returns the smallest element along axes."""
    return _extreme("amin", x, axis, keepdims)


def all(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Returns whether all elements along axes are true."""
    axes = _axes(x, axis)
    x = x.to(cograd.bool)
    return cograd.all(x, axes, keepdim=keepdims) if axes else x


def any(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Returns whether any element along axes is true."""
    axes = _axes(x, axis)
    x = x.to(cograd.bool)
    return cograd.any(x, axes, keepdim=keepdims) if axes else x


def mean(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Returns the mean over axes."""
    axes = _axes(x, axis)
    return cograd.mean(x, axes, keepdim=keepdims) if axes else x.clone()


def var(x: Tensor, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """Returns the variance over axes: the sum of squares divided by count - ``correction``."""
    axes = _axes(x, axis)
    if not axes:
        return cograd.zeros_like(x)
    return cograd.var(x, axes, correction=correction, keepdim=keepdims)


def std(x: Tensor, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """Returns the square root of the variance over axes."""
    axes = _axes(x, axis)
    if not axes:
        return cograd.zeros_like(x)
    return cograd.std(x, axes, correction=correction, keepdim=keepdims)


def _running(
    name: str, start: int, x: Tensor, axis: int | None, dtype: Any, include_initial: bool
) -> Tensor:
    if axis is None:
        if x.ndim > 1:
            raise ValueError(f"cumulative_{name}(): an axis must be given for {x.ndim} dims")
        axis = 0
    x = _wide(x, dtype)
    result: Tensor = getattr(cograd, "cum" + name)(x, axis, dtype=x.dtype)
    if include_initial:
        shape = list(x.shape)
        shape[axis] = 1
        first = cograd.full(shape, start, dtype=result.dtype)
        result = cograd.cat([first, result], axis)
    return result


def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Returns running sums along an axis, starting with 0 if ``include_initial``."""
    return _running("sum", 0, x, axis, dtype, include_initial)


def cumulative_prod(
    x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Returns running products along an axis, starting with 1 if ``include_initial``."""
    return _running("prod", 1, x, axis, dtype, include_initial)
