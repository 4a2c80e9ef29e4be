# SPDX-License-Identifier: BSD-3-Clause
"""Modules of the losses over labels and label sequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cograd import Tensor

from .. import functional as F
from ._loss_base import _Loss, _WeightedLoss
from .distance import PairwiseDistance

__all__ = [
    "CTCLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "TripletMarginWithDistanceLoss",
]


class CTCLoss(_Loss):
    """Computes -log of the probability that log_probs spell the targets, over all alignments.

    The loss sums over all ways to spread labels and blanks over T steps. It is inf where an input
    is too short for its target. Graves et al., Connectionist Temporal Classification (2006). See
    ``nn.functional.ctc_loss``.

    Args:
        blank: the class that means no label, in [0, C).
        reduction: 'mean' of each loss divided by its target's length, 'sum', or 'none'.
        zero_infinity: whether to set infinite losses and their gradients to 0.

    Raises:
        RuntimeError: ``blank`` or a label is not in [0, C), or a length exceeds T or S.

    Shape:
        - log_probs: (T, N, C) or (T, C), logarithms as log_softmax returns them.
        - targets: (N, S), or joined in one dim, integers in [0, C) other than ``blank``.
        - input_lengths, target_lengths: (N) or (), integers, at most T and S.
        - output: (), or (N) for 'none'.
        - dtypes: floating.
    """

    def __init__(
        self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(
        self,
        log_probs: Tensor,
        targets: Tensor,
        input_lengths: Tensor | Sequence[int],
        target_lengths: Tensor | Sequence[int],
    ) -> Tensor:
        """Maps (T, N, C), (N, S) or joined, (N), (N) to a scalar, or (N) with reduction 'none'."""
        return F.ctc_loss(
            log_probs,
            targets,
            input_lengths,
            target_lengths,
            self.blank,
            self.reduction,
            self.zero_infinity,
        )


class MultiLabelMarginLoss(_Loss):
    """Computes the sum of max(0, 1 - x[y] + x[j]) / C over the labels y and all other classes j.

    The kinks get the gradient 0. See ``nn.functional.multilabel_margin_loss``.

    Args:
        size_average: deprecated; False means reduction 'sum'.
        reduce: deprecated; False means reduction 'none'.
        reduction: 'mean' over samples, 'sum', or 'none'.

    Raises:
        RuntimeError: the shape of the targets does not fit, or a label is not in [0, C).

    Shape:
        - input: (N, C) or (C).
        - target: of the input's shape, int64: labels up to the first -1.
        - output: (), or (N) for 'none'.
        - dtypes: floating.
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Maps (N, C), labels (N, C) ended by -1, to a scalar, or (N) with reduction 'none'."""
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """BCEWithLogitsLoss of each class, averaged over the C classes.

    -mean_c weight_c (t_c log(s(x_c)) + (1 - t_c) log(1 - s(x_c))), s the sigmoid; smooth. See
    ``nn.functional.multilabel_soft_margin_loss``.

    Args:
        weight: weight of each class; None for 1.
        size_average: deprecated; False means reduction 'sum'.
        reduce: deprecated; False means reduction 'none'.
        reduction: 'mean' over samples, 'sum', or 'none'.

    Raises:
        ValueError: ``reduction`` is unknown, when the module is called.
        RuntimeError: the shapes do not broadcast.

    Shape:
        - input, target: (N, C) or (C).
        - output: (), or (N) for 'none'.
        - weight: (C), a buffer.
        - dtypes: floating.
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Maps (N, C), (N, C) to a scalar, or (N) with reduction 'none'."""
        return F.multilabel_soft_margin_loss(
            input, target, weight=self.weight, reduction=self.reduction
        )


class MultiMarginLoss(_WeightedLoss):
    """Computes the sum over j != y of max(0, margin - x[y] + x[j])^p * weight[y] / C.

    The kinks get the gradient 0. See ``nn.functional.multi_margin_loss``.

    Args:
        p: 1 or 2.
        margin: how much larger x[y] should be than the others.
        weight: weight of each class; None for 1.
        size_average: deprecated; False means reduction 'sum'.
        reduce: deprecated; False means reduction 'none'.
        reduction: 'mean' over samples, 'sum', or 'none'.

    Raises:
        ValueError: ``p`` is not 1 or 2, or ``weight`` is not one-dimensional.
        RuntimeError: the number of targets does not fit, or one is not in [0, C).

    Shape:
        - input: (N, C) or (C).
        - target: (N) or (), int64, in [0, C).
        - output: (), or (N) for 'none'.
        - weight: (C), a buffer.
        - dtypes: floating.
    """

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        if weight is not None and weight.dim() != 1:
            raise ValueError("weight must be None or one-dimensional")
        self.p = p
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Maps (N, C), (N) to a scalar, or (N) with reduction 'none'."""
        return F.multi_margin_loss(
            input,
            target,
            p=self.p,
            margin=self.margin,
            weight=self.weight,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(_Loss):
    """Computes max(0, d(anchor, positive) - d(anchor, negative) + margin) for any distance d.

    The kink gets the gradient of the distances. See
    ``nn.functional.triplet_margin_with_distance_loss``.

    Args:
        distance_function: maps two tensors to (N); None means PairwiseDistance.
        margin: how much farther than the positive the negative should be, positive.
        swap: whether to use the smaller of d(anchor, negative) and d(positive, negative).
        reduction: 'mean' over all elements, 'sum', or 'none'.

    Raises:
        ValueError: ``margin`` is not positive.

    Shape:
        - anchor, positive, negative: (N, *), as the function accepts.
        - output: (), or (N) for 'none'.
        - dtypes: those that the function accepts.
    """

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginWithDistanceLoss: expected margin to be greater than 0, got {margin}"
            )
        self.distance_function: Any = (
            PairwiseDistance() if distance_function is None else distance_function
        )
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Maps (N, *), (N, *), (N, *) to a scalar, or (N) with reduction 'none'."""
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )
