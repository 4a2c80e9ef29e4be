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
    """The Cauchy distribution with median ``loc`` and half width at half maximum ``scale``.

    The density is ``1 / (pi * scale * (1 + ((x - loc) / scale) ** 2))`` on all real numbers. There
    is no mean, which is given as NaN, and no variance, which is given as infinite. The batch shape
    is what both parameters broadcast to; the event shape is ``()``. ``rsample`` is differentiable
    with respect to ``loc`` and ``scale``.

    Args:
        loc: number or tensor: the median and the mode.
        scale: positive number or tensor.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: a parameter is out of its range.
    """

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
        return cograd.atan2(self.scale, self.loc - value) / math.pi

    def icdf(self, value: Tensor) -> Tensor:
        middle = value - 0.5
        far = middle.abs() > 0.25  # the angle from the pole keeps more digits there
        pole = cograd.where(middle < 0, -value, 1 - value)
        turn = cograd.tan(math.pi * cograd.where(far, pole, middle))
        return cograd.where(far, turn.reciprocal(), turn) * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()
