# SPDX-License-Identifier: BSD-3-Clause
"""The normal distribution."""

from __future__ import annotations

import math
from typing import Any

import cograd
from cograd import Tensor

from ._loc_scale import LocScale
from .exp_family import ExponentialFamily
from .utils import _standard_normal

__all__ = ["Normal"]


class Normal(LocScale, ExponentialFamily):
    """The normal distribution with mean ``loc`` and standard deviation ``scale``.

    The density is ``exp(-((x - loc) / scale) ** 2 / 2) / (scale * sqrt(2 * pi))`` on all real
    numbers, with mean ``loc`` and variance ``scale ** 2``. The batch shape is what both parameters
    broadcast to; the event shape is ``()``. ``rsample`` is differentiable with respect to ``loc``
    and ``scale``.

    Args:
        loc: number or tensor: mean, median and mode.
        scale: positive number or tensor.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: a parameter is out of its range.
    """

    _mean_carrier_measure = 0

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.square()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with cograd.no_grad():
            return cograd.normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        z = _standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + z * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        return -0.5 * z.square() - self.scale.log() - 0.5 * math.log(2 * math.pi)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return 0.5 * cograd.erfc((self.loc - value) / (self.scale * math.sqrt(2)))

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * cograd.special.ndtri(value)

    def entropy(self) -> Tensor:
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        variance = self.scale.square()
        return self.loc / variance, -0.5 * variance.reciprocal()

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        return -0.25 * x.square() / y + 0.5 * cograd.log(-math.pi / y)
