# SPDX-License-Identifier: BSD-3-Clause
"""The generalized Pareto distribution."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor

from . import constraints
from .distribution import Distribution
from .utils import broadcast_all

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """The excess over a threshold ``loc``; ``concentration`` makes its tail heavy or finite.

    With ``z = (x - loc) / scale`` and ``c = concentration`` the density is
    ``(1 + c * z) ** (-1 / c - 1) / scale`` from ``loc`` on, for c < 0 only up to
    ``loc - scale / c``; for c = 0 it is ``exp(-z) / scale``. It has mean ``loc + scale / (1 - c)``
    where ``c < 1``, else NaN, and variance ``scale ** 2 / ((1 - c) ** 2 * (1 - 2 * c))`` where
    ``c < 0.5``, else NaN. The batch shape is what the parameters broadcast to; the event shape is
    ``()``. ``rsample`` is differentiable with respect to ``loc``, ``scale`` and ``concentration``.

    Args:
        loc: number or tensor: the smallest value.
        scale: positive number or tensor.
        concentration: number or tensor; if it is positive, the tail falls like a power.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: a parameter is out of its range.
    """

    arg_constraints = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True

    def __init__(
        self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.size(), validate_args=validate_args)

    def _z(self, x: Tensor) -> Tensor:
        return (x - self.loc) / self.scale

    def _shape(self) -> tuple[Tensor, Tensor]:
        """Returns whether the concentration is 0, and a concentration that is safe to divide by."""
        none = self.concentration.abs() <= cograd.finfo(self.concentration.dtype).tiny
        return none, cograd.where(none, cograd.ones_like(self.concentration), self.concentration)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = cograd.rand(
            self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device
        )
        return self.icdf(u)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        z = self._z(value)
        none, c = self._shape()
        power = -(1 + 1 / c) * cograd.log1p(c * z)
        return cograd.where(none, -z, power) - self.scale.log()

    def log_survival_function(self, value: Tensor) -> Tensor:
        """Returns ``log(1 - cdf(value))``: 0 below the support, -inf above it."""
        if self._validate_args:
            self._validate_sample(value)
        z = self._z(value).clamp(min=0)
        none, c = self._shape()
        return cograd.where(none, -z, -cograd.log1p((c * z).clamp(min=-1)) / c)

    def log_cdf(self, value: Tensor) -> Tensor:
        """Returns ``log(cdf(value))``."""
        return cograd.log(-cograd.expm1(self.log_survival_function(value)))

    def cdf(self, value: Tensor) -> Tensor:
        return -cograd.expm1(self.log_survival_function(value))

    def icdf(self, value: Tensor) -> Tensor:
        log_rest = cograd.log1p(-value)
        none, c = self._shape()
        z = cograd.where(none, -log_rest, cograd.expm1(-c * log_rest) / c)
        return self.loc + self.scale * z

    @property
    def mean(self) -> Tensor:
        c = self.concentration
        return cograd.where(c < 1, self.loc + self.scale / (1 - c), cograd.nan)

    @property
    def variance(self) -> Tensor:
        c = self.concentration
        finite = self.scale.square() / ((1 - c).square() * (1 - 2 * c))
        return cograd.where(c < 0.5, finite, cograd.nan)

    def entropy(self) -> Tensor:
        return (self.scale.log() + self.concentration + 1).expand(self._batch_shape)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        end = self.loc - self.scale / self.concentration
        upper = cograd.where(self.concentration < 0, end, cograd.inf)
        return constraints.interval(self.loc, upper)
