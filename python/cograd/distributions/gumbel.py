# SPDX-License-Identifier: BSD-3-Clause
"""The Gumbel distribution."""

from __future__ import annotations

import math
from typing import Any

import cograd
from cograd import Tensor

from . import constraints
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, ExpTransform
from .uniform import Uniform
from .utils import broadcast_all, euler_constant

__all__ = ["Gumbel"]


class Gumbel(TransformedDistribution):
    """The limit distribution of maxima: ``loc - scale * log(-log(u))`` for uniform u.

    With ``z = (x - loc) / scale`` the density is ``exp(-z - exp(-z)) / scale`` on all real numbers,
    with mean ``loc + scale * euler_gamma``, where Euler's constant is 0.5772..., and variance
    ``(pi * scale) ** 2 / 6``. The batch shape is what both parameters broadcast to; the event shape
    is ``()``. ``rsample`` is differentiable with respect to ``loc`` and ``scale``.

    Args:
        loc: number or tensor: the mode.
        scale: positive number or tensor.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: a parameter is out of its range.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        finfo = cograd.finfo(self.loc.dtype)
        low = cograd.full_like(self.loc, finfo.tiny)
        base = Uniform(low, cograd.full_like(low, 1 - finfo.eps), validate_args=validate_args)
        log = ExpTransform().inv
        minus = AffineTransform(loc=0, scale=-cograd.ones_like(self.scale))
        stretch = AffineTransform(loc=self.loc, scale=-self.scale)
        super().__init__(base, [log, minus, log, stretch], validate_args=validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return y - y.exp() - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return cograd.exp(-cograd.exp((self.loc - value) / self.scale))

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc - self.scale * cograd.log(-cograd.log(value))

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return (math.pi / math.sqrt(6)) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.square()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + euler_constant)
