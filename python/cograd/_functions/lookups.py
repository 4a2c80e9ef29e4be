# SPDX-License-Identifier: BSD-3-Clause
"""Embeddings under their names in torch's root namespace."""

from __future__ import annotations

from typing import Any

import cograd
from cograd._C import Tensor
from cograd.nn import functional as F

__all__ = [
    "embedding",
    "embedding_bag",
    "embedding_renorm_",
]


def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Reduces bags of rows (mode 0 sum, 1 mean, 2 max); returns (result, bags, sizes, rows).

    ``bags`` is the bag of each index, ``sizes`` the length of each bag, and ``rows`` the row that
    each maximum is from.
    """
    if sparse:
        raise NotImplementedError(
            "embedding_bag: sparse=True is supported by nn.functional.embedding_bag and "
            "nn.EmbeddingBag alone"
        )
    padding = -1 if padding_idx is None else padding_idx % weight.shape[0]
    out, sizes, rows = cograd._C._ops._embedding_bag(
        weight,
        indices,
        offsets,
        mode,
        padding,
        scale_grad_by_freq,
        include_last_offset,
        per_sample_weights,
    )
    begins = offsets[:-1] if include_last_offset else offsets
    places = cograd.arange(indices.numel(), dtype=cograd.int64, device=indices.device)
    bags = cograd.searchsorted(begins.to(cograd.int64), places, right=True) - 1
    return out, bags, sizes, rows


def embedding(
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Calls functional.embedding with the table first; a negative ``padding_idx`` means none."""
    padding = None if padding_idx < 0 else padding_idx
    return F.embedding(
        indices, weight, padding, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse
    )


def embedding_renorm_(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Any:
    """Scales the rows of ``weight`` at ``indices`` down to ``max_norm``, in place."""
    cograd._C._nn.embedding(indices, weight.detach(), None, max_norm, norm_type)
    return weight
