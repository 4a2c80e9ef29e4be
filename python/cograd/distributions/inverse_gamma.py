# SPDX-License-Identifier: BSD-3-Clause
"""The inverse gamma distribution."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor, special

from . import constraints
from .gamma import Gamma
from .transformed_distribution import TransformedDistribution
from .transforms import PowerTransform

__all__ = ["InverseGamma"]


class InverseGamma(TransformedDistribution):
    """The reciprocal of a gamma variable with ``concentration`` and ``rate``.

    With ``a = concentration`` the density is
    ``rate ** a / gamma(a) * x ** (-a - 1) * exp(-rate / x)`` above 0, with mean ``rate / (a - 1)``
    where ``a > 1``, else infinite, and variance ``rate ** 2 / ((a - 1) ** 2 * (a - 2))`` where
    ``a > 2``, else infinite. The batch shape is what both parameters broadcast to; the event shape
    is ``()``. ``rsample`` is differentiable with respect to ``concentration`` and ``rate``. The
    first gradient is implicit, as in Gamma.

    Args:
        concentration: positive number or tensor.
        rate: positive number or tensor; a scale of the reciprocal.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: a parameter is out of its range.
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True
    base_dist: Gamma

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        inverse = PowerTransform(base.rate.new_tensor(-1.0))
        super().__init__(base, inverse, validate_args=validate_args)

    @property
    def concentration(self) -> Tensor:
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        a = self.concentration
        return cograd.where(a > 1, self.rate / (a - 1), cograd.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        a = self.concentration
        finite = self.rate.square() / ((a - 1).square() * (a - 2))
        return cograd.where(a > 2, finite, cograd.inf)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return special.gammaincc(self.concentration, self.rate / value)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()
