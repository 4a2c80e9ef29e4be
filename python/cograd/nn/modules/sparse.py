# SPDX-License-Identifier: BSD-3-Clause
"""Embeddings: rows of a weight, looked up by index."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor

from .. import functional as F
from .. import init
from ..parameter import Parameter
from .module import Module

__all__ = [
    "Embedding",
    "EmbeddingBag",
]


class Embedding(Module):
    """A table of ``num_embeddings`` rows that are looked up by index.

    output = weight[input]. The gradient of a row is dense: it sums the gradients of all places
    where the row is used; the gradient of ``padding_idx`` is 0. See ``nn.functional.embedding``.

    Args:
        num_embeddings: V, the number of rows.
        embedding_dim: D, the length of a row.
        padding_idx: a row that is initialised to zeros and gets no gradient; negative values count
            from the end.
        max_norm: rows that are looked up and have a larger norm are scaled to this norm, in place;
            None disables this.
        norm_type: order p of that norm.
        scale_grad_by_freq: whether to divide the gradient of a row by its count in the batch.
        sparse: whether the gradient of the table is a sparse tensor, with the rows looked up.
        _weight: the table to use; it is not copied.
        _freeze: whether the table does not require grad.
        device, dtype: those of the table; None for the default.

    Raises:
        AssertionError: ``padding_idx`` is out of range, or the shape of ``_weight`` does not fit.
        IndexError: an index is out of range.
        RuntimeError: the indices are not int64 or int32, or ``sparse`` and ``scale_grad_by_freq``
            are both set.

    Shape:
        - input: (*), int64 or int32, each in [0, V).
        - output: (*, D).
        - weight: (V, D), initialised from N(0, 1).
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError("Padding_idx must be within num_embeddings")
            padding_idx = padding_idx % num_embeddings
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        shape = (num_embeddings, embedding_dim)
        if _weight is None:
            table = cograd.empty(shape, device=device, dtype=dtype)
            self.weight = Parameter(table, requires_grad=not _freeze)
            self.reset_parameters()
        else:
            if tuple(_weight.shape) != shape:
                raise AssertionError(
                    "Shape of weight does not match num_embeddings and embedding_dim"
                )
            self.weight = Parameter(_weight, requires_grad=not _freeze)

    def reset_parameters(self) -> None:
        """Samples a new table; the padding row is zeros."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with cograd.no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(self, input: Tensor) -> Tensor:
        """Maps integers (*) to (*, embedding_dim)."""
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """Returns an Embedding of the table ``embeddings`` (V, D), frozen by default."""
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, cols = embeddings.shape
        return cls(
            rows,
            cols,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight=embeddings,
            _freeze=freeze,
        )

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq is not False:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        if self.sparse is not False:
            text += ", sparse=True"
        return text


class EmbeddingBag(Module):
    """Reduces the rows of a table by sum, mean or max, bag by bag.

    It computes Embedding and a reduction without storing the rows in between. Where maxima tie,
    the first row gets the gradient; an empty bag gives zeros. See
    ``nn.functional.embedding_bag``.

    Args:
        num_embeddings: V, the number of rows.
        embedding_dim: D, the length of a row.
        max_norm: rows that are looked up and have a larger norm are scaled to this norm, in place;
            None disables this.
        norm_type: order p of that norm.
        scale_grad_by_freq: whether to divide the gradient of a row by its count in the batch; not
            for 'max'.
        mode: 'sum', 'mean' or 'max'.
        sparse: whether the gradient of the table is a sparse tensor, with the rows looked up.
        _weight: the table to use; it is not copied.
        include_last_offset: whether the last offset is the end of the last bag.
        padding_idx: a row that is initialised to zeros, left out of all bags and gets no gradient.
        device, dtype: those of the table; None for the default.

    Raises:
        AssertionError: ``padding_idx`` is out of range, or the shape of ``_weight`` does not fit.
        ValueError: ``mode`` is unknown, the offsets do not fit the input's dims, or
            ``scale_grad_by_freq`` is set with 'max'.
        NotImplementedError: weights are given with a ``mode`` other than 'sum'.

    Shape:
        - input: (B, n), or (n) with offsets (B), the starts of the bags; int64 or int32, in [0, V).
        - per_sample_weights: of the input's shape, with 'sum' only.
        - output: (B, D).
        - weight: (V, D), initialised from N(0, 1).
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError("padding_idx must be within num_embeddings")
            padding_idx = padding_idx % num_embeddings
        self.padding_idx = padding_idx
        shape = (num_embeddings, embedding_dim)
        if _weight is None:
            self.weight = Parameter(cograd.empty(shape, device=device, dtype=dtype))
            self.reset_parameters()
        else:
            if tuple(_weight.shape) != shape:
                raise AssertionError(
                    "Shape of weight does not match num_embeddings and embedding_dim"
                )
            self.weight = Parameter(_weight)
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset

    def reset_parameters(self) -> None:
        """Samples a new table; the padding row is zeros."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with cograd.no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(
        self,
        input: Tensor,
        offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:
        """Maps indices (B, n), or (n) with offsets (B), to (B, embedding_dim)."""
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """Returns an EmbeddingBag of the table ``embeddings`` (V, D), frozen by default."""
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, cols = embeddings.shape
        module = cls(
            rows,
            cols,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            mode,
            sparse,
            embeddings,
            include_last_offset,
            padding_idx,
        )
        module.weight.requires_grad = not freeze
        return module

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq is not False:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        text += f", mode={self.mode!r}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        return text
