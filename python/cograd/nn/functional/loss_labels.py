# SPDX-License-Identifier: BSD-3-Clause
"""Losses over labels and label sequences, and a triplet loss with any distance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import cograd
from cograd import _C, Tensor

from .._reduction import legacy_reduction, reduce_loss
from .activation import logsigmoid
from .distance import pairwise_distance

__all__ = [
    "ctc_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "triplet_margin_with_distance_loss",
]


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Computes the connectionist temporal classification loss (Graves et al. 2006).

    Args:
        log_probs: (T, N, C), or (T, C) for one sample, as log_softmax returns them; the gradient
            is with respect to the input of the log_softmax.
        targets: (N, S), or the labels of all samples joined in one dim.
        input_lengths, target_lengths: (N,), the length of each sample.
        blank: the class that means no label.
        reduction: 'mean' divides each loss by the length of its target and averages.
        zero_infinity: losses of targets that do not fit their inputs, and their gradients, are 0.
    """
    single = log_probs.dim() == 2
    if single:
        log_probs = log_probs.unsqueeze(1)
    lengths = cograd.as_tensor(target_lengths, device=log_probs.device)
    input_lengths = cograd.as_tensor(input_lengths, device=log_probs.device)
    losses = cograd._C._ops._ctc_losses(
        log_probs, targets, input_lengths, lengths, blank, zero_infinity
    )
    if reduction == "mean":
        return (losses / lengths.reshape(-1).clamp(min=1).to(losses.dtype)).mean()
    if reduction == "none" and single:
        return losses.squeeze(0)
    return reduce_loss(losses, reduction)


def _rows(name: str, input: Tensor) -> Tensor:
    if input.dim() == 0:
        return input.reshape(1, 1)
    if input.dim() > 2 or input.shape[-1] == 0:
        raise RuntimeError(
            f"{name}: Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
            f"{list(input.shape)}"
        )
    return input.reshape(-1, input.shape[-1])


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Sums max(0, margin - x[y] + x[j])^p over all j other than the class y, divided by C.

    ``input`` (N, C), (C) or (), ``target`` (N) or (); weights (C) multiply the terms by class.
    """
    if _C._autocast_enabled():
        (input,) = _C._autocast_wide(input)
    reduction = legacy_reduction(size_average, reduce, reduction)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    x = _rows("multi_margin_loss", input)
    y = target.reshape(-1, 1)
    if y.shape[0] != x.shape[0] or target.dim() > 1:
        raise RuntimeError(
            f"multi_margin_loss: inconsistent target size, expected {x.shape[0]} but got "
            f"{list(target.shape)}"
        )
    z = (margin - x.gather(1, y) + x).relu()  # the gradient at the kink is 0, as in torch
    if p == 2:
        z = z * z
    if weight is not None:
        z = z * weight[y]
    own = cograd.arange(x.shape[1], device=x.device) == y
    losses = z.masked_fill(own, 0).sum(1) / x.shape[1]
    if reduction == "none":
        return losses.reshape(target.shape)
    return reduce_loss(losses, reduction)


def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Sums max(0, 1 - x[y] + x[j]) over the labels y and all other classes j, divided by C.

    ``input`` is (N, C) or (C); ``target``, of the same shape, has labels up to the first -1.
    """
    if _C._autocast_enabled():
        (input,) = _C._autocast_wide(input)
    reduction = legacy_reduction(size_average, reduce, reduction)
    x = _rows("multilabel_margin_loss", input)
    one = input.dim() < 2 and target.dim() < 2 and input.numel() == target.numel() == 1
    if target.shape != input.shape and not one:
        raise RuntimeError(
            f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}"
        )
    y = target.reshape(x.shape)
    given = (y < 0).to(cograd.int64).cumsum(1) == 0
    at = y.masked_fill(given.logical_not(), 0)
    none = cograd.zeros(x.shape, dtype=cograd.int64, device=x.device)
    labelled = none.scatter_add(1, at, given.to(cograd.int64))
    pairs = (1 - x.gather(1, at).unsqueeze(2) + x.unsqueeze(1)).relu()
    counts = given.unsqueeze(2) & (labelled == 0).unsqueeze(1)
    losses = pairs.masked_fill(counts.logical_not(), 0).sum((1, 2)) / x.shape[1]
    if input.dim() < 2 and reduction == "none":
        return losses.squeeze(0)
    return reduce_loss(losses, reduction)


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Averages the binary cross entropy of logits (*, C) with targets of 0 and 1 over C."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return reduce_loss(loss.sum(-1) / input.shape[-1], reduction)


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """Returns max(0, d(anchor, positive) - d(anchor, negative) + margin) for any distance d.

    With ``swap``, d(positive, negative) is used where it is smaller than d(anchor, negative).
    """
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    distance: Any = pairwise_distance if distance_function is None else distance_function
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of "
            f"dimensions, but got: anchor {anchor.dim()}D, positive {positive.dim()}D, and "
            f"negative {negative.dim()}D inputs"
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = cograd.minimum(far, distance(positive, negative))
    return reduce_loss((margin + near - far).clamp(min=0), reduction)
