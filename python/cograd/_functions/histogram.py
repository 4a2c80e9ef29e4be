# SPDX-License-Identifier: BSD-3-Clause
"""Histograms."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

import cograd
from cograd import _C
from cograd._base.return_types import make
from cograd._C import Tensor

__all__ = ["histogramdd"]

_Histogramdd = make("histogramdd", "hist, bin_edges")


def _edges_of(flat: Tensor, bins: Sequence[int], range: Sequence[float] | None) -> list[Tensor]:
    n = len(bins)
    if range is not None and len(range) != 2 * n:
        raise RuntimeError(
            f"torch.histogramdd: for a {n}-dimensional histogram range should have {2 * n} "
            f"elements, but got {len(range)}"
        )
    edges = []
    for i, count in enumerate(bins):
        if count < 1:
            raise RuntimeError(f"torch.histogramdd: bins must be positive, got {count}")
        if range is not None:
            low, high = float(range[2 * i]), float(range[2 * i + 1])
        elif flat.shape[0] == 0:
            low, high = 0.0, 1.0
        else:
            low, high = flat[:, i].min().item(), flat[:, i].max().item()
        if not (math.isfinite(low) and math.isfinite(high)):
            raise RuntimeError(
                f"torch.histogramdd: dimension {i}'s range [{low}, {high}] is not finite"
            )
        if low > high:
            raise RuntimeError("torch.histogramdd: min should not exceed max, but got min "
                               f"{low} max {high} for dimension {i}")  # fmt: skip
        if low == high:
            low, high = low - 0.5, high + 0.5
        edges.append(cograd.linspace(low, high, count + 1, dtype=flat.dtype, device=flat.device))
    return edges


def histogramdd(
    input: Tensor,
    bins: int | Sequence[int] | Sequence[Tensor],
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """Counts the points in the cells of a grid; also returns the grid's edges along each axis.

    Args:
        input: points (*, n) of a floating dtype.
        bins: the number of cells along each axis (one int: along all), or for each axis a 1-d
            tensor of ascending edges; the last cell is closed.
        range: lower and upper end of each axis, 2 n numbers; by default those of the data.
        weight: the weight of each point, of shape (*).
        density: whether to normalize so that the integral over the grid is 1.

    Returns ``hist`` of n dims and ``bin_edges``, a tuple of n tensors, both of input's dtype.
    """
    if input.dim() < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions")
    n = input.shape[-1]
    wanted: list[Any] = [bins] * n if isinstance(bins, int) else list(bins)
    if len(wanted) != n:
        raise RuntimeError(
            "histogramdd: The size of bins must be equal to the innermost dimension of the input."
        )
    if weight is not None and weight.shape != input.shape[:-1]:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the "
            "input tensor excluding its innermost dimension, but got input with shape "
            f"{list(input.shape)} and weight with shape {list(weight.shape)}"
        )
    if weight is not None and weight.dtype is not input.dtype:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor "
            f"should have the same dtype, but got {input.dtype} and {weight.dtype}"
        )
    flat = input.detach().reshape(-1, n)
    if wanted and isinstance(wanted[0], Tensor):
        if range is not None:
            raise TypeError("histogramdd(): range is not allowed when bins are tensors of edges")
        edges = wanted
    else:
        edges = _edges_of(flat, wanted, range)
    counts = [e.numel() - 1 for e in edges]
    cell = cograd.zeros(flat.shape[0], dtype=_C.int64, device=flat.device)
    inside = cograd.ones(flat.shape[0], dtype=_C.bool, device=flat.device)
    for i, (e, count) in enumerate(zip(edges, counts, strict=True)):
        x = flat[:, i].contiguous()
        at = cograd.searchsorted(e, x, right=True) - 1
        at = cograd.where(x == e[-1], count - 1, at)
        inside &= (x >= e[0]) & (x <= e[-1])
        cell = cell * count + at
    w = flat.new_ones(flat.shape[0])
    if weight is not None:
        w = weight.detach().reshape(-1)
    hist = cograd.bincount(cell[inside], w[inside], minlength=math.prod(counts))
    hist = hist.to(input.dtype).reshape(counts)
    if density:
        hist = hist / hist.sum()
        for i, e in enumerate(edges):
            hist = hist / e.diff().reshape([-1 if d == i else 1 for d in builtins.range(n)])
    return _Histogramdd(hist, tuple(edges))
