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

    Returns a view where the strides allow it. See ``Tensor.flatten``.

    Args:
        start_dim: the first dim to join; the default, 1, keeps samples apart.
        end_dim: the last dim to join.

    Raises:
        IndexError: a dim does not exist, such as 1 for an input of one dim.
        RuntimeError: ``start_dim`` is after ``end_dim``.

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
        """Maps (N, *) to (N, prod(*)) with the default arguments."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits the dim ``dim`` into the sizes ``unflattened_size``.

    See ``Tensor.unflatten``.

    Args:
        dim: the dim to split, an int.
        unflattened_size: tuple or list of ints; one may be -1, which is computed from the others.

    Raises:
        TypeError: ``dim`` is not an int, or the sizes are not a tuple or list of ints.
        RuntimeError: the product of the sizes is not S.

    Shape:
        - input: (*, S, *), S at ``dim``.
        - output: (*, U1, ..., Un, *), where the product of the U is S.
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
        """Maps (*, S, *) to (*, U1, ..., Un, *)."""
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


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
        sparse: not supported: every gradient is dense.
        _weight: the table to use; it is not copied.
        _freeze: whether the table does not require grad.
        device, dtype: those of the table; None for the default.

    Raises:
        AssertionError: ``padding_idx`` is out of range, or the shape of ``_weight`` does not fit.
        IndexError: an index is out of range.
        RuntimeError: the indices are not int64 or int32.
        NotImplementedError: ``sparse`` is set, when the module is called.

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


def _shape_of(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    if isinstance(normalized_shape, int):
        return (normalized_shape,)
    return tuple(normalized_shape)


class LayerNorm(Module):
    """Normalises the last dims, ``normalized_shape``, of each sample to mean 0 and variance 1.

    y = (x - mean) / sqrt(var + eps) * weight + bias, in training and in evaluation; the variance is
    biased.

    Ba, Kiros and Hinton, Layer Normalization (arXiv:1607.06450). See ``nn.functional.layer_norm``.

    Args:
        normalized_shape: sizes of the last dims; an int means one dim.
        eps: added to the variance.
        elementwise_affine: whether the layer has a ``weight`` and a ``bias``.
        bias: False leaves out only the ``bias``.
        device, dtype: those of the parameters; None for the default.

    Raises:
        RuntimeError: the input does not end in ``normalized_shape``, or is empty.
        NotImplementedError: the input is not floating.

    Shape:
        - input and output: (*, normalized_shape).
        - weight, bias: normalized_shape, initialised to 1 and 0; None without
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
        """Sets the weight to one and the bias to zero."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Maps (*, normalized_shape) to the same shape."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Computes x / sqrt(mean of |x|^2 + eps) * weight, the mean over ``normalized_shape``.

    It computes the same in training and in evaluation.

    Zhang and Sennrich, Root Mean Square Layer Normalization (arXiv:1910.07467). See
    ``nn.functional.rms_norm``.

    Args:
        normalized_shape: sizes of the last dims; an int means one dim.
        eps: added to the mean; None means the machine epsilon of the dtype.
        elementwise_affine: whether the layer has a ``weight``.
        device, dtype: those of the parameters; None for the default.

    Raises:
        RuntimeError: the input does not end in ``normalized_shape``.
        NotImplementedError: the input is integer or bool.

    Shape:
        - input and output: (*, normalized_shape).
        - weight: normalized_shape, initialised to 1; None without ``elementwise_affine``.
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
        """Sets the weight to one."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        """Maps (*, normalized_shape) to the same shape."""
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
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
        """Returns the arguments as ``repr`` shows them."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """In training, zeroes elements with probability ``p`` and divides the others by 1 - p.

    In evaluation it returns its input. The gradient is that of the sampled mask: 0 for zeroed
    elements, 1 / (1 - p) for the others.

    Srivastava et al., Dropout: A Simple Way to Prevent Neural Networks from Overfitting (2014). See
    ``nn.functional.dropout``.

    Args:
        p: probability of a zero, in [0, 1]; 1 zeroes everything.
        inplace: whether to write the result into the input; raises for a leaf that requires grad.

    Raises:
        ValueError: ``p`` is not in [0, 1].
        RuntimeError: the input is integer or bool in training.

    Shape:
        - input and output: (*), any shape.
        - dtypes: floating or complex.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Maps (*) to (*)."""
        return F.dropout(input, self.p, self.training, self.inplace)


class CosineSimilarity(Module):
    """Computes x1 . x2 / (max(|x1|, eps) max(|x2|, eps)) along ``dim``.

    For a zero vector the result is 0 and the gradient x2 / (eps |x2|). See
    ``nn.functional.cosine_similarity``.

    Args:
        dim: the dim of the vectors.
        eps: the lower limit of a norm.

    Raises:
        RuntimeError: the shapes do not broadcast, or an input is integer or bool.
        IndexError: ``dim`` does not exist.
        NotImplementedError: an input is complex.

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
        """Maps (*1, D, *2), (*1, D, *2) to (*1, *2)."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """Computes the p-norm of x1 - x2 + eps over the last dim.

    With ``eps`` 0, the norm of a zero vector has the gradient 0. See
    ``nn.functional.pairwise_distance``.

    Args:
        p: order of the norm; inf and negative values are allowed.
        eps: added to each difference, so that the gradient of the root is finite.
        keepdim: keeps the last dim, with size 1.

    Raises:
        RuntimeError: the shapes do not broadcast.

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
        """Maps (*, D), (*, D) to (*)."""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
