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
    """Student's t with ``df`` degrees of freedom, moved by ``loc`` and stretched by ``scale``."""

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
        z = _standard_normal(shape, self.df.dtype)
        ratio = z * cograd.rsqrt(self._chi2.rsample(sample_shape) / self.df)
        return self.loc + self.scale * ratio

    def _log_scale(self) -> Tensor:
        """Of the density's normaliser."""
        half = 0.5 * self.df
        return (
            0.5 * self.df.log()
            + 0.5 * math.log(math.pi)
            + cograd.lgamma(half)
            - cograd.lgamma(half + 0.5)
            + self.scale.log()
        )

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        return -0.5 * (self.df + 1) * cograd.log1p(z.square() / self.df) - self._log_scale()

    def entropy(self) -> Tensor:
        upper = 0.5 * (self.df + 1)
        return upper * (cograd.digamma(upper) - cograd.digamma(0.5 * self.df)) + self._log_scale()
