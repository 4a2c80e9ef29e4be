# SPDX-License-Identifier: BSD-3-Clause
"""The Laplace distribution."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor

from ._loc_scale import LocScale

__all__ = ["Laplace"]


class Laplace(LocScale):
    """A distribution with exponential tails on both sides of ``loc``.

    The density is ``exp(-abs(x - loc) / scale) / (2 * scale)`` on all real numbers, with mean
    ``loc`` and variance ``2 * scale ** 2``. The batch shape is what both parameters broadcast to;
    the event shape is ``()``. ``rsample`` is differentiable with respect to ``loc`` and ``scale``.

    Args:
        loc: number or tensor: mean, median and mode.
        scale: positive number or tensor: the mean distance from ``loc``.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: a parameter is out of its range.
    """

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.square()

    @property
    def stddev(self) -> Tensor:
        return 2**0.5 * self.scale

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape, dtype = self._extended_shape(sample_shape), self.loc.dtype
        # 2 u - 1 is in [-1, 1); clamp the lower end to where the logarithm is finite.
        u = (2 * cograd.rand(shape, dtype=dtype, device=self.loc.device) - 1).clamp(
            min=cograd.finfo(dtype).eps - 1
        )
        return self.loc - self.scale * u.sign() * cograd.log1p(-u.abs())

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -cograd.log(2 * self.scale) - cograd.abs(value - self.loc) / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        low = z < 0
        tail = 0.5 * cograd.exp(cograd.where(low, z, -z))
        return cograd.where(low, tail, 1 - tail)

    def icdf(self, value: Tensor) -> Tensor:
        low = value < 0.5
        z = cograd.log(2 * cograd.where(low, value, 1 - value))
        return self.loc + self.scale * cograd.where(low, z, -z)

    def entropy(self) -> Tensor:
        return 1 + cograd.log(2 * self.scale)
