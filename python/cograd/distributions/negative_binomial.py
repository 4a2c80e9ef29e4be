# SPDX-License-Identifier: BSD-3-Clause
"""The negative binomial distribution."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor
from cograd.nn import functional as F

from . import constraints
from .distribution import Distribution
from .gamma import Gamma
from .utils import ProbsOrLogits, lazy_property

__all__ = ["NegativeBinomial"]


class NegativeBinomial(ProbsOrLogits, Distribution):
    """The number of successes before ``total_count`` failures.

    With ``n = total_count`` the mass is
    ``gamma(n + x) / (gamma(n) * gamma(x + 1)) * (1 - probs) ** n * probs ** x`` at 0, 1, ..., with
    mean ``n * probs / (1 - probs)`` and variance ``n * probs / (1 - probs) ** 2``. The batch shape
    is what the parameters broadcast to; the event shape is ``()``. There is no ``rsample``;
    ``log_prob`` is differentiable with respect to ``total_count`` and ``probs`` or ``logits``,
    whichever is given.

    Args:
        total_count: nonnegative number or tensor, not necessarily an integer.
        probs: number or tensor in [0, 1): the probability of a success.
        logits: the log odds ``log(probs / (1 - probs))``, instead of ``probs``; any real number.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: not exactly one of ``probs`` and ``logits`` is given, or a parameter is out of
            its range.
    """

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(
        self,
        total_count: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        (count,) = self._set_probs_or_logits(probs, logits, total_count)
        self.total_count = count.type_as(self._param)
        super().__init__(self._param.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * cograd.exp(self.logits)

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / cograd.sigmoid(-self.logits)

    @lazy_property
    def _gamma(self) -> Gamma:
        """Returns the distribution of the rates of which this is a Poisson mixture."""
        return Gamma(self.total_count, cograd.exp(-self.logits), validate_args=False)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with cograd.no_grad():
            return cograd.poisson(self._gamma.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        mass = n * F.logsigmoid(-self.logits) + value * F.logsigmoid(self.logits)
        # For no failures and no successes both gamma functions are infinite, but their ratio is 1.
        ways = (cograd.lgamma(n + value) - cograd.lgamma(value + 1) - cograd.lgamma(n)).masked_fill(
            n + value == 0.0, 0.0
        )
        return mass + ways
