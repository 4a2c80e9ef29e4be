# SPDX-License-Identifier: BSD-3-Clause
"""Transformer: encoder and decoder layers, stacks of layers, and the model of both."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import cograd
from cograd import Tensor

from .. import functional as F
from .. import init
from .attention import MultiheadAttention
from .container import ModuleList
from .dropout import Dropout
from .linear import Linear
from .module import Module
from .normalization import LayerNorm

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]


def _causal_mask(size: int, device: Any = None, dtype: Any = None) -> Tensor:
    never = cograd.full((size, size), -math.inf, dtype=dtype, device=device)
    return cograd.triu(never, diagonal=1)


def _is_causal(mask: Tensor | None, said: bool | None, length: int) -> bool:
    """Returns ``said`` if it is given, else whether ``mask`` hides all later positions."""
    if said is not None or mask is None:
        return bool(said)
    if tuple(mask.shape) != (length, length) or mask.is_meta:
        return False
    causal = _causal_mask(length, mask.device, cograd.float32)
    if mask.dtype == cograd.bool:
        return bool((mask == (causal != 0)).all())
    return bool((mask == causal).all())


def _get_activation_fn(activation: str) -> Callable[[Tensor], Tensor]:
    if activation == "relu":
        return F.relu
    if activation == "gelu":
        return F.gelu
    raise RuntimeError(f"activation should be relu/gelu, not {activation}")


def _get_clones(module: Module, count: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(count)])


class _Layer(Module):
    """Base of both layers. ``forward`` calls overridable blocks, as torch does."""

    def _sa_block(
        self,
        x: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        return self.dropout1(  # type: ignore[no-any-return]
            self.self_attn(
                x,
                x,
                x,
                attn_mask=attn_mask,
                key_padding_mask=key_padding_mask,
                is_causal=is_causal,
                need_weights=False,
            )[0]
        )

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))  # type: ignore[no-any-return]

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("activation", F.relu)


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward network, each with dropout, a residual and a LayerNorm.

    x = norm1(x + attention(x)), x = norm2(x + linear2(activation(linear1(x)))); with ``norm_first``
    x + attention(norm1(x)) and so on.

    Vaswani et al., Attention Is All You Need (arXiv:1706.03762); ``norm_first`` as in Xiong et al.,
    On Layer Normalization in the Transformer Architecture (arXiv:2002.04745).

    Args:
        d_model: E, number of features.
        nhead: number of attention heads, which must divide E.
        dim_feedforward: F, number of inner features.
        dropout: probability for attention weights and for the results of each part; only in
            training.
        activation: 'relu', 'gelu' or a function.
        layer_norm_eps: eps of the LayerNorms.
        batch_first: whether inputs are (N, S, E) rather than (S, N, E).
        norm_first: whether the LayerNorms come before attention and feed-forward, not after the
            sums.
        bias: whether linear layers and LayerNorms have a bias.
        device, dtype: those of the parameters; None for the default.

    Raises:
        AssertionError: ``nhead`` does not divide E.
        RuntimeError: ``activation`` is unknown, or shapes do not fit.

    Shape:
        - src and output: (S, N, E), with ``batch_first`` (N, S, E), or (S, E).
        - masks: those of MultiheadAttention; True or -inf hides.
        - linear1: F x E; linear2: E x F; self_attn: a MultiheadAttention; norm1, norm2: (E).
        - dtypes: floating, that of the weights.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        options = {"device": device, "dtype": dtype}
        super().__init__()
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **options
        )
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **options)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **options)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **options)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **options)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = (
            _get_activation_fn(activation) if isinstance(activation, str) else activation
        )

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Maps (S, N, E) to (S, N, E); the masks are those of MultiheadAttention."""
        x = src
        masks = (src_mask, src_key_padding_mask)
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *masks, is_causal=is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(x + self._sa_block(x, *masks, is_causal=is_causal))
        return self.norm2(x + self._ff_block(x))  # type: ignore[no-any-return]

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout2(self._feed_forward(x))  # type: ignore[no-any-return]


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention over the encoder's output, and a feed-forward network.

    x = norm1(x + attention(x)), x = norm2(x + attention(x, memory)), x = norm3(x +
    linear2(activation(linear1(x)))); with ``norm_first`` each norm is applied to the part's input.

    Vaswani et al., Attention Is All You Need (arXiv:1706.03762); ``norm_first`` as in Xiong et al.,
    On Layer Normalization in the Transformer Architecture (arXiv:2002.04745).

    Args:
        d_model: E, number of features.
        nhead: number of attention heads, which must divide E.
        dim_feedforward: F, number of inner features.
        dropout: probability for attention weights and for the results of each part; only in
            training.
        activation: 'relu', 'gelu' or a function.
        layer_norm_eps: eps of the LayerNorms.
        batch_first: whether inputs are (N, S, E) rather than (S, N, E).
        norm_first: whether the LayerNorms come before attention and feed-forward, not after the
            sums.
        bias: whether linear layers and LayerNorms have a bias.
        device, dtype: those of the parameters; None for the default.

    Raises:
        AssertionError: ``nhead`` does not divide E.
        RuntimeError: ``activation`` is unknown, or shapes do not fit.

    Shape:
        - tgt and output: (T, N, E), memory: (S, N, E), with ``batch_first`` N first, or both
          without N.
        - masks: those of MultiheadAttention; True or -inf hides.
        - linear1: F x E; linear2: E x F; self_attn, multihead_attn: MultiheadAttention; norm1,
          norm2, norm3: (E).
        - dtypes: floating, that of the weights.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        options = {"device": device, "dtype": dtype}
        super().__init__()
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout=dropout, batch_first=batch_first, bias=bias, **options
        )
        self.multihead_attn = MultiheadAttention(
            d_model, nhead, dropout=dropout, batch_first=batch_first, bias=bias, **options
        )
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **options)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **options)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **options)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **options)
        self.norm3 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **options)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)
        self.activation = (
            _get_activation_fn(activation) if isinstance(activation, str) else activation
        )

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Maps (T, N, E) and the encoder's output (S, N, E) to (T, N, E)."""
        x = tgt
        masks = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        seen = (memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *masks)
            x = x + self._mha_block(self.norm2(x), *seen)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self._sa_block(x, *masks))
        x = self.norm2(x + self._mha_block(x, *seen))
        return self.norm3(x + self._ff_block(x))  # type: ignore[no-any-return]

    def _mha_block(
        self,
        x: Tensor,
        mem: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        return self.dropout2(  # type: ignore[no-any-return]
            self.multihead_attn(
                x,
                mem,
                mem,
                attn_mask=attn_mask,
                key_padding_mask=key_padding_mask,
                is_causal=is_causal,
                need_weights=False,
            )[0]
        )

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout3(self._feed_forward(x))  # type: ignore[no-any-return]


class TransformerEncoder(Module):
    """``num_layers`` copies of a layer in sequence, and an optional norm at the end.

    The copies have separate parameters with the same initial values.

    Args:
        encoder_layer: the layer to copy.
        num_layers: the number of copies.
        norm: a module that is applied to the last output, or None.
        enable_nested_tensor, mask_check: accepted without effect: padding is never removed.

    Shape:
        - src and output: (S, N, E), or another form that the layers accept.
        - masks: those of MultiheadAttention; True or -inf hides.
    """

    def __init__(
        self,
        encoder_layer: TransformerEncoderLayer,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """Maps (S, N, E) to (S, N, E); if ``is_causal`` is None, ``mask`` is checked for it."""
        first = self.layers[0].self_attn.batch_first if len(self.layers) else False
        length = src.shape[1 if first and src.dim() == 3 else 0]
        causal = _is_causal(mask, is_causal, length)
        out = src
        for layer in self.layers:
            out = layer(
                out, src_mask=mask, is_causal=causal, src_key_padding_mask=src_key_padding_mask
            )
        return out if self.norm is None else self.norm(out)


class TransformerDecoder(Module):
    """``num_layers`` copies of a layer in sequence, and an optional norm at the end.

    The copies have separate parameters with the same initial values.

    Args:
        decoder_layer: the layer to copy.
        num_layers: the number of copies.
        norm: a module that is applied to the last output, or None.

    Shape:
        - tgt and output: (T, N, E), memory: (S, N, E), or another form that the layers accept.
        - masks: those of MultiheadAttention; True or -inf hides.
    """

    def __init__(
        self,
        decoder_layer: TransformerDecoderLayer,
        num_layers: int,
        norm: Module | None = None,
    ) -> None:
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Maps (T, N, E) and the encoder's output (S, N, E) to (T, N, E)."""
        first = self.layers[0].self_attn.batch_first if len(self.layers) else False
        length = tgt.shape[1 if first and tgt.dim() == 3 else 0]
        causal = _is_causal(tgt_mask, tgt_is_causal, length)
        out = tgt
        for layer in self.layers:
            out = layer(
                out,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=causal,
                memory_is_causal=memory_is_causal,
            )
        return out if self.norm is None else self.norm(out)


class Transformer(Module):
    """An encoder of src, and a decoder of tgt that attends to the encoder's output.

    All matrices are initialised Xavier-uniformly.

    Vaswani et al., Attention Is All You Need (arXiv:1706.03762); ``norm_first`` as in Xiong et al.,
    On Layer Normalization in the Transformer Architecture (arXiv:2002.04745).

    Args:
        d_model: E, number of features.
        nhead: number of attention heads, which must divide E.
        num_encoder_layers, num_decoder_layers: number of layers of each.
        dim_feedforward: F, number of inner features.
        dropout: probability for attention weights and for the results of each part; only in
            training.
        activation: 'relu', 'gelu' or a function.
        custom_encoder, custom_decoder: modules to use instead, which are called with the masks.
        layer_norm_eps: eps of the LayerNorms.
        batch_first: whether inputs are (N, S, E) rather than (S, N, E).
        norm_first: whether the LayerNorms come before attention and feed-forward, not after the
            sums.
        bias: whether linear layers and LayerNorms have a bias.
        device, dtype: those of the parameters; None for the default.

    Raises:
        AssertionError: ``nhead`` does not divide E.
        RuntimeError: batch sizes or features differ, or ``activation`` is unknown.

    Shape:
        - src: (S, N, E); tgt and output: (T, N, E); with ``batch_first`` N first, or both without
          N.
        - masks: those of MultiheadAttention; True or -inf hides;
          ``generate_square_subsequent_mask`` makes a causal one.
        - dtypes: floating, that of the weights.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        options = {"device": device, "dtype": dtype}
        super().__init__()
        common: tuple[Any, ...] = (d_model, nhead, dim_feedforward, dropout, activation)
        common += (layer_norm_eps, batch_first, norm_first, bias)
        if custom_encoder is not None:
            self.encoder = custom_encoder
        else:
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **options)
            encoder_layer = TransformerEncoderLayer(*common, **options)
            self.encoder = TransformerEncoder(encoder_layer, num_encoder_layers, norm)
        if custom_decoder is not None:
            self.decoder = custom_decoder
        else:
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **options)
            decoder_layer = TransformerDecoderLayer(*common, **options)
            self.decoder = TransformerDecoder(decoder_layer, num_decoder_layers, norm)
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def _reset_parameters(self) -> None:
        for param in self.parameters():
            if param.dim() > 1:
                init.xavier_uniform_(param)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Maps src (S, N, E) and tgt (T, N, E) to (T, N, E), or without N, or batch first."""
        batched = src.dim() == 3
        batch = 0 if self.batch_first else 1
        if batched and src.shape[batch] != tgt.shape[batch]:
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(
            src,
            mask=src_mask,
            src_key_padding_mask=src_key_padding_mask,
            is_causal=src_is_causal,
        )
        return self.decoder(  # type: ignore[no-any-return]
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """Returns (sz, sz) with -inf above the diagonal, else 0: row i sees columns 0 to i."""
        return _causal_mask(sz, device, dtype)
