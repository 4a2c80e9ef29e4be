# SPDX-License-Identifier: BSD-3-Clause
"""Attention: the core's blocked kernel, and the function behind MultiheadAttention."""

from __future__ import annotations

import math
from typing import Any

import cograd
from cograd import Tensor

from .activation import softmax
from .dropout import dropout
from .linear import linear
from .pad import pad

__all__ = ["multi_head_attention_forward", "scaled_dot_product_attention"]

scaled_dot_product_attention = cograd._C._nn.scaled_dot_product_attention


def _additive(mask: Tensor | None, name: str, dtype: Any) -> Tensor | None:
    """Converts a mask to floats that are added to the scores: True becomes -inf."""
    if mask is None:
        return None
    if mask.dtype == cograd.bool:
        zeros = cograd.zeros(mask.shape, dtype=dtype, device=mask.device)
        return zeros.masked_fill(mask, -math.inf)
    if not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {name} are supported")
    return mask.to(dtype)


def _check_shapes(
    query: Tensor, key: Tensor, value: Tensor, padding: Tensor | None, embed_dim: int, heads: int
) -> None:
    if query.dim() not in (2, 3) or key.dim() != query.dim() or value.dim() != query.dim():
        raise AssertionError(
            "query should be unbatched 2D or batched 3D tensor and key and value the same, "
            f"but found {query.dim()}-D query, {key.dim()}-D key, {value.dim()}-D value"
        )
    if padding is not None and padding.dim() != query.dim() - 1:
        raise AssertionError(
            f"For {query.dim()}-D query expected key_padding_mask to be None or "
            f"{query.dim() - 1}-D but found {padding.dim()}-D tensor instead"
        )
    if query.shape[-1] != embed_dim:
        raise AssertionError(
            f"was expecting embedding dimension of {embed_dim}, but got {query.shape[-1]}"
        )
    if embed_dim // heads * heads != embed_dim:
        raise AssertionError(f"embed_dim {embed_dim} not divisible by num_heads {heads}")


def _check_values(key: Tensor, value: Tensor, separate: bool) -> None:
    """Checks that each key has a value, of its size unless they are projected separately."""
    if separate and key.shape[:2] != value.shape[:2]:
        raise AssertionError(
            f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}"
        )
    if not separate and key.shape != value.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")


def _project(
    inputs: tuple[Tensor, Tensor, Tensor], weights: tuple[Any, ...], bias: Tensor | None
) -> list[Tensor]:
    """Projects query, key and value, in one product where they are the same tensor."""
    query, key, value = inputs
    if len(weights) == 1:
        weight = weights[0]
        size = weight.shape[1]
        if key is value and query is key:
            return list(linear(query, weight, bias).chunk(3, -1))
        if key is value:
            w_q, w_kv = weight.split([size, 2 * size])
            b_q, b_kv = (None, None) if bias is None else bias.split([size, 2 * size])
            return [linear(query, w_q, b_q), *linear(key, w_kv, b_kv).chunk(2, -1)]
        weights = weight.chunk(3)
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    return [linear(x, w, b) for x, w, b in zip(inputs, weights, biases)]


def _joint_mask(
    attn_mask: Tensor | None,
    padding: Tensor | None,
    shape: tuple[int, int, int, int],
    dtype: Any,
    extra_keys: int,
) -> Tensor | None:
    """Returns both masks combined, broadcastable to the scores (N, heads, L, S)."""
    batch, heads, target, source = shape
    source -= extra_keys
    total = _additive(attn_mask, "attn_mask", dtype)
    if total is not None:
        given = tuple(total.shape)
        expected = ((target, source), (batch * heads, target, source))
        if given not in expected:
            raise RuntimeError(
                f"The shape of the {total.dim()}D attn_mask is {given}, but should be "
                f"{expected[0]} or {expected[1]}."
            )
        if total.dim() == 3:
            total = total.reshape(batch, heads, target, source)
    padding = _additive(padding, "key_padding_mask", dtype)
    if padding is not None:
        if tuple(padding.shape) != (batch, source):
            raise AssertionError(
                f"expecting key_padding_mask shape of {(batch, source)}, "
                f"but got {tuple(padding.shape)}"
            )
        padding = padding.reshape(batch, 1, 1, source)
        total = padding if total is None else total + padding
    if total is not None and extra_keys:
        total = pad(total, (0, extra_keys))
    return total


def _weighed(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout_p: float
) -> tuple[Tensor, Tensor]:
    """Returns attention's output and its weights, which are zero where dropout zeroed them."""
    scores = (q * (1.0 / math.sqrt(q.shape[-1]))).matmul(k.transpose(-2, -1))
    weights = dropout(softmax(scores if mask is None else scores + mask, -1), dropout_p)
    return weights.matmul(v), weights


def _extended(
    k: Tensor, v: Tensor, bias_k: Tensor | None, bias_v: Tensor | None
) -> tuple[Tensor, Tensor, int]:
    """Appends a learned key and value to keys and values (S, N, E)."""
    if bias_k is None or bias_v is None:
        if bias_k is not None or bias_v is not None:
            raise AssertionError("bias_k and bias_v must be given together")
        return k, v, 0
    batch = k.shape[1]
    k = cograd.cat([k, bias_k.expand(1, batch, -1)])
    return k, cograd.cat([v, bias_v.expand(1, batch, -1)]), 1


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Computes attention of ``num_heads`` heads over projections of query, key and value.

    Args:
        query, key, value: (L, N, E), (S, N, kdim), (S, N, vdim), or all without N.
        in_proj_weight: (3 E, E), unless ``use_separate_proj_weight``.
        bias_k, bias_v: (1, 1, E), a key and a value that are appended.
        add_zero_attn: whether to append a key and a value of zeros.
        key_padding_mask: (N, S); attn_mask: (L, S) or (N * heads, L, S); True or -inf hides a key.
        static_k, static_v: (N * heads, S, E / heads), used instead of the projected ones.
        is_causal: a hint that ``attn_mask`` is the causal one; requires the mask.

    Returns:
        The output, of the query's shape, and with ``need_weights`` the weights: (N, L, S), or
        (N, heads, L, S) unless ``average_attn_weights``.
    """
    _check_shapes(query, key, value, key_padding_mask, embed_dim_to_check, num_heads)
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer "
            "module method `generate_square_subsequent_mask` to create this mask."
        )
    batched = query.dim() == 3
    if not batched:
        same = (key is query, value is key)
        query = query.unsqueeze(1)
        key = query if same[0] else key.unsqueeze(1)
        value = key if same[1] else value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    _check_values(key, value, use_separate_proj_weight)
    weights: tuple[Any, ...] = (in_proj_weight,)
    if use_separate_proj_weight:
        weights = (q_proj_weight, k_proj_weight, v_proj_weight)
    if any(weight is None for weight in weights):
        raise AssertionError("multi_head_attention_forward: a projection weight is None")
    q, k, v = _project((query, key, value), weights, in_proj_bias)
    k, v, extra_keys = _extended(k, v, bias_k, bias_v)
    length, batch = q.shape[0], q.shape[1]
    head = embed_dim_to_check // num_heads

    def heads(x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], batch, num_heads, head).permute(1, 2, 0, 3)

    q = heads(q)
    k = heads(k) if static_k is None else static_k.unflatten(0, (batch, num_heads))
    v = heads(v) if static_v is None else static_v.unflatten(0, (batch, num_heads))
    if add_zero_attn:
        k, v = pad(k, (0, 0, 0, 1)), pad(v, (0, 0, 0, 1))
        extra_keys += 1
    rate = dropout_p if training else 0.0
    if not need_weights and is_causal and key_padding_mask is None and not extra_keys:
        out, shown = scaled_dot_product_attention(q, k, v, None, rate, True), None
    else:
        shape = (batch, num_heads, length, k.shape[2])
        mask = _joint_mask(attn_mask, key_padding_mask, shape, q.dtype, extra_keys)
        if need_weights:
            out, shown = _weighed(q, k, v, mask, rate)
        else:
            out, shown = scaled_dot_product_attention(q, k, v, mask, rate), None
    out = out.permute(2, 0, 1, 3).reshape(length, batch, embed_dim_to_check)
    out = linear(out, out_proj_weight, out_proj_bias)
    if shown is not None:  # a copy: the output does not depend on it
        shown = shown.mean(1) if average_attn_weights else shown.view(shown.shape)
    if not batched:
        return out.squeeze(1), None if shown is None else shown.squeeze(0)
    return out, shown
