# SPDX-License-Identifier: BSD-3-Clause
"""The half-Cauchy distribution."""

from __future__ import annotations

import math

import cograd
from cograd import Tensor

from ._loc_scale import Half
from .cauchy import Cauchy

__all__ = ["HalfCauchy"]


class HalfCauchy(Half):
    """The absolute value of a Cauchy variable with median 0 and half width ``scale``.

    The density is ``2 / (pi * scale * (1 + (x / scale) ** 2))`` for x >= 0; mean and variance are
    infinite. The batch shape is that of ``scale``; the event shape is ``()``. ``rsample`` is
    differentiable with respect to ``scale``.

    Args:
        scale: positive number or tensor: the median.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: a parameter is out of its range.
    """

    base_dist: Cauchy
    _whole = Cauchy

    @property
    def mean(self) -> Tensor:
        return cograd.full_like(self.scale, math.inf)

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def log_prob(self, value: Tensor) -> Tensor:
        if isinstance(value, Tensor) or not self._validate_args:
            value = cograd.as_tensor(value, dtype=self.scale.dtype, device=self.scale.device)
        return super().log_prob(value)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return cograd.atan(value / self.scale) * (2 / math.pi)

    def icdf(self, prob: Tensor) -> Tensor:
        return self.scale * cograd.tan(prob * (math.pi / 2))
