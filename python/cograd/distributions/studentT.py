# SPDX-License-Identifier: BSD-3-Clause
"""Student's t distribution."""

from __future__ import annotations

import math
from typing import Any

import cograd
from cograd import Tensor

from . import constraints
from .chi2 import Chi2
from .distribution import Distribution
from .utils import _standard_normal, broadcast_all

__all__ = ["StudentT"]


class StudentT(Distribution):
    """Student's t with ``df`` degrees of freedom, shifted by ``loc`` and scaled by ``scale``.

    With ``z = (x - loc) / scale`` the density is
    ``(1 + z ** 2 / df) ** (-(df + 1) / 2) / (scale * sqrt(df) * beta(df / 2, 0.5))`` on all real
    numbers, with mean ``loc`` where ``df > 1``, else NaN, and variance
    ``scale ** 2 * df / (df - 2)`` where ``df > 2``, else infinite (NaN for ``df`` up to 1). The
    batch shape is what the parameters broadcast to; the event shape is ``()``. ``rsample`` is
    differentiable with respect to ``df``, ``loc`` and ``scale``. The first gradient is implicit, as
    in Gamma.

    Args:
        df: positive number or tensor; for large values it approaches the normal distribution.
        loc: number or tensor: the median and the mode.
        scale: positive number or tensor.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: a parameter is out of its range.
    """

    arg_constraints = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True

    def __init__(
        self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return cograd.where(self.df <= 1, cograd.nan, self.loc)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        finite = self.scale.square() * self.df / (self.df - 2)
        large = cograd.where(self.df > 2, finite, cograd.inf)
        return cograd.where(self.df <= 1, cograd.nan, large)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        z = _standard_normal(shape, self.df.dtype, self.df.device)
        ratio = z * cograd.rsqrt(self._chi2.rsample(sample_shape) / self.df)
        return self.loc + self.scale * ratio

    def _log_scale(self) -> Tensor:
        """Returns the logarithm of the density's normaliser."""
        normaliser = 0.5 * (math.pi * self.df).log() - _log_gamma_step(0.5 * self.df)
        return normaliser + self.scale.log()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        return -0.5 * (self.df + 1) * cograd.log1p(z.square() / self.df) - self._log_scale()

    def entropy(self) -> Tensor:
        return 0.5 * (self.df + 1) * _digamma_step(0.5 * self.df) + self._log_scale()


# From here on, differences of large values are computed from their asymptotic series.
_LARGE = 20.0


def _log_gamma_step(x: Tensor) -> Tensor:
    """Returns ``lgamma(x + 1/2) - lgamma(x)``."""
    large = x > _LARGE
    far, near = cograd.where(large, x, _LARGE), cograd.where(large, _LARGE, x)
    r = far.reciprocal()
    s = r * r
    series = 0.5 * far.log() - r * (1 / 8 - s * (1 / 192 - s * (1 / 640 - s * (17 / 14336))))
    return cograd.where(large, series, cograd.lgamma(near + 0.5) - cograd.lgamma(near))


def _digamma_step(x: Tensor) -> Tensor:
    """Returns ``digamma(x + 1/2) - digamma(x)``."""
    large = x > _LARGE
    far, near = cograd.where(large, x, _LARGE), cograd.where(large, _LARGE, x)
    r = far.reciprocal()
    s = r * r
    series = r / 2 + s * (1 / 8 - s * (1 / 64 - s * (1 / 128 - s * (17 / 2048))))
    return cograd.where(large, series, cograd.digamma(near + 0.5) - cograd.digamma(near))
