# SPDX-License-Identifier: BSD-3-Clause
"""MultiheadAttention."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor

from .. import functional as F
from .. import init
from ..parameter import Parameter
from .linear import NonDynamicallyQuantizableLinear
from .module import Module

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """Attention of ``num_heads`` heads over projections of query, key and value.

    Each head computes softmax(Q K^T / sqrt(E / num_heads) + mask) V; the heads are joined and
    projected by ``out_proj``.

    Vaswani et al., Attention Is All You Need (arXiv:1706.03762). See
    ``nn.functional.multi_head_attention_forward`` and
    ``nn.functional.scaled_dot_product_attention``.

    Args:
        embed_dim: size E of the query and of the output.
        num_heads: number of heads, which must divide E.
        dropout: probability with which attention weights are zeroed in training.
        bias: whether the projections have a bias.
        add_bias_kv: appends a learned key and value.
        add_zero_attn: appends a key and a value of zeros.
        kdim, vdim: sizes of key and value; None for E.
        batch_first: whether inputs are (N, L, E) rather than (L, N, E).
        device, dtype: those of the parameters; None for the default.

    Raises:
        ValueError: a size is not positive.
        AssertionError: ``num_heads`` does not divide E, or the inputs' dims or features do not fit.
        RuntimeError: a mask's shape does not fit, or ``is_causal`` is set without ``attn_mask``.

    Shape:
        - query and output: (L, N, E); key: (S, N, kdim); value: (S, N, vdim); or without N, or
          batch first.
        - key_padding_mask: (N, S); attn_mask: (L, S) or (N num_heads, L, S); True or -inf hides.
        - weights returned: (N, L, S), per head (N, num_heads, L, S); None without ``need_weights``.
        - in_proj_weight: (3 E, E), or q_proj_weight (E, E), k_proj_weight (E, kdim) and
          v_proj_weight (E, vdim), initialised Xavier-uniformly; in_proj_bias: (3 E), initialised to
          zeros; bias_k, bias_v: (1, 1, E).
        - dtypes: floating, that of the weights.
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
        """Returns the attention output and, if ``need_weights``, the weights.

        The query is (L, N, E), key (S, N, kdim), value (S, N, vdim), or without N, or batch first.
        The masks are key_padding_mask (N, S) and attn_mask (L, S) or (N * heads, L, S); True or
        -inf hides a key. The output has the query's shape; the weights are (N, L, S), or per head
        (N, heads, L, S) unless averaged.
        """
        swap = self.batch_first and query.dim() == 3
        if swap:
            same = (key is query, value is key)
            query = query.transpose(0, 1)
            key = query if same[0] else key.transpose(0, 1)
            value = key if same[1] else value.transpose(0, 1)
        out, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (out.transpose(0, 1) if swap else out), weights
