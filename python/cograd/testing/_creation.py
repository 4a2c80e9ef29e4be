# SPDX-License-Identifier: BSD-3-Clause
"""make_tensor: random tensors for tests."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import cograd
from cograd import Tensor

__all__ = ["make_tensor"]


def _bounds(
    dtype: Any, low: Any, high: Any, least: Any, most: Any, defaults: tuple[Any, Any]
) -> tuple[Any, Any]:
    """Returns ``low`` and ``high`` or their defaults, clamped to the range of ``dtype``."""
    low = defaults[0] if low is None else low
    high = defaults[1] if high is None else high
    if any(isinstance(value, float) and math.isnan(value) for value in (low, high)):
        raise ValueError(f"`low` and `high` cannot be NaN, but got {low=} and {high=}")
    if low == high and dtype.is_floating_point:
        warnings.warn(
            "Passing `low==high` to `make_tensor` for floating types is deprecated. "
            "Use `cograd.full(...)` instead.",
            FutureWarning,
            stacklevel=4,
        )
    elif low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    elif high < least or low >= most:
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{low}, {high}), "
            f"but {dtype} only supports [{least}, {most})"
        )
    low, high = min(max(low, least), most), min(max(high, least), most)
    return (low, high) if dtype.is_floating_point else (math.ceil(low), math.ceil(high))


def _random(shape: tuple[int, ...], dtype: Any, device: Any, low: Any, high: Any) -> Tensor:
    if dtype == cograd.bool:
        low, high = _bounds(dtype, low, high, 0, 2, (0, 2))
        return cograd.randint(low, high, shape, device=device, dtype=dtype)
    if dtype.is_complex:
        parts = (*shape, 2)
        return cograd.view_as_complex(_random(parts, dtype.to_real(), device, low, high))
    if dtype.is_floating_point:
        info = cograd.finfo(dtype)
        low, high = _bounds(dtype, low, high, info.min, info.max, (-9, 9))
        result = cograd.empty(shape, device=device, dtype=dtype)
        if high - low >= cograd.finfo(dtype).max:  # the width overflows: sample half of it
            return result.uniform_(low / 2, high / 2).mul_(2)
        return result.uniform_(low, high)
    limits = cograd.iinfo(dtype)
    # The upper end of randint is an int64 too, so it cannot exceed the largest int64.
    most = limits.max + (0 if dtype == cograd.int64 else 1)
    low, high = _bounds(dtype, low, high, limits.min, most, (-9, 10))
    return cograd.randint(low, high, shape, device=device, dtype=dtype)


def _least(dtype: Any) -> float:
    """Returns the smallest positive value of a dtype."""
    return cograd.finfo(dtype).tiny if dtype.is_floating_point or dtype.is_complex else 1


def make_tensor(
    *shape: int | Sequence[int],
    dtype: Any,
    device: Any = "cpu",
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Returns a tensor of uniform random values in [low, high).

    Args:
        shape: sizes, one by one or as one sequence.
        dtype: dtype of the result; for a complex dtype, both parts are sampled.
        device: "cpu".
        low, high: -9 and 9 for floats, -9 and 10 for integers, 0 and 2 for bool.
        requires_grad: whether the result requires grad.
        noncontiguous: return every second element of a tensor twice as long in the last dim.
        exclude_zero: replace zeros by the smallest positive value.
        memory_format: memory format of the result; not together with ``noncontiguous``.

    Raises:
        ValueError: the interval is empty or impossible, or ``requires_grad`` for integers.
    """
    if len(shape) == 1 and isinstance(shape[0], Sequence):
        sizes = tuple(shape[0])
    else:
        sizes = tuple(shape)  # type: ignore[arg-type]
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "The parameters `noncontiguous` and `memory_format` are mutually exclusive, "
            f"but got {noncontiguous=} and {memory_format=}"
        )
    if requires_grad and not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(
            "`requires_grad=True` is not supported for boolean and integral dtypes, "
            f"but got {dtype=}"
        )
    noncontiguous = noncontiguous and math.prod(sizes) > 1
    drawn = (*sizes[:-1], 2 * sizes[-1]) if noncontiguous else sizes
    result = _random(drawn, dtype, device, low, high)
    if noncontiguous:  # starts at 1, so that the storage offset is not zero either
        result = result[..., 1::2]
    if exclude_zero:
        result[result == 0] = _least(dtype)
    if requires_grad:
        result.requires_grad_()
    return result
