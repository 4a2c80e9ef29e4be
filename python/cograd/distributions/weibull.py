# SPDX-License-Identifier: BSD-3-Clause
"""The Weibull distribution."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor

from . import constraints
from .exponential import Exponential
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .utils import broadcast_all, euler_constant

__all__ = ["Weibull"]


class Weibull(TransformedDistribution):
    """Positive values; a value exceeds x with probability ``exp(-(x / scale) ** concentration)``.

    With ``k = concentration`` the density is
    ``k / scale * (x / scale) ** (k - 1) * exp(-(x / scale) ** k)`` above 0, with mean
    ``scale * gamma(1 + 1 / k)`` and variance
    ``scale ** 2 * (gamma(1 + 2 / k) - gamma(1 + 1 / k) ** 2)``. The batch shape is what both
    parameters broadcast to; the event shape is ``()``. ``rsample`` is differentiable with respect
    to ``scale`` and ``concentration``.

    Args:
        scale: positive number or tensor.
        concentration: positive number or tensor; with 1 it is the exponential distribution.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: a parameter is out of its range.
    """

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(cograd.ones_like(self.scale), validate_args=validate_args)
        power = PowerTransform(exponent=self.concentration_reciprocal)
        stretch = AffineTransform(loc=0, scale=self.scale)
        super().__init__(base, [power, stretch], validate_args=validate_args)

    def _moment(self, n: int) -> Tensor:
        return cograd.exp(cograd.lgamma(1 + n * self.concentration_reciprocal))

    @property
    def mean(self) -> Tensor:
        return self.scale * self._moment(1)

    @property
    def mode(self) -> Tensor:
        k = self.concentration.clamp(min=1)
        return self.scale * ((k - 1) / k) ** k.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * (self._moment(2) - self._moment(1).square())

    def entropy(self) -> Tensor:
        inverse = self.concentration_reciprocal
        return euler_constant * (1 - inverse) + cograd.log(self.scale * inverse) + 1
