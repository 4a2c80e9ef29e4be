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
    """A distribution over the unit interval whose density is the normalised mass of a Bernoulli.

    With ``t = 2 * atanh(1 - 2 * probs)`` the density is
    ``t / (1 - 2 * probs) * probs ** x * (1 - probs) ** (1 - x)`` on [0, 1], with mean
    ``1 / t - probs / (1 - 2 * probs)`` and variance
    ``1 / t ** 2 - probs * (1 - probs) / (1 - 2 * probs) ** 2``; at ``probs`` of 1/2 it is uniform.
    Everything is computed from the logits without cancellation. The batch shape is that of the
    parameter; the event shape is ``()``. ``rsample`` is differentiable with respect to ``probs`` or
    ``logits``, whichever is given. Source: Loaiza-Ganem and Cunningham, "The continuous Bernoulli"
    (2019).

    Args:
        probs: number or tensor in [0, 1], kept an epsilon of its dtype away from both ends.
        logits: the log odds ``log(probs / (1 - probs))``, instead of ``probs``; any real number.
        lims: accepted and ignored; other implementations switch to a series between these limits.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: not exactly one of ``probs`` and ``logits`` is given, or it is out of its range.
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

    def _log_norm(self) -> Tensor:
        """Returns log(2 atanh(1 - 2 p) / (1 - 2 p)), the log of logit / tanh(logit / 2)."""
        return math.log(2) + _log_x_coth(0.5 * self.logits)

    @property
    def mean(self) -> Tensor:
        return 0.5 + 0.5 * _langevin(0.5 * self.logits)

    @property
    def variance(self) -> Tensor:
        return 0.25 * _langevin_slope(0.5 * self.logits)

    @property
    def stddev(self) -> Tensor:
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with cograd.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = cograd.rand(
            self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device
        )
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
        x, m = value, self.logits
        near, safe = self._near_half(m)
        low = -safe.abs()
        share = cograd.expm1(low * x) / cograd.expm1(low)
        power = cograd.where(safe > 0, cograd.exp(low * (1 - x)) * share, share)
        series = x + x * (x - 1) / 2 * m * (1 + (2 * x - 1) / 6 * m)
        inside = cograd.where(near, series, power)
        above = cograd.where(value >= 1.0, cograd.ones_like(inside), inside)
        return cograd.where(value <= 0.0, cograd.zeros_like(inside), above)

    def icdf(self, value: Tensor) -> Tensor:
        above = self.logits > 0
        m = cograd.where(above, -self.logits, self.logits)
        side = cograd.where(above, 1 - value, value)
        near, safe = self._near_half(m)
        root = (cograd.log1p(side * cograd.expm1(safe)) / safe).clamp(max=1)
        series = side + side * (1 - side) / 2 * m * (1 + (1 - 2 * side) / 3 * m)
        result = cograd.where(near, series, root)
        return cograd.where(above, 1 - result, result)

    @staticmethod
    def _near_half(logits: Tensor) -> tuple[Tensor, Tensor]:
        """Returns where the formulas' gradients cancel, and logits that are safe for them."""
        near = logits.abs() < cograd.finfo(logits.dtype).eps ** 0.25
        return near, logits.masked_fill(near, -1.0)

    def entropy(self) -> Tensor:
        return F.softplus(self.logits) - self.mean * self.logits - self._log_norm()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        """Returns log((exp(x) - 1) / x)."""
        far = x.abs() > 1e-2
        safe = cograd.where(far, x, cograd.ones_like(x))
        formula = cograd.log(cograd.expm1(safe) / safe)
        return cograd.where(far, formula, x / 2 + x.square() / 24)


# Coefficients of coth(x) - 1 / x, a series in x^2 times x: 2 ** (2 k) B(2 k) / (2 k)!.
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
_SERIES = tuple(4 ** (k + 1) * b / math.factorial(2 * k + 2) for k, b in enumerate(_BERNOULLI))


# Coefficients of log(x * coth(x)), a series in x^2 without constant term.
_LOGS = tuple((4**k - 2) / (2 * k) * c for k, c in enumerate(_SERIES, 1))


def _power_series(coefficients: Any, x: Tensor) -> Tensor:
    total = cograd.zeros_like(x)
    for c in reversed(coefficients):
        total = total * x + c
    return total


def _parts(x: Tensor, bound: float) -> tuple[Tensor, Tensor, Tensor]:
    """Returns where ``abs(x) > bound``, and inputs that are safe for the formula and the series."""
    far = x.abs() > bound
    return far, x.masked_fill(~far, 1.0), x.masked_fill(far, 0.0)


def _log_x_coth(x: Tensor) -> Tensor:
    """Returns ``log(x * coth(x))``."""
    far, safe, close = _parts(x, 0.25)
    square = close.square()
    formula = cograd.log(safe / cograd.tanh(safe))
    return cograd.where(far, formula, square * _power_series(_LOGS, square))


def _langevin(x: Tensor) -> Tensor:
    """Returns ``coth(x) - 1 / x``."""
    far, safe, close = _parts(x, 0.5)
    formula = cograd.tanh(safe).reciprocal() - safe.reciprocal()
    return cograd.where(far, formula, close * _power_series(_SERIES, close.square()))


def _langevin_slope(x: Tensor) -> Tensor:
    """Returns the derivative of ``_langevin``: ``1 / x ** 2 - 1 / sinh(x) ** 2``."""
    far, safe, close = _parts(x, 0.5)
    formula = safe.square().reciprocal() + 1 - cograd.tanh(safe).square().reciprocal()
    slopes = tuple((2 * k + 1) * c for k, c in enumerate(_SERIES))
    return cograd.where(far, formula, _power_series(slopes, close.square()))
