# SPDX-License-Identifier: BSD-3-Clause
"""Sums, norms and softmax of sparse tensors."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor

from ._convert import coalesce, laid_out_like, to_layout
from ._copies import converted
from ._pattern import Pattern
from ._shape import positive_dim
from ._tensor import SparseTensor, handles, make, refuse
from ._tiles import add_up

__all__ = ["log_softmax", "softmax", "sum"]


def sum(input: Any, dim: Any = None, dtype: Any = None) -> Tensor:
    """Returns the sum over some dims, by default over all.

    The result is sparse if sparse dims remain, else dense.
    """
    if input.dtype == cograd.bool:
        input = coalesce(input)
    values: Tensor = input._v if dtype is None else input._v.to(dtype)
    if dim is None:
        return values.sum()
    s = to_layout(make(input._pattern, values), cograd.sparse_coo)
    pattern, n = s._pattern, len(s._pattern.shape)
    dims = [positive_dim(d, s.dim()) for d in ((dim,) if isinstance(dim, int) else dim)]
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"dim {dim} appears multiple times in the list of dims")
    dense = [d - n + 1 for d in dims if d >= n]
    values = s._v.sum(dense) if dense else s._v
    left = [d for d in range(n) if d not in dims]
    if not left:
        return values.sum(0)
    if len(left) == n:
        return make(pattern, values)
    shape = tuple(pattern.shape[d] for d in left)
    at = pattern.indices()[left]
    return coalesce(make(Pattern(cograd.sparse_coo, shape, (at,)), values))


@handles("sum")
def _sum(
    input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None
) -> Any:
    if out is not None:
        refuse("sum", " with out=")
    wide = dtype
    if wide is None and not (input.dtype.is_floating_point or input.dtype.is_complex):
        wide = cograd.int64
    result = sum(input, dim, wide)
    if keepdim and dim is not None:
        for d in sorted(
            positive_dim(d, input.dim()) for d in ((dim,) if isinstance(dim, int) else dim)
        ):
            result = result.unsqueeze(d)
    return result


@handles("norm")
def _norm(
    input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Any:
    if dim is not None:
        refuse("norm", " along dims")
    return coalesce(input)._v.norm(2 if p in ("fro", None) else p, dtype=dtype)


@handles("any")
def _any(input: Any, dim: Any = None) -> Any:
    if dim is not None:
        refuse("any", " along dims")
    return coalesce(input)._v.any()


def _groups(s: SparseTensor, d: int) -> tuple[Tensor, int]:
    """Returns the number of the line along dim ``d`` that each element is in, and their count."""
    shape = list(s._pattern.shape)
    at = cograd.zeros(s._pattern.nnz, dtype=cograd.int64, device=s.device)
    for i, size in enumerate(shape):
        if i != d:
            at = at * size + s._pattern.indices()[i]
    lines, where = cograd.unique(at, return_inverse=True)
    return where, lines.shape[0]


def _soft(name: str, input: Any, dim: int, dtype: Any, log: bool) -> Tensor:
    if not isinstance(input, SparseTensor):
        raise RuntimeError(f"{name}(): expected a sparse tensor, got a dense one")
    if dtype is not None:
        input = converted(input, dtype)
    if input.numel() and not (input.dtype.is_floating_point or input.dtype.is_complex):
        raise NotImplementedError(f"{name}(): not implemented for {input.dtype}")
    d, like = positive_dim(dim, input.dim()), input._pattern
    s = coalesce(to_layout(input, cograd.sparse_coo))
    n, values = len(s._pattern.shape), s._v
    if d >= n:
        new = (cograd.log_softmax if log else cograd.softmax)(values, d - n + 1)
    elif s._pattern.nnz == 0:
        new = values
    else:
        where, count = _groups(s, d)
        base = values.detach()
        start = values.new_full((count, *values.shape[1:]), float("-inf"))
        place = where.reshape(-1, *(1,) * (values.dim() - 1)).expand_as(base)
        top = start.scatter_reduce(0, place, base, "amax")
        top = cograd.where(cograd.isinf(top) & (top < 0), top.new_zeros(()), top)
        shifted = values - top[where]
        powers = shifted.exp()
        total = add_up(powers, where, count)[where]
        new = shifted - total.log() if log else powers / total
    return laid_out_like(make(s._pattern, new), like)  # type: ignore[no-any-return]


def softmax(input: Any, dim: int, *, dtype: Any = None) -> Tensor:
    """Returns the softmax along ``dim`` over the elements that are stored.

    The others count as -inf.
    """
    return _soft("sparse.softmax", input, dim, dtype, False)


def log_softmax(input: Any, dim: int, *, dtype: Any = None) -> Tensor:
    """Returns the logarithm of ``softmax`` at the elements that are stored."""
    return _soft("sparse.log_softmax", input, dim, dtype, True)
