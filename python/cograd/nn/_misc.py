# SPDX-License-Identifier: BSD-3-Clause
"""Functions that are neither activation nor loss: linear maps, distances, attention, padding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import cograd
from cograd import Tensor

from ._activations import softmax
from ._core import core_function, core_or


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    out = input.matmul(weight.t() if weight.dim() == 2 else weight)
    return out if bias is None else out + bias


def _rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    shape = tuple(normalized_shape)
    if not shape or tuple(input.shape[-len(shape) :]) != shape:
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape "
            f"[*, {', '.join(map(str, shape))}], but got input of size{list(input.shape)}"
        )
    if eps is None:
        eps = cograd.finfo(input.dtype).eps
    dims = tuple(range(-len(shape), 0))
    out = input * ((input * input).mean(dims, keepdim=True) + eps).rsqrt()
    return out if weight is None else out * weight


linear = core_or("linear", _linear)
bilinear = core_function("bilinear")
cosine_similarity = core_function("cosine_similarity")
layer_norm = core_function("layer_norm")
pad = core_function("pad")
rms_norm = core_or("rms_norm", _rms_norm)
_dropout = core_function("dropout")
_embedding = core_function("embedding")


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes elements with probability ``p`` and scales the rest by 1 / (1 - p)."""
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0.0:
        return input
    if inplace:
        mask = cograd.rand_like(input) >= p
        return input.mul_(mask.to(input.dtype) * (0.0 if p == 1.0 else 1.0 / (1.0 - p)))
    return _dropout(input, p, training)


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
    return _embedding(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Indices (*) as rows of zeros with a one: int64 (*, num_classes)."""
    if tensor.dtype != cograd.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if tensor.numel() == 0:
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return cograd.zeros(*tensor.shape, num_classes, dtype=cograd.int64)
    if int(tensor.min()) < 0:
        raise RuntimeError("Class values must be non-negative.")
    top = int(tensor.max())
    if num_classes == -1:
        num_classes = top + 1
    elif num_classes < 1:
        raise RuntimeError("num_classes should be positive")
    elif top >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    out = cograd.zeros(*tensor.shape, num_classes, dtype=cograd.int64)
    return out.scatter_(-1, tensor.unsqueeze(-1), 1)


def normalize(
    input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """``input`` divided by its p-norm along ``dim``, which is taken as at least ``eps``."""
    result = input / input.norm(p, dim, keepdim=True).clamp(min=eps).expand_as(input)
    return result if out is None else out.copy_(result)


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """p-norm of ``x1 - x2 + eps`` over the last dim."""
    return (x1 - x2 + eps).norm(p, -1, keepdim=keepdim)


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
