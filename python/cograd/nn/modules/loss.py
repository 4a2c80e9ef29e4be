# SPDX-License-Identifier: BSD-3-Clause
"""Loss modules; each wraps the function of the same name in nn.functional."""

from __future__ import annotations

from cograd import Tensor

from .. import functional as F
from .._reduction import legacy_reduction
from .module import Module


class _Loss(Module):
    """Keeps ``reduction``: 'none', 'mean' or 'sum' (or torch's deprecated pair of flags)."""

    reduction: str

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        self.reduction = legacy_reduction(size_average, reduce, reduction)


class _WeightedLoss(_Loss):
    """Keeps a buffer ``weight``, None if there is none."""

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class L1Loss(_Loss):
    """|input - target|.

    The gradient is the sign, 0 where both are equal; for complex numbers that of the modulus. See
    ``nn.functional.l1_loss``.

    Args:
        size_average: older name: False means 'sum'.
        reduce: older name: False means 'none'.
        reduction: 'mean' over all elements, 'sum', or 'none'.

    Raises:
        ValueError: an unknown ``reduction``, when it is called.
        RuntimeError: shapes that do not broadcast.
        NotImplementedError: integers or bool.

    Shape:
        - input, target: (*), broadcast against each other; different shapes warn.
        - output: (), or their common shape for 'none'.
        - dtypes: floating or complex.
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """(*), (*) to a scalar, or (*) with reduction 'none'."""
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """(input - target)^2.

    Smooth: the gradient is 2 (input - target), over the count for 'mean'. See
    ``nn.functional.mse_loss``.

    Args:
        size_average: older name: False means 'sum'.
        reduce: older name: False means 'none'.
        reduction: 'mean' over all elements, 'sum', or 'none'.

    Raises:
        ValueError: an unknown ``reduction``, when it is called.
        RuntimeError: shapes that do not broadcast.
        NotImplementedError: an input that is not floating.

    Shape:
        - input, target: (*), broadcast against each other; different shapes warn.
        - output: (), or their common shape for 'none'.
        - dtypes: floating.
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """(*), (*) to a scalar, or (*) with reduction 'none'."""
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """0.5 d^2 / beta where d = |input - target| < beta, d - 0.5 beta elsewhere.

    The derivative is continuous, 1 from beta on; with beta = 0 it is L1Loss, whose gradient at 0
    is 0. Girshick, Fast R-CNN (arXiv:1504.08083). See ``nn.functional.smooth_l1_loss``.

    Args:
        size_average: older name: False means 'sum'.
        reduce: older name: False means 'none'.
        reduction: 'mean' over all elements, 'sum', or 'none'.
        beta: where the parabola ends, not negative.

    Raises:
        ValueError: an unknown ``reduction``, when it is called.
        RuntimeError: a negative ``beta``, or shapes that do not broadcast.

    Shape:
        - input, target: (*), broadcast against each other; different shapes warn.
        - output: (), or their common shape for 'none'.
        - dtypes: floating.
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """(*), (*) to a scalar, or (*) with reduction 'none'."""
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """0.5 d^2 where d = |input - target| <= delta, delta (d - 0.5 delta) elsewhere.

    The derivative is continuous, delta beyond delta. Huber, Robust Estimation of a Location
    Parameter (1964). See ``nn.functional.huber_loss``.

    Args:
        reduction: 'mean' over all elements, 'sum', or 'none'.
        delta: where the parabola ends, positive.

    Raises:
        ValueError: an unknown ``reduction``, when it is called.
        RuntimeError: ``delta`` is not positive, or shapes that do not broadcast.

    Shape:
        - input, target: (*), broadcast against each other; different shapes warn.
        - output: (), or their common shape for 'none'.
        - dtypes: floating.
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """(*), (*) to a scalar, or (*) with reduction 'none'."""
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class NLLLoss(_WeightedLoss):
    """-weight[y] * input[y], input being log-probabilities and y the target.

    Linear in its input. 'mean' divides by the sum of weight[y], and is NaN where all targets are
    ignored. See ``nn.functional.nll_loss``.

    Args:
        weight: of each class, None for 1.
        size_average: older name: False means 'sum'.
        reduce: older name: False means 'none'.
        ignore_index: a target that costs nothing and gets no gradient.
        reduction: 'mean' over the weights of the targets, 'sum', or 'none'.

    Raises:
        IndexError: a target outside of [0, C).
        ValueError: another number of targets than of samples.
        RuntimeError: a ``weight`` of other than C elements, or targets of another dtype.

    Shape:
        - input: (N, C, *) or (C), log-probabilities.
        - target: (N, *) or (), int64 or uint8, in [0, C).
        - output: (), or target's shape for 'none'.
        - weight: (C), a buffer.
        - dtypes: floating.
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """(N, C) log-probabilities, (N) classes to a scalar, or (N) with reduction 'none'."""
        return F.nll_loss(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
        )


class CrossEntropyLoss(_WeightedLoss):
    """-log(exp(x_y) / sum_c exp(x_c)) for logits x and a class y.

    For probabilities t it is -sum_c weight_c t_c log_softmax(x)_c, whose 'mean' is over samples;
    that of classes divides by the sum of weight[y], and is NaN where all targets are ignored.
    Smooth for finite logits. Label smoothing: Szegedy et al., Rethinking the Inception Architecture
    for Computer Vision (arXiv:1512.00567). See ``nn.functional.cross_entropy``.

    Args:
        weight: of each class, None for 1.
        size_average: older name: False means 'sum'.
        reduce: older name: False means 'none'.
        ignore_index: a target that costs nothing and gets no gradient.
        reduction: 'mean' over the weights of the targets, 'sum', or 'none'.
        label_smoothing: the part of each target that all C classes share, in [0, 1].

    Raises:
        IndexError: a target outside of [0, C).
        RuntimeError: a ``weight`` of other than C elements, a smoothing outside of [0, 1], or
            probabilities of another shape.

    Shape:
        - input: (N, C, *) or (C), logits.
        - target: (N, *) or (), int64 or uint8, in [0, C); or probabilities of input's shape.
        - output: (), or (N, *) for 'none'.
        - weight: (C), a buffer.
        - dtypes: floating.
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """(N, C) logits, (N) classes or (N, C) probabilities to a scalar or (N)."""
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class BCELoss(_WeightedLoss):
    """-weight (t log(x) + (1 - t) log(1 - x)), x being probabilities.

    The logarithms are limited to -100, and the divisor x (1 - x) of the gradient to 1e-12, so that
    both are finite at 0 and 1. See ``nn.functional.binary_cross_entropy``.

    Args:
        weight: of each element, None for 1.
        size_average: older name: False means 'sum'.
        reduce: older name: False means 'none'.
        reduction: 'mean' over all elements, 'sum', or 'none'.

    Raises:
        ValueError: shapes that differ.
        RuntimeError: an input outside of [0, 1], or a weight that does not broadcast.
        NotImplementedError: an input that is not floating.

    Shape:
        - input, target: (*), of one shape, in [0, 1].
        - output: (), or (*) for 'none'.
        - weight: broadcast to (*), a buffer.
        - dtypes: floating.
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """(*), (*) to a scalar, or (*) with reduction 'none'."""
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_WeightedLoss):
    """-weight (pos_weight t log(s(x)) + (1 - t) log(1 - s(x))), s the sigmoid.

    It does not overflow, and is smooth for all logits x. See
    ``nn.functional.binary_cross_entropy_with_logits``.

    Args:
        weight: of each element, None for 1.
        size_average: older name: False means 'sum'.
        reduce: older name: False means 'none'.
        reduction: 'mean' over all elements, 'sum', or 'none'.
        pos_weight: of the positives, such as one for each class; None for 1.

    Raises:
        ValueError: shapes that differ.
        RuntimeError: a ``pos_weight`` that does not broadcast.
        NotImplementedError: an input that is not floating.

    Shape:
        - input, target: (*), of one shape.
        - output: (), or (*) for 'none'.
        - weight, pos_weight: broadcast to (*), buffers.
        - dtypes: floating.
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """(*), (*) to a scalar, or (*) with reduction 'none'."""
        return F.binary_cross_entropy_with_logits(
            input,
            target,
            weight=self.weight,
            pos_weight=self.pos_weight,
            reduction=self.reduction,
        )


class KLDivLoss(_Loss):
    """target (log(target) - input), input being log-probabilities.

    A target of 0 costs 0. 'mean' divides by the number of elements and warns; 'batchmean' divides
    by the first size, as the divergence is defined. Kullback and Leibler, On Information and
    Sufficiency (1951). See ``nn.functional.kl_div``.

    Args:
        size_average: older name: False means 'sum'.
        reduce: older name: False means 'none'.
        reduction: 'batchmean', 'mean', 'sum' or 'none'.
        log_target: whether the target is logarithms too.

    Raises:
        ValueError: an unknown ``reduction``, when it is called.
        RuntimeError: shapes that do not broadcast.

    Shape:
        - input, target: (*), broadcast against each other.
        - output: (), or (*) for 'none'.
        - dtypes: floating.
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """(*) log-probabilities, (*) to a scalar, or (*) with reduction 'none'."""
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class PoissonNLLLoss(_Loss):
    """exp(x) - t x for log-rates x, or x - t log(x + eps) for rates x.

    With ``full`` Stirling's t log(t) - t + 0.5 log(2 pi t) is added where t > 1, for log(t!). See
    ``nn.functional.poisson_nll_loss``.

    Args:
        log_input: whether x are logarithms of rates.
        full: adds log(t!).
        size_average: older name: False means 'sum'.
        eps: keeps the logarithm finite at 0.
        reduce: older name: False means 'none'.
        reduction: 'mean' over all elements, 'sum', or 'none'.

    Raises:
        ValueError: an unknown ``reduction``, when it is called.
        RuntimeError: shapes that do not broadcast.

    Shape:
        - log_input, target: (*), broadcast against each other.
        - output: (), or (*) for 'none'.
        - dtypes: floating.
    """

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        """(*), (*) to a scalar, or (*) with reduction 'none'."""
        return F.poisson_nll_loss(
            log_input,
            target,
            log_input=self.log_input,
            full=self.full,
            eps=self.eps,
            reduction=self.reduction,
        )


class GaussianNLLLoss(_Loss):
    """0.5 (log(v) + (input - target)^2 / v), v = max(var, eps).

    The gradient of ``var`` is that of v: limiting it does not cut it. ``full`` adds 0.5 log(2 pi).
    Nix and Weigend, Estimating the Mean and Variance of the Target Probability Distribution (1994).
    See ``nn.functional.gaussian_nll_loss``.

    Args:
        full: adds the constant.
        eps: the least variance.
        reduction: 'mean' over all elements, 'sum', or 'none'.

    Raises:
        ValueError: a negative variance, one of another shape, or an unknown ``reduction``.

    Shape:
        - input, target: (*), broadcast against each other.
        - var: input's shape, or with 1 as or without the last size; or a number.
        - output: (), or (*) for 'none'.
        - dtypes: floating.
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        """(*), (*), variances (*) to a scalar, or (*) with reduction 'none'."""
        return F.gaussian_nll_loss(
            input, target, var, full=self.full, eps=self.eps, reduction=self.reduction
        )


class _MarginLoss(_Loss):
    """Keeps ``margin``."""

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin


class CosineEmbeddingLoss(_MarginLoss):
    """1 - cos(x1, x2) where target is 1, max(0, cos(x1, x2) - margin) where -1.

    At cos = margin the gradient is that of the cosine. A target that is neither costs 0. See
    ``nn.functional.cosine_embedding_loss``.

    Args:
        margin: of the pairs that differ, from -1 to 1.
        size_average: older name: False means 'sum'.
        reduce: older name: False means 'none'.
        reduction: 'mean' over all elements, 'sum', or 'none'.

    Raises:
        ValueError: an unknown ``reduction``, when it is called.
        RuntimeError: vectors of different shapes.

    Shape:
        - input1, input2: (N, D) or (D); target: (N) or (), 1 or -1.
        - output: (), or (N) for 'none'.
        - dtypes: floating.
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """(N, D), (N, D), (N) to a scalar, or (N) with reduction 'none'."""
        return F.cosine_embedding_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class MarginRankingLoss(_MarginLoss):
    """max(0, -target * (input1 - input2) + margin).

    The kink gets the gradient of the line: -target for input1. See
    ``nn.functional.margin_ranking_loss``.

    Args:
        margin: by which the first should be larger (target 1) or smaller (-1).
        size_average: older name: False means 'sum'.
        reduce: older name: False means 'none'.
        reduction: 'mean' over all elements, 'sum', or 'none'.

    Raises:
        ValueError: an unknown ``reduction``, when it is called.
        RuntimeError: different numbers of dims, or shapes that do not broadcast.

    Shape:
        - input1, input2, target: (N), or of as many dims that broadcast.
        - output: (), or (N) for 'none'.
        - dtypes: floating.
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """(N), (N), (N) to a scalar, or (N) with reduction 'none'."""
        return F.margin_ranking_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class HingeEmbeddingLoss(_MarginLoss):
    """input where target is 1, max(0, margin - input) where it is -1.

    At input = margin the gradient is -1. A target that is neither costs both. See
    ``nn.functional.hinge_embedding_loss``.

    Args:
        margin: up to which dissimilar pairs cost.
        size_average: older name: False means 'sum'.
        reduce: older name: False means 'none'.
        reduction: 'mean' over all elements, 'sum', or 'none'.

    Raises:
        ValueError: an unknown ``reduction``, when it is called.
        RuntimeError: shapes that do not broadcast.

    Shape:
        - input, target: (*), distances, and 1 or -1.
        - output: (), or (*) for 'none'.
        - dtypes: floating or integer.
    """

    def __init__(
        self,
        margin: float = 1.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(margin, size_average, reduce, reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """(*), (*) to a scalar, or (*) with reduction 'none'."""
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class SoftMarginLoss(_Loss):
    """log(1 + exp(-target * input)), target being 1 or -1.

    It does not overflow, and is smooth. See ``nn.functional.soft_margin_loss``.

    Args:
        size_average: older name: False means 'sum'.
        reduce: older name: False means 'none'.
        reduction: 'mean' over all elements, 'sum', or 'none'.

    Raises:
        ValueError: an unknown ``reduction``, when it is called.
        RuntimeError: a target that does not broadcast to the input's shape.

    Shape:
        - input: (*); target: broadcast to it.
        - output: (), or (*) for 'none'.
        - dtypes: floating.
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """(*), (*) to a scalar, or (*) with reduction 'none'."""
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class TripletMarginLoss(_Loss):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin).

    d is the p-norm of the difference, to which eps is added. The kink gets the gradient of the
    distances. Balntas et al., Learning Local Feature Descriptors with Triplets and Shallow
    Convolutional Neural Networks (2016). See ``nn.functional.triplet_margin_loss``.

    Args:
        margin: by which the negative should be further, positive.
        p: of the norm.
        eps: added to each difference.
        swap: takes the smaller of d(anchor, negative) and d(positive, negative).
        size_average: older name: False means 'sum'.
        reduce: older name: False means 'none'.
        reduction: 'mean' over all elements, 'sum', or 'none'.

    Raises:
        ValueError: ``margin`` is not positive.
        RuntimeError: different numbers of dims, or shapes that do not broadcast.

    Shape:
        - anchor, positive, negative: (N, D) or (D).
        - output: (), or (N) for 'none'.
        - dtypes: floating or complex.
    """

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginLoss: expected margin to be greater than 0, got {margin} instead"
            )
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """(N, D), (N, D), (N, D) to a scalar, or (N) with reduction 'none'."""
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CosineEmbeddingLoss",
    "CrossEntropyLoss",
    "GaussianNLLLoss",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "MSELoss",
    "MarginRankingLoss",
    "NLLLoss",
    "PoissonNLLLoss",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "TripletMarginLoss",
]
