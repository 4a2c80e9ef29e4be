# SPDX-License-Identifier: BSD-3-Clause
"""MultiheadAttention."""

from __future__ import annotations

import math
from typing import Any

import cograd
from cograd import Tensor

from .. import functional as F
from .. import init
from ..parameter import Parameter
from .linear import NonDynamicallyQuantizableLinear
from .module import Module

__all__ = ["MultiheadAttention"]


def _additive(mask: Tensor | None, name: str, dtype: Any) -> Tensor | None:
    """A mask as numbers to add to the scores: True becomes minus infinity."""
    if mask is None:
        return None
    if mask.dtype == cograd.bool:
        return cograd.zeros(mask.shape, dtype=dtype).masked_fill(mask, -math.inf)
    if not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {name} are supported")
    return mask.to(dtype)


class MultiheadAttention(Module):
    """Attention of ``num_heads`` heads over projections of query, key and value.

    Args:
        embed_dim: size E of the query and of the output.
        num_heads: must divide ``embed_dim``.
        dropout: probability with which attention weights are zeroed in training.
        bias: whether the projections have a bias.
        add_bias_kv: append a learned key and value.
        add_zero_attn: append a key and a value of zeros.
        kdim, vdim: sizes of key and value, ``embed_dim`` unless given.
        batch_first: inputs are (N, L, E) rather than (L, N, E).
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                "embed_dim and num_heads must be greater than 0, "
                f"got embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        super().__init__()
        options = {"device": device, "dtype": dtype}
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")
        shapes: dict[str, tuple[int, ...] | None] = {
            "in_proj_weight": None,
            "q_proj_weight": None,
            "k_proj_weight": None,
            "v_proj_weight": None,
        }
        if self._qkv_same_embed_dim:
            shapes["in_proj_weight"] = (3 * embed_dim, embed_dim)
        else:
            shapes["q_proj_weight"] = (embed_dim, embed_dim)
            shapes["k_proj_weight"] = (embed_dim, self.kdim)
            shapes["v_proj_weight"] = (embed_dim, self.vdim)
        shapes["in_proj_bias"] = (3 * embed_dim,) if bias else None
        shapes["bias_k"] = shapes["bias_v"] = (1, 1, embed_dim) if add_bias_kv else None
        for name, shape in shapes.items():
            param = None if shape is None else Parameter(cograd.empty(shape, **options))
            self.register_parameter(name, param)
        self.out_proj = NonDynamicallyQuantizableLinear(
            embed_dim, embed_dim, bias=bias, device=device, dtype=dtype
        )
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for weight in (
            self.in_proj_weight,
            self.q_proj_weight,
            self.k_proj_weight,
            self.v_proj_weight,
        ):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        """Query, key and value, each (N, length, E), through their projections."""
        if self.in_proj_weight is not None:
            weights = self.in_proj_weight.chunk(3)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        inputs = (query, key, value)
        return tuple(F.linear(x, w, b) for x, w, b in zip(inputs, weights, biases))

    def _heads(self, x: Tensor) -> Tensor:
        """(N, length, E) to (N, heads, length, E / heads)."""
        shape = (x.shape[0], x.shape[1], self.num_heads, self.head_dim)
        return x.reshape(shape).transpose(1, 2)

    def _mask(
        self,
        key_padding_mask: Tensor | None,
        attn_mask: Tensor | None,
        scores: Tensor,
        extra_keys: int,
    ) -> Tensor | None:
        """Both masks together, broadcastable to the scores (N, heads, L, S)."""
        batch, _, target, source = scores.shape
        source -= extra_keys
        total = None
        mask = _additive(attn_mask, "attn_mask", scores.dtype)
        if mask is not None:
            shape = tuple(mask.shape)
            expected = ((target, source), (batch * self.num_heads, target, source))
            if shape not in expected:
                raise RuntimeError(
                    f"The shape of the {mask.dim()}D attn_mask is {shape}, but should be "
                    f"{expected[0]} or {expected[1]}."
                )
            if mask.dim() == 3:
                mask = mask.reshape(batch, self.num_heads, target, source)
            total = mask
        padding = _additive(key_padding_mask, "key_padding_mask", scores.dtype)
        if padding is not None:
            if tuple(padding.shape) != (batch, source):
                raise AssertionError(
                    f"expecting key_padding_mask shape of {(batch, source)}, "
                    f"but got {tuple(padding.shape)}"
                )
            padding = padding.reshape(batch, 1, 1, source)
            total = padding if total is None else total + padding
        if total is not None and extra_keys:
            total = F.pad(total, (0, extra_keys))
        return total

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attention output and, if ``need_weights``, the weights.

        query (L, N, E), key (S, N, kdim), value (S, N, vdim), or without N, or batch first;
        masks: key_padding_mask (N, S), attn_mask (L, S) or (N * heads, L, S), True or -inf hides.
        Output like the query; weights (N, L, S), per head (N, heads, L, S) unless averaged.
        """
        if is_causal and attn_mask is None:
            raise RuntimeError(
                "Need attn_mask if specifying the is_causal hint. You may use the Transformer "
                "module method `generate_square_subsequent_mask` to create this mask."
            )
        if query.dim() not in (2, 3) or key.dim() != query.dim() or value.dim() != query.dim():
            raise AssertionError(
                "query should be unbatched 2D or batched 3D tensor and key and value the same, "
                f"but found {query.dim()}-D query, {key.dim()}-D key, {value.dim()}-D value"
            )
        batched = query.dim() == 3
        if not batched:
            query, key, value = (x.unsqueeze(0) for x in (query, key, value))
            if key_padding_mask is not None:
                key_padding_mask = key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        q, k, v = self._project(query, key, value)
        extra_keys = 0
        if self.bias_k is not None:
            k = cograd.cat([k, self.bias_k.expand(k.shape[0], 1, -1)], 1)
            v = cograd.cat([v, self.bias_v.expand(v.shape[0], 1, -1)], 1)
            extra_keys += 1
        if self.add_zero_attn:
            zeros = k.new_zeros((k.shape[0], 1, self.embed_dim))
            k, v = cograd.cat([k, zeros], 1), cograd.cat([v, zeros], 1)
            extra_keys += 1
        q, k, v = self._heads(q), self._heads(k), self._heads(v)
        scores = (q * (1.0 / math.sqrt(self.head_dim))).matmul(k.transpose(-2, -1))
        mask = self._mask(key_padding_mask, attn_mask, scores, extra_keys)
        weights = F.softmax(scores if mask is None else scores + mask, -1)
        weights = F.dropout(weights, self.dropout, self.training)
        out = weights.matmul(v).transpose(1, 2)
        out = self.out_proj(out.reshape(out.shape[0], out.shape[1], self.embed_dim))
        shown: Tensor | None = None
        if need_weights:
            shown = weights.mean(1) if average_attn_weights else weights
        if not batched:
            return out.squeeze(0), None if shown is None else shown.squeeze(0)
        return (out if self.batch_first else out.transpose(0, 1)), shown
