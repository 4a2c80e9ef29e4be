# SPDX-License-Identifier: BSD-3-Clause
"""The half-normal distribution."""

from __future__ import annotations

import math

import cograd
from cograd import Tensor

from ._loc_scale import Half
from .normal import Normal

__all__ = ["HalfNormal"]


class HalfNormal(Half):
    """The absolute value of a normal variable with mean 0 and standard deviation ``scale``.

    The density is ``sqrt(2 / pi) / scale * exp(-(x / scale) ** 2 / 2)`` for x >= 0, with mean
    ``scale * sqrt(2 / pi)`` and variance ``scale ** 2 * (1 - 2 / pi)``. The batch shape is that of
    ``scale``; the event shape is ``()``. ``rsample`` is differentiable with respect to ``scale``.

    Args:
        scale: positive number or tensor.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: a parameter is out of its range.
    """

    base_dist: Normal
    _whole = Normal

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * (1 - 2 / math.pi)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return cograd.erf(value / (self.scale * math.sqrt(2)))

    def icdf(self, prob: Tensor) -> Tensor:
        return self.scale * cograd.erfinv(prob) * math.sqrt(2)
