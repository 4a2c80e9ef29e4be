# SPDX-License-Identifier: BSD-3-Clause
"""Lookups by index: rows of a table, and one-hot rows."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor

__all__ = ["embedding", "embedding_bag", "one_hot"]


def _needs_sparse(weight: Tensor) -> bool:
    """Returns whether a sparse gradient will be wanted; inside of a transform it is dense."""
    return int(weight._is_concerned) == 1


def _of_sparse(name: str) -> Any:
    """Returns a function of cograd.sparse, which is imported now."""
    from cograd._base.memory_format import registered

    if not registered:
        cograd.sparse.SparseTensor  # noqa: B018, imports it
    return registered[name]


def _sparse_rows(
    input: Tensor,
    weight: Tensor,
    padding: int | None,
    max_norm: float | None,
    norm_type: float,
    by_freq: bool,
) -> Tensor:
    if by_freq:
        raise RuntimeError(
            "embedding_backward: scale_grad_by_freq not supported with sparse gradients"
        )
    with cograd.no_grad():  # checks the arguments, and scales the rows
        cograd._C._nn.embedding(input, weight.detach(), padding, max_norm, norm_type)
    rows: Tensor = _of_sparse("embedding_rows")(input, weight, padding)
    return rows


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Returns the rows of ``weight`` (V, D) at the indices ``input`` (*), of shape (*, D).

    The row ``padding_idx`` gets no gradient. With ``max_norm``, the rows looked up are first
    scaled down to that norm, in place. With ``scale_grad_by_freq``, the gradient of a row is
    divided by how often the row is looked up. With ``sparse``, the gradient of a leaf is a sparse
    tensor.
    """
    rows = weight.shape[0]
    if padding_idx is not None:
        if not -rows <= padding_idx < rows:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx = padding_idx % rows
    if sparse and _needs_sparse(weight):
        return _sparse_rows(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq)
    return cograd._C._nn.embedding(
        input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq
    )


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Converts indices (*) to one-hot rows, int64 (*, num_classes)."""
    return cograd._C._ops._one_hot(tensor, num_classes)


_BAG_MODES = {"sum": 0, "mean": 1, "max": 2}


def _check_bags(mode: str, by_freq: bool, sparse: bool, per_sample_weights: Tensor | None) -> None:
    if mode not in _BAG_MODES:
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if sparse and by_freq:
        raise RuntimeError("embedding_bag: scale_grad_by_freq not supported with sparse gradients")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported "
            f"for mode='sum' (got mode='{mode}')."
        )


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Reduces the rows of ``weight`` (V, D) in each bag of indices by sum, mean or max (``mode``).

    Args:
        input: (B, n), bags of n indices, or (n) with ``offsets`` (B), the starts of the bags; with
            ``include_last_offset`` the last offset is the end of the last bag.
        max_norm, norm_type: rows looked up are first scaled down to that norm, in place.
        scale_grad_by_freq: divides the gradient of a row by how often the row is looked up.
        per_sample_weights: of the shape of ``input``, with mode 'sum': factors of the rows.
        padding_idx: an index that is left out of the bags.

    Returns:
        (B, D); zeros for empty bags.
    """
    if per_sample_weights is not None and input.shape != per_sample_weights.shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({list(per_sample_weights.shape)}) is not None, "
            f"then it must have the same shape as the input ({list(input.shape)})"
        )
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch "
                f"of fixed length sequences. However, found offsets of type {type(offsets)}"
            )
        length = input.shape[1]
        offsets = cograd.arange(input.shape[0], dtype=cograd.int64, device=input.device) * length
        include_last_offset = False
        input = input.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
    elif input.dim() == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if offsets.dim() != 1:
            raise ValueError("offsets has to be a 1D Tensor")
    else:
        raise ValueError(
            f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}"
        )
    _check_bags(mode, scale_grad_by_freq, sparse, per_sample_weights)
    rows = weight.shape[0]
    if padding_idx is not None:
        if not -rows <= padding_idx < rows:
            raise AssertionError("padding_idx must be within the number of embeddings")
        padding_idx = padding_idx % rows
    if max_norm is not None:
        cograd._C._nn.embedding(input, weight.detach(), None, max_norm, norm_type)
    if sparse and _needs_sparse(weight):
        with cograd.no_grad():  # checks the arguments
            cograd._C._ops._embedding_bag(
                weight, input, offsets, 0, -1, False, include_last_offset, per_sample_weights
            )
        bags: Tensor = _of_sparse("embedding_bag_rows")(
            input, weight, offsets, mode, include_last_offset, per_sample_weights, padding_idx
        )
        return bags
    return cograd._C._ops._embedding_bag(
        weight,
        input,
        offsets,
        _BAG_MODES[mode],
        -1 if padding_idx is None else padding_idx,
        scale_grad_by_freq,
        include_last_offset,
        per_sample_weights,
    )[0]
