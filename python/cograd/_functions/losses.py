# SPDX-License-Identifier: BSD-3-Clause
"""Defines the losses that torch has in its root namespace, too.

They accept the reduction as a number: 0 is none, 1 is mean, 2 is sum.
"""

from __future__ import annotations

from collections.abc import Sequence

from cograd._C import Tensor
from cograd.nn import functional as F

__all__ = [
    "binary_cross_entropy_with_logits",
    "cosine_embedding_loss",
    "ctc_loss",
    "hinge_embedding_loss",
    "kl_div",
    "margin_ranking_loss",
    "poisson_nll_loss",
    "triplet_margin_loss",
]

_REDUCTIONS = ("none", "mean", "sum")


def _name(op: str, reduction: int) -> str:
    if reduction not in (0, 1, 2):
        raise ValueError(
            f"{op}(): {reduction} is not a valid value for reduction, expected 0 (none), 1 (mean) "
            "or 2 (sum)"
        )
    return _REDUCTIONS[reduction]


def kl_div(
    input: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False
) -> Tensor:
    """Calls nn.functional.kl_div."""
    loss = F.kl_div(input, target, reduction="none", log_target=log_target)
    name = _name("kl_div", reduction)
    return loss if name == "none" else loss.sum() if name == "sum" else loss.mean()


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> Tensor:
    """Calls nn.functional.ctc_loss."""
    return F.ctc_loss(
        log_probs,
        targets,
        input_lengths,
        target_lengths,
        blank,
        _name("ctc_loss", reduction),
        zero_infinity,
    )


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """Calls nn.functional.cosine_embedding_loss."""
    return F.cosine_embedding_loss(
        input1, input2, target, margin, reduction=_name("cosine_embedding_loss", reduction)
    )


def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 1
) -> Tensor:
    """Calls nn.functional.hinge_embedding_loss."""
    return F.hinge_embedding_loss(
        input, target, margin, reduction=_name("hinge_embedding_loss", reduction)
    )


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """Calls nn.functional.margin_ranking_loss."""
    return F.margin_ranking_loss(
        input1, input2, target, margin, reduction=_name("margin_ranking_loss", reduction)
    )


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int
) -> Tensor:
    """Calls nn.functional.poisson_nll_loss."""
    return F.poisson_nll_loss(
        input, target, log_input, full, eps=eps, reduction=_name("poisson_nll_loss", reduction)
    )


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = 1,
) -> Tensor:
    """Calls nn.functional.triplet_margin_loss."""
    return F.triplet_margin_loss(
        anchor,
        positive,
        negative,
        margin,
        p,
        eps,
        swap,
        reduction=_name("triplet_margin_loss", reduction),
    )


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: int = 1,
) -> Tensor:
    """Calls nn.functional.binary_cross_entropy_with_logits."""
    return F.binary_cross_entropy_with_logits(
        input,
        target,
        weight,
        pos_weight=pos_weight,
        reduction=_name("binary_cross_entropy_with_logits", reduction),
    )
