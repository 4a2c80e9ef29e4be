# SPDX-License-Identifier: BSD-3-Clause
"""Fisher's F distribution."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor

from . import constraints
from .distribution import Distribution
from .gamma import Gamma
from .utils import broadcast_all

__all__ = ["FisherSnedecor"]


class FisherSnedecor(Distribution):
    """The ratio of two chi-squared variables, each divided by its degrees of freedom.

    With ``a = df1 / 2`` and ``b = df2 / 2`` the density is
    ``(df1 / df2) ** a * x ** (a - 1) * (1 + df1 / df2 * x) ** (-a - b) / beta(a, b)`` above 0, with
    mean ``df2 / (df2 - 2)`` where ``df2 > 2``, else NaN, and variance
    ``2 * df2 ** 2 * (df1 + df2 - 2) / (df1 * (df2 - 2) ** 2 * (df2 - 4))`` where ``df2 > 4``, else
    NaN. The batch shape is what both parameters broadcast to; the event shape is ``()``.
    ``rsample`` is differentiable with respect to ``df1`` and ``df2``. The gradients are implicit,
    as in Gamma.

    Args:
        df1: positive number or tensor: degrees of freedom of the numerator.
        df2: positive number or tensor: degrees of freedom of the denominator.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: a parameter is out of its range.
    """

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        self._gamma1 = Gamma(self.df1 * 0.5, self.df1)
        self._gamma2 = Gamma(self.df2 * 0.5, self.df2)
        super().__init__(self.df1.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return cograd.where(self.df2 > 2, self.df2 / (self.df2 - 2), cograd.nan)

    @property
    def mode(self) -> Tensor:
        inside = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return cograd.where(self.df1 > 2, inside, cograd.nan)

    @property
    def variance(self) -> Tensor:
        a, b = self.df1, self.df2
        finite = 2 * b.square() * (a + b - 2) / (a * (b - 2).square() * (b - 4))
        return cograd.where(b > 4, finite, cograd.nan)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        tiny = cograd.finfo(self.df1.dtype).tiny
        upper = self._gamma1.rsample(sample_shape)
        lower = self._gamma2.rsample(sample_shape).clamp(min=tiny)
        return (upper / lower).clamp(min=tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a, b = 0.5 * self.df1, 0.5 * self.df2
        ratio = self.df1 / self.df2
        scale = cograd.lgamma(a + b) - cograd.lgamma(a) - cograd.lgamma(b)
        return (
            scale + a * ratio.log() + (a - 1) * value.log() - (a + b) * cograd.log1p(ratio * value)
        )
