# SPDX-License-Identifier: BSD-3-Clause
"""Flatten, Unflatten, Embedding, normalisation, dropout and distances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cograd
from cograd import Tensor

from .. import functional as F
from .. import init
from ..parameter import Parameter
from .module import Module

__all__ = [
    "CosineSimilarity",
    "Dropout",
    "Embedding",
    "Flatten",
    "LayerNorm",
    "PairwiseDistance",
    "RMSNorm",
    "Unflatten",
]


class Flatten(Module):
    """Joins the dims ``start_dim`` to ``end_dim`` into one.

    A view where the strides allow it. See ``Tensor.flatten``.

    Args:
        start_dim: the first dim of those joined; 1 leaves the samples apart.
        end_dim: the last one.

    Raises:
        IndexError: no such dim, as 1 for an input of one.
        RuntimeError: ``start_dim`` comes after ``end_dim``.

    Shape:
        - input: (*, S1, ..., Sn, *), S1 at ``start_dim`` and Sn at ``end_dim``.
        - output: (*, S1 ... Sn, *).
        - dtypes: any.
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        """(N, *) to (N, prod(*)) with the default arguments."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """The arguments as ``repr`` shows them."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits the dim ``dim`` into the sizes ``unflattened_size``.

    See ``Tensor.unflatten``.

    Args:
        dim: the dim that is split, an int.
        unflattened_size: tuple or list of ints; one may be -1 and follows from the others.

    Raises:
        TypeError: ``dim`` is no int, or the sizes no tuple or list of ints.
        RuntimeError: sizes whose product is not S.

    Shape:
        - input: (*, S, *), S at ``dim``.
        - output: (*, U1, ..., Un, *), of product S.
        - dtypes: any.
    """

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        if not isinstance(dim, int):
            raise TypeError("invalid argument type for dim parameter")
        if not isinstance(unflattened_size, (tuple, list)):
            raise TypeError(
                "unflattened_size must be a tuple of ints, "
                f"but found type {type(unflattened_size).__name__}"
            )
        for position, size in enumerate(unflattened_size):
            if not isinstance(size, int):
                raise TypeError(
                    "unflattened_size must be tuple of ints, but found element of type "
                    f"{type(size).__name__} at pos {position}"
                )
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        """(*, S, *) to (*, U1, ..., Un, *)."""
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        """The arguments as ``repr`` shows them."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class Embedding(Module):
    """A table of ``num_embeddings`` rows that are looked up by index.

    output = weight[input]. The gradient of a row is the sum of those of its places, dense; that of
    ``padding_idx`` is 0. See ``nn.functional.embedding``.

    Args:
        num_embeddings: V, the rows.
        embedding_dim: D, their length.
        padding_idx: a row that starts as zeros and gets no gradient; negative ones count from the
            end.
        max_norm: rows that are looked up and whose norm is larger are scaled to it in place, None
            for none.
        norm_type: the p of that norm.
        scale_grad_by_freq: divides the gradient of a row by its count in the batch.
        sparse: refused: every gradient is dense.
        _weight: the table to use, not copied.
        _freeze: whether the table requires no grad.
        device, dtype: of the table; None for the default.

    Raises:
        AssertionError: ``padding_idx`` outside of the table, or a ``_weight`` of another shape.
        IndexError: an index outside of the table.
        RuntimeError: indices that are not int64 or int32.
        NotImplementedError: ``sparse``, when it is called.

    Shape:
        - input: (*), int64 or int32, each in [0, V).
        - output: (*, D).
        - weight: (V, D), which starts as N(0, 1).
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
        """Draws a new table; the padding row is zeros."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with cograd.no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(self, input: Tensor) -> Tensor:
        """Integers (*) to (*, embedding_dim)."""
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
        """An Embedding whose table is ``embeddings`` (V, D), frozen unless told otherwise."""
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
        """The arguments as ``repr`` shows them."""
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


def _shape_of(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    if isinstance(normalized_shape, int):
        return (normalized_shape,)
    return tuple(normalized_shape)


class LayerNorm(Module):
    """Mean 0 and variance 1 over the last dims, ``normalized_shape``, of each sample.

    y = (x - mean) / sqrt(var + eps) * weight + bias, in training and in evaluation alike; var is
    biased.

    Ba, Kiros and Hinton, Layer Normalization (arXiv:1607.06450). See ``nn.functional.layer_norm``.

    Args:
        normalized_shape: sizes of the last dims, an int for one dim.
        eps: added to the variance.
        elementwise_affine: whether there are a ``weight`` and a ``bias``.
        bias: False leaves out the ``bias`` alone.
        device, dtype: of the parameters; None for the default.

    Raises:
        RuntimeError: an input that does not end in ``normalized_shape``, or an empty one.
        NotImplementedError: an input that is not floating.

    Shape:
        - input and output: (*, normalized_shape).
        - weight, bias: normalized_shape, which start as 1 and 0; None without
          ``elementwise_affine``.
        - dtypes: floating.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape_of(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        options = {"device": device, "dtype": dtype}
        weight = bias_param = None
        if elementwise_affine:
            weight = Parameter(cograd.empty(self.normalized_shape, **options))
            if bias:
                bias_param = Parameter(cograd.empty(self.normalized_shape, **options))
        self.register_parameter("weight", weight)
        self.register_parameter("bias", bias_param)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight one, bias zero."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """(*, normalized_shape) to the same shape."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The arguments as ``repr`` shows them."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """x / sqrt(mean of |x|^2 + eps) * weight, the mean over ``normalized_shape``.

    The same in training and in evaluation.

    Zhang and Sennrich, Root Mean Square Layer Normalization (arXiv:1910.07467). See
    ``nn.functional.rms_norm``.

    Args:
        normalized_shape: sizes of the last dims, an int for one dim.
        eps: added to the mean; None for the machine epsilon of the dtype.
        elementwise_affine: whether there is a ``weight``.
        device, dtype: of the parameters; None for the default.

    Raises:
        RuntimeError: an input that does not end in ``normalized_shape``.
        NotImplementedError: an integer or bool input.

    Shape:
        - input and output: (*, normalized_shape).
        - weight: normalized_shape, which starts as 1; None without ``elementwise_affine``.
        - dtypes: floating or complex.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape_of(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        weight = None
        if elementwise_affine:
            weight = Parameter(cograd.empty(self.normalized_shape, device=device, dtype=dtype))
        self.register_parameter("weight", weight)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight one."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        """(*, normalized_shape) to the same shape."""
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """The arguments as ``repr`` shows them."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class _DropoutNd(Module):
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        """The arguments as ``repr`` shows them."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """In training, zeroes elements with probability ``p`` and divides the others by 1 - p.

    In evaluation it returns its input. The gradient is that of the mask that was drawn: 0 for what
    was zeroed, 1 / (1 - p) for the rest.

    Srivastava et al., Dropout: A Simple Way to Prevent Neural Networks from Overfitting (2014). See
    ``nn.functional.dropout``.

    Args:
        p: probability of a zero, in [0, 1]; 1 gives zeros alone.
        inplace: writes the result into the input; refused for a leaf that requires grad.

    Raises:
        ValueError: ``p`` outside of [0, 1].
        RuntimeError: an integer or bool input in training.

    Shape:
        - input and output: (*), any shape.
        - dtypes: floating or complex.
    """

    def forward(self, input: Tensor) -> Tensor:
        """(*) to (*)."""
        return F.dropout(input, self.p, self.training, self.inplace)


class CosineSimilarity(Module):
    """x1 . x2 / (max(|x1|, eps) max(|x2|, eps)) along ``dim``.

    For a vector of zeros the result is 0 and its gradient x2 / (eps |x2|). See
    ``nn.functional.cosine_similarity``.

    Args:
        dim: the dim of the vectors.
        eps: the least norm that is divided by.

    Raises:
        RuntimeError: shapes that do not broadcast, or integers or bool.
        IndexError: no such dim.
        NotImplementedError: complex inputs.

    Shape:
        - x1, x2: (*1, D, *2), D at ``dim``, or shapes that broadcast to one.
        - output: (*1, *2).
        - dtypes: floating.
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """(*1, D, *2), (*1, D, *2) to (*1, *2)."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """p-norm of x1 - x2 + eps over the last dim.

    With ``eps`` of 0 the norm of 0 has the gradient 0. See ``nn.functional.pairwise_distance``.

    Args:
        p: of the norm, also inf; negative ones are taken.
        eps: added to each difference, so that the gradient of the root is finite.
        keepdim: keeps the last dim, with size 1.

    Raises:
        RuntimeError: shapes that do not broadcast.

    Shape:
        - x1, x2: (*, D) or (D), broadcast against each other.
        - output: (*), or (*, 1) with ``keepdim``.
        - dtypes: floating or complex.
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """(*, D), (*, D) to (*)."""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
