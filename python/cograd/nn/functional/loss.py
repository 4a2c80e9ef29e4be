# SPDX-License-Identifier: BSD-3-Clause
"""Loss functions: the core's ops where they exist, otherwise composed of ops."""

from __future__ import annotations

import math
import warnings
from typing import Any

import cograd
from cograd import _C, Tensor

from .._reduction import legacy_reduction, reduce_loss
from .distance import pairwise_distance

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cosine_embedding_loss",
    "cross_entropy",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "margin_ranking_loss",
    "mse_loss",
    "nll_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
]


def _same_size(input: Tensor, target: Tensor) -> None:
    if target.shape != input.shape:
        warnings.warn(
            f"Using a target size ({target.shape}) that is different to the input size "
            f"({input.shape}). This will likely lead to incorrect results due to broadcasting. "
            "Please ensure they have the same size.",
            stacklevel=3,
        )


def _elementwise(
    op: Any, input: Tensor, target: Tensor, reduction: str, weight: Tensor | None
) -> Tensor:
    """Applies ``op``; with weights, a 'mean' is divided by the sum of the weights."""
    if weight is None:
        return op(input, target, reduction=reduction)  # type: ignore[no-any-return]
    if weight.shape != input.shape:
        raise ValueError("Weights and input must have the same size.")
    loss = op(input, target, reduction="none") * weight
    return loss.sum() / weight.sum() if reduction == "mean" else reduce_loss(loss, reduction)


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Computes (input - target)^2; the shapes broadcast."""
    _same_size(input, target)
    reduction = legacy_reduction(size_average, reduce, reduction)
    return _elementwise(cograd._C._nn.mse_loss, input, target, reduction, weight)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Computes |input - target|; the shapes broadcast."""
    _same_size(input, target)
    reduction = legacy_reduction(size_average, reduce, reduction)
    return _elementwise(cograd._C._nn.l1_loss, input, target, reduction, weight)


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Returns minus the log-probabilities ``input`` (N, C, *) at the classes ``target`` (N, *)."""
    return cograd._C._nn.nll_loss(
        input,
        target,
        weight=weight,
        ignore_index=ignore_index,
        reduction=legacy_reduction(size_average, reduce, reduction),
    )


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Returns the cross entropy of logits and classes (N, *) or probabilities (N, C, *)."""
    return cograd._C._nn.cross_entropy(
        input,
        target,
        weight=weight,
        ignore_index=ignore_index,
        reduction=legacy_reduction(size_average, reduce, reduction),
        label_smoothing=label_smoothing,
    )


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Computes the binary cross entropy of probabilities ``input`` with ``target``, same shapes."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    return cograd._C._nn.binary_cross_entropy(input, target, weight=weight, reduction=reduction)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Computes the binary cross entropy of logits ``input`` with ``target``, same shapes."""
    return cograd._C._nn.binary_cross_entropy_with_logits(
        input,
        target,
        weight=weight,
        pos_weight=pos_weight,
        reduction=legacy_reduction(size_average, reduce, reduction),
    )


def _xlogx(x: Tensor) -> Tensor:
    """Returns x * log(x), and 0 with a gradient of 0 at x = 0."""
    return x * cograd.where(x != 0, x, cograd.ones_like(x)).log()


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Returns the squared error below ``beta``, else the absolute error; the shapes broadcast."""
    if _C._autocast_enabled():
        input, target = _C._autocast_wide(input, target)
    _same_size(input, target)
    reduction = legacy_reduction(size_average, reduce, reduction)
    if not beta >= 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    if beta == 0.0 or _vanishes(beta, input, target):
        return l1_loss(input, target, reduction=reduction)
    error = input - target
    small = error.clamp(-beta, beta)  # no square: the gradient of an infinite error would be NaN
    loss = (error / beta).clamp(-1, 1) * (error - 0.5 * small)
    return reduce_loss(loss, reduction)


def _vanishes(value: float, a: Tensor, b: Tensor) -> bool:
    """Returns whether ``value`` is subnormal in the tensors' dtype: its reciprocal overflows."""
    if value >= 1e-4:
        return False
    dtype = cograd.result_type(a, b)
    return dtype.is_floating_point and value < cograd.finfo(dtype).tiny


def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """Returns the squared error below ``delta``, ``delta`` times the absolute error above it."""
    if _C._autocast_enabled():
        input, target = _C._autocast_wide(input, target)
    _same_size(input, target)
    if not delta > 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    error = input - target
    small = error.clamp(-delta, delta)  # see smooth_l1_loss
    loss = small * (error - 0.5 * small)
    if weight is not None:
        if weight.shape != input.shape:
            raise ValueError("Weights and input must have the same size.")
        loss = loss * weight
    return reduce_loss(loss, reduction)


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """Returns target * (log(target) - input), where ``input`` holds log-probabilities.

    ``reduction`` may also be 'batchmean': the sum divided by the number of rows.
    """
    if _C._autocast_enabled():
        input, target = _C._autocast_wide(input, target)
    reduction = legacy_reduction(size_average, reduce, reduction)
    if reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support "
            "size.'batchmean' divides only by the batch size, and aligns with the KL div math "
            "definition.'mean' will be changed to behave the same as 'batchmean' in the next "
            "major release.",
            stacklevel=2,
        )
    if log_target:
        loss = target.exp() * (target - input)
    else:
        loss = _xlogx(target) - target * input
    if reduction == "batchmean":
        total = loss.sum()
        return total / input.shape[0] if input.dim() else total
    return reduce_loss(loss, reduction)


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Returns Poisson's negative log-likelihood of counts; ``full`` adds Stirling's term."""
    if _C._autocast_enabled():
        input, target = _C._autocast_wide(input, target)
    reduction = legacy_reduction(size_average, reduce, reduction)
    if log_input:
        loss = input.exp() - target * input
    else:
        loss = input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        loss = loss + stirling.masked_fill(target <= 1, 0)
    return reduce_loss(loss, reduction)


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """Returns the negative log-likelihood of ``target`` under N(``input``, ``var``).

    ``var`` is a float or has the shape of ``input``, whose last dim may be missing or 1.
    """
    if not isinstance(var, Tensor):
        var = var * cograd.ones_like(input, requires_grad=False)
    if not var.is_meta and bool((var < 0).any()):
        raise ValueError("var has negative entry/entries")
    shape = tuple(input.shape)
    if tuple(var.shape) != shape:
        if shape[:-1] == tuple(var.shape):
            var = var.unsqueeze(-1)
        elif not (
            len(var.shape) == len(shape)
            and tuple(var.shape)[:-1] == shape[:-1]
            and var.shape[-1] == 1
        ):
            raise ValueError(
                f"var is of incorrect size: {tuple(var.shape)}, expected {shape}, {shape[:-1]} or "
                f"{(*shape[:-1], 1)}"
            )
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    # The lower limit must not cut the gradient: compute the correction without recording.
    with cograd.no_grad():
        correction = (eps - var).clamp(min=0)
    floored = var + correction
    loss = 0.5 * (floored.log() + (input - target) ** 2 / floored)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduce_loss(loss, reduction)


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Returns 1 - cos where ``target`` is 1, max(0, cos - margin) where it is -1.

    The shapes are (N, D), (N, D), (N).
    """
    if _C._autocast_enabled():
        input1, input2, target = _C._autocast_wide(input1, input2, target)
    reduction = legacy_reduction(size_average, reduce, reduction)
    if target.dim() > 1 or input1.dim() != target.dim() + 1 or input2.dim() != target.dim() + 1:
        raise RuntimeError(
            f"{target.dim()}D target tensor expects {target.dim() + 1}D input tensors, but found "
            f"inputs with sizes {tuple(input1.shape)} and {tuple(input2.shape)}."
        )
    eps = 1e-12  # inside the root, so that the gradient is finite at zero vectors
    dot = (input1 * input2).sum(-1)
    norm = ((input1 * input1).sum(-1) + eps) * ((input2 * input2).sum(-1) + eps)
    cos = dot / norm.sqrt()
    zeros = cograd.zeros_like(cos)
    loss = cograd.where(target == 1, 1 - cos, zeros)
    loss = loss + cograd.where(target == -1, (cos - margin).clamp(min=0), zeros)
    return reduce_loss(loss, reduction)


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Returns max(0, -target * (input1 - input2) + margin)."""
    if _C._autocast_enabled():
        input1, input2, target = _C._autocast_wide(input1, input2, target)
    reduction = legacy_reduction(size_average, reduce, reduction)
    if not input1.dim() == input2.dim() == target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.shape}, input2: {input2.shape}, target: {target.shape} "
        )
    return reduce_loss((-target * (input1 - input2) + float(margin)).clamp(min=0), reduction)


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Returns ``input`` where ``target`` is 1, max(0, margin - input) where it is -1."""
    if _C._autocast_enabled():
        input, target = _C._autocast_wide(input, target)
    reduction = legacy_reduction(size_average, reduce, reduction)
    zeros = cograd.zeros_like(input)
    far = cograd.where(target == 1, zeros, (margin - input).clamp(min=0))
    near = cograd.where(target == -1, zeros, input)
    return reduce_loss(far + near, reduction)


def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Returns log(1 + exp(-target * input)), for ``target`` 1 or -1; does not overflow."""
    if _C._autocast_enabled():
        input, target = _C._autocast_wide(input, target)
    reduction = legacy_reduction(size_average, reduce, reduction)
    z = target * input
    below = z < 0  # unlike 1 - sigmoid, exp(-|z|) keeps its digits in derivatives of every order
    low, high = z.masked_fill(below.logical_not(), 0), z.masked_fill(below, 0)
    losses = cograd.where(below, low.exp().log1p() - low, (-high).exp().log1p())
    if losses.shape != input.shape:
        raise RuntimeError(
            f"soft_margin_loss(): target of shape {list(target.shape)} does not broadcast to the "
            f"input's shape {list(input.shape)}"
        )
    return reduce_loss(losses, reduction)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Returns max(0, d(anchor, positive) - d(anchor, negative) + margin)."""
    if _C._autocast_enabled():
        anchor, positive, negative = _C._autocast_wide(anchor, positive, negative)
    reduction = legacy_reduction(size_average, reduce, reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "triplet_margin_loss(): anchor, positive and negative should have as many dims, but "
            f"got {anchor.dim()}, {positive.dim()} and {negative.dim()}"
        )
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = cograd.minimum(far, pairwise_distance(positive, negative, p, eps))
    return reduce_loss((margin + near - far).clamp(min=0), reduction)
