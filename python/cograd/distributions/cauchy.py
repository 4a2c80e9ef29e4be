# SPDX-License-Identifier: BSD-3-Clause
"""The Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

import cograd
from cograd import Tensor

from ._loc_scale import LocScale

__all__ = ["Cauchy"]


class Cauchy(LocScale):
    """Median ``loc``, half width at half maximum ``scale``; there is no mean."""

    @property
    def mean(self) -> Tensor:
        return cograd.full_like(self.loc, cograd.nan)

    @property
    def variance(self) -> Tensor:
        return cograd.full_like(self.loc, cograd.inf)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        z = self.loc.new_empty(self._extended_shape(sample_shape)).cauchy_()
        return self.loc + z * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        return -math.log(math.pi) - self.scale.log() - z.square().log1p()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return cograd.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return cograd.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()
