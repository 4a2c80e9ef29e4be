# SPDX-License-Identifier: BSD-3-Clause
"""The exponential distribution."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor

from . import constraints
from .exp_family import ExponentialFamily
from .utils import broadcast_all

__all__ = ["Exponential"]


class Exponential(ExponentialFamily):
    """The time until the next of independent events that occur at ``rate``.

    The density is ``rate * exp(-rate * x)`` for x >= 0, with mean ``1 / rate`` and variance
    ``1 / rate ** 2``. The batch shape is that of ``rate``; the event shape is ``()``. ``rsample``
    is differentiable with respect to ``rate``.

    Args:
        rate: positive number or tensor.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: a parameter is out of its range.
    """

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        return cograd.zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.rate.new_empty(self._extended_shape(sample_shape)).exponential_() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -cograd.expm1(-self.rate * value)

    def icdf(self, value: Tensor) -> Tensor:
        return -cograd.log1p(-value) / self.rate

    def entropy(self) -> Tensor:
        return 1.0 - cograd.log(self.rate)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (-self.rate,)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return -cograd.log(-x)
