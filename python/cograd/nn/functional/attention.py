# SPDX-License-Identifier: BSD-3-Clause
"""Attention."""

from __future__ import annotations

import math

import cograd
from cograd import Tensor

from .activation import softmax
from .dropout import dropout


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query key^T * scale + mask) value.

    Args:
        query: (..., L, E). key: (..., S, E). value: (..., S, Ev). Result: (..., L, Ev).
        attn_mask: broadcastable to (..., L, S); bool (True takes part) or floats to add.
        is_causal: position i sees keys 0..i; not together with ``attn_mask``.
        scale: 1 / sqrt(E) unless given.
        enable_gqa: repeat the heads (dim -3) of key and value to those of query.
    """
    if is_causal and attn_mask is not None:
        raise RuntimeError(
            "scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
        )
    if enable_gqa:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
        value = value.repeat_interleave(query.shape[-3] // value.shape[-3], -3)
    if scale is None:
        scale = 1.0 / math.sqrt(query.shape[-1])
    scores = query.matmul(key.transpose(-2, -1)) * scale
    if is_causal:
        attn_mask = cograd.ones(query.shape[-2], key.shape[-2], dtype=cograd.bool).tril()
    if attn_mask is None:
        weights = softmax(scores, -1)
    elif attn_mask.dtype == cograd.bool:
        blocked = attn_mask.logical_not()
        weights = softmax(scores.masked_fill(blocked, -math.inf), -1)
        # A row that may see nothing is 0 / 0; its result is zero.
        weights = weights.masked_fill(blocked.all(-1, keepdim=True), 0.0)
    else:
        weights = softmax(scores + attn_mask, -1)
    return dropout(weights, dropout_p).matmul(value)
