# SPDX-License-Identifier: BSD-3-Clause
"""The continuous Bernoulli distribution."""

from __future__ import annotations

import math
from typing import Any

import cograd
from cograd import Tensor
from cograd.nn import functional as F

from . import constraints
from .exp_family import ExponentialFamily
from .utils import ProbsOrLogits, broadcast_all, clamp_probs, lazy_property

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(ProbsOrLogits, ExponentialFamily):
    """Density proportional to ``probs ** x * (1 - probs) ** (1 - x)`` on the unit interval.

    Near probs of 1/2, within ``lims``, the formulas are 0 / 0 and series take their place.
    (Loaiza-Ganem and Cunningham, "The continuous Bernoulli", 2019.)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        self._set_probs_or_logits(probs, logits)
        given = self._param
        if validate_args is None:
            validate_args = self._validate_args
        self._lims = lims
        super().__init__(given.size(), validate_args=validate_args)
        if logits is None:
            self.probs = clamp_probs(given)

    @lazy_property
    def probs(self) -> Tensor:
        return clamp_probs(cograd.sigmoid(self.logits))

    def _far(self) -> Tensor:
        """Where the formulas hold as they stand."""
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _safe_probs(self) -> Tensor:
        """``probs``, those near 1/2 replaced by what the formulas can take."""
        return cograd.where(self._far(), self.probs, self._lims[0])

    def _safe_logits(self) -> Tensor:
        return cograd.where(self._far(), self.logits, 1.0)

    def _choose(self, formula: Tensor, series: Tensor) -> Tensor:
        return cograd.where(self._far(), formula, series)

    def _log_norm(self) -> Tensor:
        """The logarithm of 2 atanh(1 - 2 p) / (1 - 2 p), which is logit / tanh(logit / 2)."""
        logit = self._safe_logits()
        x = (self.probs - 0.5).square()
        series = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x
        return self._choose(cograd.log(logit / cograd.tanh(0.5 * logit)), series)

    @property
    def mean(self) -> Tensor:
        p = self._safe_probs()
        formula = p / (2.0 * p - 1.0) - 1.0 / self._safe_logits()
        x = self.probs - 0.5
        return self._choose(formula, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.square()) * x)

    @property
    def variance(self) -> Tensor:
        p = self._safe_probs()
        inverse = self._safe_logits().square().reciprocal()
        formula = p * (p - 1.0) / (1.0 - 2.0 * p).square() + inverse
        x = (self.probs - 0.5).square()
        return self._choose(formula, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)

    @property
    def stddev(self) -> Tensor:
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with cograd.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = cograd.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype)
        return self.icdf(u)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        mass = -F.binary_cross_entropy_with_logits(logits, value, reduction="none")
        return mass + self._log_norm()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        p = self._safe_probs()
        power = cograd.pow(p, value) * cograd.pow(1.0 - p, 1.0 - value)
        inside = self._choose((power + p - 1.0) / (2.0 * p - 1.0), value)
        above = cograd.where(value >= 1.0, cograd.ones_like(inside), inside)
        return cograd.where(value <= 0.0, cograd.zeros_like(inside), above)

    def icdf(self, value: Tensor) -> Tensor:
        p = self._safe_probs()
        rest = cograd.log1p(-p)
        formula = (cograd.log1p(-p + value * (2.0 * p - 1.0)) - rest) / (cograd.log(p) - rest)
        return self._choose(formula, value)

    def entropy(self) -> Tensor:
        return F.softplus(self.logits) - self.mean * self.logits - self._log_norm()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        """Log of (exp(x) - 1) / x."""
        far = x.abs() > 1e-2
        safe = cograd.where(far, x, cograd.ones_like(x))
        formula = cograd.log(cograd.expm1(safe) / safe)
        return cograd.where(far, formula, x / 2 + x.square() / 24)
