# SPDX-License-Identifier: BSD-3-Clause
"""The gamma distribution."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor, special

from . import constraints
from .exp_family import ExponentialFamily
from .utils import broadcast_all

__all__ = ["Gamma"]


def _standard_gamma(concentration: Tensor) -> Tensor:
    return cograd._C._ops._standard_gamma(concentration)


class Gamma(ExponentialFamily):
    """The gamma distribution; for an integer ``concentration`` a sum of exponential variables.

    With ``a = concentration`` the density is
    ``rate ** a * x ** (a - 1) * exp(-rate * x) / gamma(a)`` for x >= 0, with mean ``a / rate`` and
    variance ``a / rate ** 2``. The batch shape is what both parameters broadcast to; the event
    shape is ``()``. ``rsample`` is differentiable with respect to ``concentration`` and ``rate``.
    The first gradient is implicit: a sample keeps its quantile when the parameter changes
    (Figurnov, Mohamed and Mnih 2018).

    Args:
        concentration: positive number or tensor, often called shape.
        rate: positive number or tensor: the inverse of the scale.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: a parameter is out of its range.
    """

    arg_constraints: Any = {
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.square()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        value = _standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        return value.clamp(min=cograd.finfo(value.dtype).tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        value = cograd.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        if self._validate_args:
            self._validate_sample(value)
        return (
            cograd.xlogy(self.concentration, self.rate)
            + cograd.xlogy(self.concentration - 1, value)
            - self.rate * value
            - cograd.lgamma(self.concentration)
        )

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return special.gammainc(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - self.rate.log() + cograd.lgamma(a) + (1 - a) * cograd.digamma(a)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        return cograd.lgamma(x + 1) + (x + 1) * cograd.log(-y.reciprocal())
