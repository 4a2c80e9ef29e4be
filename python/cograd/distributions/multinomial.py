# SPDX-License-Identifier: BSD-3-Clause
"""The multinomial distribution."""

from __future__ import annotations

import math
from typing import Any

import cograd
from cograd import Tensor

from . import constraints
from ._of_categorical import OfCategorical
from .binomial import Binomial

__all__ = ["Multinomial"]


class Multinomial(OfCategorical):
    """How often each of K categories occurs in ``total_count`` trials.

    The mass is ``gamma(total_count + 1) * prod(probs ** x / gamma(x + 1))`` at vectors of integers
    whose sum is ``total_count``; each count has mean ``total_count * probs`` and variance
    ``total_count * probs * (1 - probs)``. The batch shape is that of the parameter without its last
    dim; the event shape is ``(K,)``. There is no ``rsample``; ``log_prob`` is differentiable with
    respect to ``probs`` or ``logits``, whichever is given.

    Args:
        total_count: an int, the same for the whole batch.
        probs: tensor ``(..., K)`` of nonnegative numbers, which are divided by their sum.
        logits: the logarithms of ``probs``, ``(..., K)``, instead of ``probs``.
        validate_args: see ``Distribution``.

    Raises:
        NotImplementedError: ``total_count`` is not an int.
        ValueError: not exactly one of ``probs`` and ``logits`` is given, it has no dim, or it is
            out of its range.
    """

    total_count: int

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        super().__init__(probs, logits, validate_args)
        self._binomial = Binomial(total_count=total_count, probs=self.probs)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        sample_shape = cograd.Size(sample_shape)
        drawn = self._categorical.sample((self.total_count, *sample_shape))
        last = drawn.movedim(0, -1)
        counts = self.probs.new_zeros(self._extended_shape(sample_shape))
        ones = cograd.ones(last.shape, dtype=counts.dtype, device=counts.device)
        return counts.scatter_add(-1, last, ones)

    def entropy(self) -> Tensor:
        own = self._categorical.entropy()
        # The mean of log(k!) of each count, which is binomial; it starts at k = 2.
        support = self._binomial.enumerate_support(expand=False)[1:]
        chances = cograd.exp(self._binomial.log_prob(support))
        counted = (chances * cograd.lgamma(support + 1)).sum((0, -1))
        return self.total_count * own - math.lgamma(self.total_count + 1) + counted

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = cograd.broadcast_tensors(self.logits, value)
        # Treat 0 * -inf as 0.
        logits = logits.masked_fill((value == 0) & (logits == -cograd.inf), 0)
        ways = cograd.lgamma(value.sum(-1) + 1) - cograd.lgamma(value + 1).sum(-1)
        return ways + (logits * value).sum(-1)
