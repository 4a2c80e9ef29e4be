# SPDX-License-Identifier: BSD-3-Clause
"""The half-Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

import cograd
from cograd import Tensor

from . import constraints
from .cauchy import Cauchy
from .transformed_distribution import TransformedDistribution
from .transforms import AbsTransform

__all__ = ["HalfCauchy"]


class HalfCauchy(TransformedDistribution):
    """The absolute value of Cauchy numbers about 0 of half width ``scale``."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    base_dist: Cauchy

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        base = Cauchy(0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    @property
    def scale(self) -> Tensor:
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return cograd.full_like(self.scale, math.inf)

    @property
    def mode(self) -> Tensor:
        return cograd.zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value = cograd.as_tensor(value, dtype=self.scale.dtype)
        return cograd.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -cograd.inf)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return cograd.atan(value / self.scale) * (2 / math.pi)

    def icdf(self, value: Tensor) -> Tensor:
        return self.scale * cograd.tan(value * (math.pi / 2))

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)
