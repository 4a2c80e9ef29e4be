# SPDX-License-Identifier: BSD-3-Clause
"""Lookups in a table whose gradient is sparse: embeddings with sparse=True."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor
from cograd.autograd import Function

from ._convert import to_dense
from ._pattern import Pattern
from ._tensor import make

__all__ = ["embedding_bag_rows", "embedding_rows"]


class SparseEmbedding(Function):
    """Looks rows up. The gradient of a leaf is sparse, that of another table dense."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, index: Tensor, padding: int, leaf: bool) -> Tensor:
        ctx.index, ctx.padding, ctx.leaf, ctx.rows = index, padding, leaf, weight.shape[0]
        return (
            weight.detach()
            .index_select(0, index.reshape(-1))
            .reshape(*index.shape, weight.shape[1])
        )

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        index, values = ctx.index.reshape(1, -1).to(cograd.int64), g.reshape(-1, g.shape[-1])
        if ctx.padding >= 0:
            keep = (index[0] != ctx.padding).nonzero()[:, 0]
            index, values = index[:, keep], values[keep]
        gradient = make(Pattern(cograd.sparse_coo, (ctx.rows,), (index,)), values)
        return gradient if ctx.leaf else to_dense(gradient), None, None, None


def embedding_rows(index: Tensor, weight: Tensor, padding: int | None) -> Tensor:
    """Returns the rows of a table that requires grad; their gradient is sparse."""
    found: Tensor = SparseEmbedding.apply(
        weight, index.detach(), -1 if padding is None else padding, weight.is_leaf
    )
    return found


def embedding_bag_rows(
    index: Tensor,
    weight: Tensor,
    offsets: Tensor,
    mode: str,
    last: bool,
    factors: Tensor | None,
    padding: int | None,
) -> Tensor:
    """Returns the sums or means of the rows in each bag; the gradient of the table is sparse."""
    begins = (offsets[:-1] if last else offsets).to(cograd.int64)
    places = cograd.arange(index.numel(), dtype=cograd.int64, device=index.device)
    bags = cograd.searchsorted(begins, places, right=True) - 1
    if padding is not None:
        there: Any = (index != padding).nonzero()
        keep = there[:, 0]
        index, bags = index[keep], bags[keep]
        factors = None if factors is None else factors[keep]
    rows = embedding_rows(index, weight, None)
    if factors is not None:
        rows = rows * factors[:, None]
    total = rows.new_zeros((begins.shape[0], weight.shape[1])).index_add(0, bags, rows)
    if mode == "sum":
        return total
    counts = cograd.bincount(bags, minlength=begins.shape[0]).clamp(min=1)
    return total / counts[:, None].to(total.dtype)
