# SPDX-License-Identifier: BSD-3-Clause
"""The Kumaraswamy distribution."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor

from . import constraints
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .uniform import Uniform
from .utils import broadcast_all, euler_constant

__all__ = ["Kumaraswamy"]


class Kumaraswamy(TransformedDistribution):
    """A distribution over the unit interval, like ``Beta`` with a closed-form CDF.

    With ``a = concentration1`` and ``b = concentration0`` the density is
    ``a * b * x ** (a - 1) * (1 - x ** a) ** (b - 1)`` on [0, 1], with mean
    ``b * beta(1 + 1 / a, b)`` and variance
    ``b * beta(1 + 2 / a, b) - (b * beta(1 + 1 / a, b)) ** 2``. The batch shape is what both
    parameters broadcast to; the event shape is ``()``. ``rsample`` is differentiable with respect
    to ``concentration1`` and ``concentration0``. Source: Kumaraswamy, "A generalized probability
    density function for double-bounded random processes" (1980).

    Args:
        concentration1: positive number or tensor; larger values move the samples towards 1.
        concentration0: positive number or tensor; larger values move the samples towards 0.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: a parameter is out of its range.
    """

    arg_constraints = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        zeros = cograd.zeros_like(self.concentration1)
        base = Uniform(zeros, cograd.ones_like(zeros), validate_args=validate_args)
        steps = [
            PowerTransform(exponent=self.concentration0.reciprocal()),
            AffineTransform(loc=1.0, scale=-1.0),
            PowerTransform(exponent=self.concentration1.reciprocal()),
        ]
        super().__init__(base, steps, validate_args=validate_args)

    def _moment(self, n: int) -> Tensor:
        """Returns the mean of x ** n: b B(1 + n / a, b)."""
        arg = 1 + n / self.concentration1
        b = self.concentration0
        return cograd.exp(cograd.lgamma(arg) + cograd.lgamma(b + 1) - cograd.lgamma(arg + b))

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        inside = ((a - 1) / (a * b - 1)) ** a.reciprocal()
        return cograd.where((a < 1) | (b < 1), cograd.nan, inside)

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self._moment(1).square()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a, b = self.concentration1, self.concentration0
        value = cograd.as_tensor(value, device=a.device)
        outside = (value < 0) | (value > 1)
        value = value.masked_fill(outside, 0)
        power = cograd.xlog1py(b - 1, -(value**a))
        inside = a.log() + b.log() + cograd.xlogy(a - 1, value) + power
        return cograd.where(outside, -cograd.inf, inside)

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = cograd.digamma(b + 1) + euler_constant
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - a.log() - b.log()
