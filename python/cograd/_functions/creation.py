# SPDX-License-Identifier: BSD-3-Clause
"""empty_permuted, range and vander, which create tensors, and unravel_index."""

from __future__ import annotations

import builtins
import math
import warnings
from collections.abc import Sequence
from typing import Any

import cograd
from cograd import _C
from cograd._C import Tensor

__all__ = ["empty_permuted", "range", "unravel_index", "vander"]


def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Converts flat ``indices`` (integers) to coordinates in a tensor of ``shape``, a tensor a dim.

    Raises TypeError for indices that are not integers, ValueError for a negative size.
    """
    if indices.dtype.is_floating_point or indices.dtype.is_complex or indices.dtype is _C.bool:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if not all(isinstance(n, int) for n in sizes):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {shape!r}")
    if any(n < 0 for n in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {sizes}")
    parts, step = [], 1
    indices = indices.to(_C.int64)
    for n in reversed(sizes):
        parts.append(indices.div(step, rounding_mode="floor") % n)
        step *= n
    return tuple(reversed(parts))


def range(
    start: float = 0,
    end: float | None = None,
    step: float = 1,
    *,
    out: Tensor | None = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Returns start, start + step, ... up to and including ``end``; see ``arange``."""
    if end is None:
        raise TypeError('range() missing 1 required positional arguments: "end"')
    warnings.warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is "
        "inconsistent with Python's range builtin. Instead, use torch.arange, which produces "
        "values in [start, end).",
        stacklevel=2,
    )
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    wanted = cograd.get_default_dtype() if dtype is None else dtype
    exact = _C.float64 if wanted.is_floating_point else wanted
    count = math.floor((end - start) / step) + 1
    values = cograd.arange(count, dtype=exact, layout=layout, device=device) * step + start
    result = values.to(wanted)
    if out is not None:
        return out.resize_(count).copy_(result)
    return result.requires_grad_() if requires_grad else result


def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """Returns the matrix (n, N) of powers of a vector (n), descending unless ``increasing``."""
    if x.dim() != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    count = x.shape[0] if N is None else N
    if count < 0:
        raise RuntimeError("N must be non-negative.")
    powers = None if increasing else cograd.arange(count - 1, -1, -1, device=x.device)
    if not (x.is_floating_point() or x.is_complex()):
        x = x.to(_C.int64)
    ones = x.new_ones((x.shape[0], 1))
    if count == 0:
        return ones[:, :0]
    table = cograd.cat((ones, x.unsqueeze(1).expand(-1, count - 1)), 1).cumprod(1)
    return table if powers is None else table[:, powers]


def empty_permuted(
    size: Sequence[int],
    physical_layout: Sequence[int],
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Returns a new tensor of ``size`` whose dims are stored in the order ``physical_layout``."""
    n = len(size)
    if len(physical_layout) != n:
        raise RuntimeError(
            "Number of dimensions in size does not match the length of the physical_layout; i.e. "
            f"len(size) = {n} is not equal to len(physical_layout) = {len(physical_layout)}"
        )
    for d in physical_layout:
        if not 0 <= d < n:
            raise RuntimeError(f"Dimension out of range (expected to be between 0 and {n - 1}, "
                               f"but got {d})")  # fmt: skip
    if len(set(physical_layout)) != n:
        raise RuntimeError("Duplicate dim not allowed")
    dense = cograd.empty(
        [size[d] for d in physical_layout],
        dtype=dtype,
        layout=layout,
        device=device,
        pin_memory=pin_memory,
    )
    order = [list(physical_layout).index(d) for d in builtins.range(n)]
    return dense.permute(order).detach().requires_grad_(requires_grad)
