# SPDX-License-Identifier: BSD-3-Clause
"""Lookups by index: rows of a table, rows of zeros with a one."""

from __future__ import annotations

import cograd
from cograd import Tensor


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of ``weight`` (V, D) at the indices ``input`` (*), giving (*, D).

    The row ``padding_idx`` gets no gradient. With ``max_norm`` the rows looked up are first
    scaled down, in place, to that norm. With ``scale_grad_by_freq`` a row's gradient is divided
    by how often it is looked up.
    """
    if sparse:
        raise NotImplementedError("embedding: sparse=True is not supported, gradients are dense")
    rows = weight.shape[0]
    if padding_idx is not None:
        if not -rows <= padding_idx < rows:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx = padding_idx % rows
    return cograd._C._nn.embedding(
        input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq
    )


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Indices (*) as rows of zeros with a one: int64 (*, num_classes)."""
    return cograd._C._ops._one_hot(tensor, num_classes)
