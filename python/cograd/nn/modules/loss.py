# SPDX-License-Identifier: BSD-3-Clause
"""Loss modules; each wraps the function of the same name in nn.functional."""

from __future__ import annotations

from cograd import Tensor

from .. import functional as F
from .._reduction import legacy_reduction
from .module import Module


class _Loss(Module):
    """Stores ``reduction``: 'none', 'mean' or 'sum' (or derives it from the deprecated flags)."""

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
    """Stores the buffer ``weight``, which may be None."""

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
    """Computes |input - target|.

    The gradient is the sign, 0 where both are equal; complex numbers have that of the modulus. See
    ``nn.functional.l1_loss``.

    Args:
        size_average: deprecated; False means reduction 'sum'.
        reduce: deprecated; False means reduction 'none'.
        reduction: 'mean' over all elements, 'sum', or 'none'.

    Raises:
        ValueError: ``reduction`` is unknown, when the module is called.
        RuntimeError: the shapes do not broadcast.
        NotImplementedError: an input is integer or bool.

    Shape:
        - input, target: (*), broadcast against each other; different shapes warn.
        - output: (), or their common shape for 'none'.
        - dtypes: floating or complex.
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Maps (*), (*) to a scalar, or (*) with reduction 'none'."""
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """Computes (input - target)^2.

    The loss is smooth: its gradient is 2 (input - target), over the count for 'mean'. See
    ``nn.functional.mse_loss``.

    Args:
        size_average: deprecated; False means reduction 'sum'.
        reduce: deprecated; False means reduction 'none'.
        reduction: 'mean' over all elements, 'sum', or 'none'.

    Raises:
        ValueError: ``reduction`` is unknown, when the module is called.
        RuntimeError: the shapes do not broadcast.
        NotImplementedError: the input is not floating.

    Shape:
        - input, target: (*), broadcast against each other; different shapes warn.
        - output: (), or their common shape for 'none'.
        - dtypes: floating.
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Maps (*), (*) to a scalar, or (*) with reduction 'none'."""
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """Computes 0.5 d^2 / beta where d = |input - target| < beta, d - 0.5 beta elsewhere.

    The derivative is continuous, 1 from beta on; with beta = 0 it is L1Loss, whose gradient at 0
    is 0. Girshick, Fast R-CNN (arXiv:1504.08083). See ``nn.functional.smooth_l1_loss``.

    Args:
        size_average: deprecated; False means reduction 'sum'.
        reduce: deprecated; False means reduction 'none'.
        reduction: 'mean' over all elements, 'sum', or 'none'.
        beta: the difference at which the parabola ends, not negative.

    Raises:
        ValueError: ``reduction`` is unknown, when the module is called.
        RuntimeError: ``beta`` is negative, or shapes do not broadcast.

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
        """Maps (*), (*) to a scalar, or (*) with reduction 'none'."""
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Computes 0.5 d^2 where d = |input - target| <= delta, delta (d - 0.5 delta) elsewhere.

    The derivative is continuous; its size is delta above delta. Huber, Robust Estimation of a
    Location Parameter (1964). See ``nn.functional.huber_loss``.

    Args:
        reduction: 'mean' over all elements, 'sum', or 'none'.
        delta: the difference at which the parabola ends, positive.

    Raises:
        ValueError: ``reduction`` is unknown, when the module is called.
        RuntimeError: ``delta`` is not positive, or shapes do not broadcast.

    Shape:
        - input, target: (*), broadcast against each other; different shapes warn.
        - output: (), or their common shape for 'none'.
        - dtypes: floating.
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Maps (*), (*) to a scalar, or (*) with reduction 'none'."""
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class NLLLoss(_WeightedLoss):
    """Computes -weight[y] * input[y], where input holds log-probabilities and y is the target.

    The loss is linear in its input. 'mean' divides by the sum of weight[y], and is NaN if all
    targets are ignored. See ``nn.functional.nll_loss``.

    Args:
        weight: weight of each class; None for 1.
        size_average: deprecated; False means reduction 'sum'.
        reduce: deprecated; False means reduction 'none'.
        ignore_index: a target that adds no loss and gets no gradient.
        reduction: 'mean' over the weights of the targets, 'sum', or 'none'.

    Raises:
        IndexError: a target is not in [0, C).
        ValueError: the number of targets is not the number of samples.
        RuntimeError: ``weight`` does not have C elements, or the targets' dtype is not allowed.

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
        """Maps (N, C) log-probabilities, (N) classes to a scalar, or (N) with reduction 'none'."""
        return F.nll_loss(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
        )


class CrossEntropyLoss(_WeightedLoss):
    """Computes -log(exp(x_y) / sum_c exp(x_c)) for logits x and a class y.

    For probabilities t the loss is -sum_c weight_c t_c log_softmax(x)_c, and 'mean' averages over
    samples. For classes, 'mean' divides by the sum of weight[y], and is NaN if all targets are
    ignored. The loss is smooth for finite logits. Label smoothing: Szegedy et al., Rethinking the
    Inception Architecture for Computer Vision (arXiv:1512.00567). See
    ``nn.functional.cross_entropy``.

    Args:
        weight: weight of each class; None for 1.
        size_average: deprecated; False means reduction 'sum'.
        reduce: deprecated; False means reduction 'none'.
        ignore_index: a target that adds no loss and gets no gradient.
        reduction: 'mean' over the weights of the targets, 'sum', or 'none'.
        label_smoothing: the fraction of each target that is spread over all C classes, in [0, 1].

    Raises:
        IndexError: a target is not in [0, C).
        RuntimeError: ``weight`` does not have C elements, the smoothing is not in [0, 1], or the
            shape of probabilities does not fit.

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
        """Maps (N, C) logits, (N) classes or (N, C) probabilities to a scalar or (N)."""
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class BCELoss(_WeightedLoss):
    """Computes -weight (t log(x) + (1 - t) log(1 - x)), where x are probabilities.

    The logarithms are limited to -100, and the divisor x (1 - x) of the gradient to 1e-12, so that
    both are finite at 0 and 1. See ``nn.functional.binary_cross_entropy``.

    Args:
        weight: weight of each element; None for 1.
        size_average: deprecated; False means reduction 'sum'.
        reduce: deprecated; False means reduction 'none'.
        reduction: 'mean' over all elements, 'sum', or 'none'.

    Raises:
        ValueError: the shapes differ.
        RuntimeError: the input is not in [0, 1], or the weight does not broadcast.
        NotImplementedError: the input is not floating.

    Shape:
        - input, target: (*), of one shape, in [0, 1].
        - output: (), or (*) for 'none'.
        - weight: broadcast to (*), a buffer.
        - dtypes: floating.
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Maps (*), (*) to a scalar, or (*) with reduction 'none'."""
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_WeightedLoss):
    """Computes -weight (pos_weight t log(s(x)) + (1 - t) log(1 - s(x))), where s is the sigmoid.

    The loss does not overflow, and is smooth for all logits x. See
    ``nn.functional.binary_cross_entropy_with_logits``.

    Args:
        weight: weight of each element; None for 1.
        size_average: deprecated; False means reduction 'sum'.
        reduce: deprecated; False means reduction 'none'.
        reduction: 'mean' over all elements, 'sum', or 'none'.
        pos_weight: weight of the positives, for example one for each class; None for 1.

    Raises:
        ValueError: the shapes differ.
        RuntimeError: ``pos_weight`` does not broadcast.
        NotImplementedError: the input is not floating.

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
        """Maps (*), (*) to a scalar, or (*) with reduction 'none'."""
        return F.binary_cross_entropy_with_logits(
            input,
            target,
            weight=self.weight,
            pos_weight=self.pos_weight,
            reduction=self.reduction,
        )


class KLDivLoss(_Loss):
    """Computes target (log(target) - input), where input holds log-probabilities.

    A target of 0 adds no loss. 'mean' divides by the number of elements and warns; 'batchmean'
    divides by the first size, as the divergence is defined. Kullback and Leibler, On Information
    and Sufficiency (1951). See ``nn.functional.kl_div``.

    Args:
        size_average: deprecated; False means reduction 'sum'.
        reduce: deprecated; False means reduction 'none'.
        reduction: 'batchmean', 'mean', 'sum' or 'none'.
        log_target: whether the target holds logarithms too.

    Raises:
        ValueError: ``reduction`` is unknown, when the module is called.
        RuntimeError: the shapes do not broadcast.

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
        """Maps (*) log-probabilities, (*) to a scalar, or (*) with reduction 'none'."""
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class PoissonNLLLoss(_Loss):
    """Computes exp(x) - t x for log-rates x, or x - t log(x + eps) for rates x.

    With ``full``, Stirling's t log(t) - t + 0.5 log(2 pi t) is added where t > 1, for log(t!). See
    ``nn.functional.poisson_nll_loss``.

    Args:
        log_input: whether x holds logarithms of rates.
        full: whether to add log(t!).
        size_average: deprecated; False means reduction 'sum'.
        eps: keeps the logarithm finite at 0.
        reduce: deprecated; False means reduction 'none'.
        reduction: 'mean' over all elements, 'sum', or 'none'.

    Raises:
        ValueError: ``reduction`` is unknown, when the module is called.
        RuntimeError: the shapes do not broadcast.

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
        """Maps (*), (*) to a scalar, or (*) with reduction 'none'."""
        return F.poisson_nll_loss(
            log_input,
            target,
            log_input=self.log_input,
            full=self.full,
            eps=self.eps,
            reduction=self.reduction,
        )


class GaussianNLLLoss(_Loss):
    """Computes 0.5 (log(v) + (input - target)^2 / v), where v = max(var, eps).

    The gradient of ``var`` is that of v: the limit does not cut it. ``full`` adds 0.5 log(2 pi).
    Nix and Weigend, Estimating the Mean and Variance of the Target Probability Distribution (1994).
    See ``nn.functional.gaussian_nll_loss``.

    Args:
        full: whether to add the constant.
        eps: the lower limit of the variance.
        reduction: 'mean' over all elements, 'sum', or 'none'.

    Raises:
        ValueError: a variance is negative, its shape does not fit, or ``reduction`` is unknown.

    Shape:
        - input, target: (*), broadcast against each other.
        - var: of the input's shape, whose last size may be 1 or missing; or a number.
        - output: (), or (*) for 'none'.
        - dtypes: floating.
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        """Maps (*), (*), variances (*) to a scalar, or (*) with reduction 'none'."""
        return F.gaussian_nll_loss(
            input, target, var, full=self.full, eps=self.eps, reduction=self.reduction
        )


class _MarginLoss(_Loss):
    """Stores ``margin``."""

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
    """Computes 1 - cos(x1, x2) where target is 1, max(0, cos(x1, x2) - margin) where it is -1.

    At cos = margin the gradient is that of the cosine. Any other target adds no loss. See
    ``nn.functional.cosine_embedding_loss``.

    Args:
        margin: the cosine below which pairs with target -1 add no loss, from -1 to 1.
        size_average: deprecated; False means reduction 'sum'.
        reduce: deprecated; False means reduction 'none'.
        reduction: 'mean' over all elements, 'sum', or 'none'.

    Raises:
        ValueError: ``reduction`` is unknown, when the module is called.
        RuntimeError: the vectors have different shapes.

    Shape:
        - input1, input2: (N, D) or (D); target: (N) or (), 1 or -1.
        - output: (), or (N) for 'none'.
        - dtypes: floating.
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """Maps (N, D), (N, D), (N) to a scalar, or (N) with reduction 'none'."""
        return F.cosine_embedding_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class MarginRankingLoss(_MarginLoss):
    """Computes max(0, -target * (input1 - input2) + margin).

    The kink gets the gradient of the line: -target for input1. See
    ``nn.functional.margin_ranking_loss``.

    Args:
        margin: how much larger the first input should be (target 1), or smaller (-1).
        size_average: deprecated; False means reduction 'sum'.
        reduce: deprecated; False means reduction 'none'.
        reduction: 'mean' over all elements, 'sum', or 'none'.

    Raises:
        ValueError: ``reduction`` is unknown, when the module is called.
        RuntimeError: the numbers of dims differ, or shapes do not broadcast.

    Shape:
        - input1, input2, target: (N), or any shapes of equal numbers of dims that broadcast.
        - output: (), or (N) for 'none'.
        - dtypes: floating.
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """Maps (N), (N), (N) to a scalar, or (N) with reduction 'none'."""
        return F.margin_ranking_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class HingeEmbeddingLoss(_MarginLoss):
    """Computes input where target is 1, max(0, margin - input) where it is -1.

    At input = margin the gradient is -1. Any other target adds both terms. See
    ``nn.functional.hinge_embedding_loss``.

    Args:
        margin: the distance below which pairs with target -1 add a loss.
        size_average: deprecated; False means reduction 'sum'.
        reduce: deprecated; False means reduction 'none'.
        reduction: 'mean' over all elements, 'sum', or 'none'.

    Raises:
        ValueError: ``reduction`` is unknown, when the module is called.
        RuntimeError: the shapes do not broadcast.

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
        """Maps (*), (*) to a scalar, or (*) with reduction 'none'."""
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class SoftMarginLoss(_Loss):
    """Computes log(1 + exp(-target * input)), where target is 1 or -1.

    The loss does not overflow, and is smooth. See ``nn.functional.soft_margin_loss``.

    Args:
        size_average: deprecated; False means reduction 'sum'.
        reduce: deprecated; False means reduction 'none'.
        reduction: 'mean' over all elements, 'sum', or 'none'.

    Raises:
        ValueError: ``reduction`` is unknown, when the module is called.
        RuntimeError: the target does not broadcast to the input's shape.

    Shape:
        - input: (*); target: broadcast to it.
        - output: (), or (*) for 'none'.
        - dtypes: floating.
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Maps (*), (*) to a scalar, or (*) with reduction 'none'."""
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class TripletMarginLoss(_Loss):
    """Computes max(0, d(anchor, positive) - d(anchor, negative) + margin).

    d is the p-norm of the difference, to which eps is added. The kink gets the gradient of the
    distances. Balntas et al., Learning Local Feature Descriptors with Triplets and Shallow
    Convolutional Neural Networks (2016). See ``nn.functional.triplet_margin_loss``.

    Args:
        margin: how much farther than the positive the negative should be, positive.
        p: order of the norm.
        eps: added to each difference.
        swap: whether to use the smaller of d(anchor, negative) and d(positive, negative).
        size_average: deprecated; False means reduction 'sum'.
        reduce: deprecated; False means reduction 'none'.
        reduction: 'mean' over all elements, 'sum', or 'none'.

    Raises:
        ValueError: ``margin`` is not positive.
        RuntimeError: the numbers of dims differ, or shapes do not broadcast.

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
        """Maps (N, D), (N, D), (N, D) to a scalar, or (N) with reduction 'none'."""
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
