# SPDX-License-Identifier: BSD-3-Clause
"""Losses and lookups under their names in torch's root namespace.

They take the reduction as a number: 0 none, 1 mean, 2 sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cograd
from cograd._C import Tensor
from cograd.nn import functional as F

__all__ = [
    "binary_cross_entropy_with_logits",
    "cosine_embedding_loss",
    "ctc_loss",
    "embedding",
    "embedding_bag",
    "embedding_renorm_",
    "hinge_embedding_loss",
    "kl_div",
    "margin_ranking_loss",
    "pairwise_distance",
    "pdist",
    "poisson_nll_loss",
    "triplet_margin_loss",
]

_REDUCTIONS = ("none", "mean", "sum")

pairwise_distance = F.pairwise_distance


def _name(reduction: int) -> str:
    if reduction not in (0, 1, 2):
        raise ValueError(f"{reduction} is not a valid value for reduction, expected 0, 1 or 2")
    return _REDUCTIONS[reduction]


def kl_div(
    input: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False
) -> Tensor:
    """Calls functional.kl_div."""
    loss = F.kl_div(input, target, reduction="none", log_target=log_target)
    name = _name(reduction)
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
    """Calls functional.ctc_loss."""
    return F.ctc_loss(
        log_probs,
        targets,
        input_lengths,
        target_lengths,
        blank,
        _name(reduction),
        zero_infinity,
    )


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """Calls functional.cosine_embedding_loss."""
    return F.cosine_embedding_loss(input1, input2, target, margin, reduction=_name(reduction))


def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 1
) -> Tensor:
    """Calls functional.hinge_embedding_loss."""
    return F.hinge_embedding_loss(input, target, margin, reduction=_name(reduction))


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """Calls functional.margin_ranking_loss."""
    return F.margin_ranking_loss(input1, input2, target, margin, reduction=_name(reduction))


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int
) -> Tensor:
    """Calls functional.poisson_nll_loss."""
    return F.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=_name(reduction))


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
    """Calls functional.triplet_margin_loss."""
    return F.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, reduction=_name(reduction)
    )


def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Reduces bags of rows (mode 0 sum, 1 mean, 2 max); returns (result, bags, sizes, rows).

    ``bags`` is the bag of each index, ``sizes`` the length of each bag, and ``rows`` the row that
    each maximum is from.
    """
    if sparse:
        raise NotImplementedError(
            "embedding_bag: sparse=True is not supported, gradients are dense"
        )
    padding = -1 if padding_idx is None else padding_idx % weight.shape[0]
    out, sizes, rows = cograd._C._ops._embedding_bag(
        weight,
        indices,
        offsets,
        mode,
        padding,
        scale_grad_by_freq,
        include_last_offset,
        per_sample_weights,
    )
    begins = offsets[:-1] if include_last_offset else offsets
    places = cograd.arange(indices.numel(), dtype=cograd.int64)
    bags = cograd.searchsorted(begins.to(cograd.int64), places, right=True) - 1
    return out, bags, sizes, rows


def embedding(
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Calls functional.embedding with the table first; a negative ``padding_idx`` means none."""
    padding = None if padding_idx < 0 else padding_idx
    return F.embedding(
        indices, weight, padding, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse
    )


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """Calls functional.pdist."""
    return F.pdist(input, p)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: int = 1,
) -> Tensor:
    """Calls functional.binary_cross_entropy_with_logits; reduction 0 none, 1 mean, 2 sum."""
    return F.binary_cross_entropy_with_logits(
        input, target, weight, pos_weight=pos_weight, reduction=_name(reduction)
    )


def embedding_renorm_(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Any:
    """Scales the rows of ``weight`` at ``indices`` down to ``max_norm``, in place."""
    cograd._C._nn.embedding(indices, weight.detach(), None, max_norm, norm_type)
    return weight
