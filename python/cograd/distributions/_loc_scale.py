# SPDX-License-Identifier: BSD-3-Clause
"""Location-scale families on the real line, and the absolute values of some of them."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import cograd
from cograd import Tensor

from . import constraints
from .distribution import Distribution
from .transformed_distribution import TransformedDistribution
from .transforms import AbsTransform
from .utils import broadcast_all

__all__ = ["Half", "LocScale"]


class LocScale(Distribution):
    """The distribution of ``loc + scale * z``, where z is symmetric about 0."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc


class Half(TransformedDistribution):
    """The absolute value of a variable of such a family, centred at 0."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    base_dist: LocScale
    _whole: ClassVar[type[LocScale]]

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        base = self._whole(0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    @property
    def scale(self) -> Tensor:
        return self.base_dist.scale

    @property
    def mode(self) -> Tensor:
        return cograd.zeros_like(self.scale)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return cograd.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -cograd.inf)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)
