# SPDX-License-Identifier: BSD-3-Clause
"""The log-normal distribution."""

from __future__ import annotations

from typing import Any

from cograd import Tensor

from . import constraints
from .normal import Normal
from .transformed_distribution import TransformedDistribution
from .transforms import ExpTransform

__all__ = ["LogNormal"]


class LogNormal(TransformedDistribution):
    """The distribution of a positive variable whose logarithm is normal.

    The density is ``exp(-((log(x) - loc) / scale) ** 2 / 2) / (x * scale * sqrt(2 * pi))`` above 0,
    with mean ``exp(loc + scale ** 2 / 2)`` and variance
    ``(exp(scale ** 2) - 1) * exp(2 * loc + scale ** 2)``. The batch shape is what both parameters
    broadcast to; the event shape is ``()``. ``rsample`` is differentiable with respect to ``loc``
    and ``scale``.

    Args:
        loc: number or tensor: the mean of the logarithm.
        scale: positive number or tensor: the standard deviation of the logarithm.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: a parameter is out of its range.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    has_rsample = True
    base_dist: Normal

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale.square() / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        square = self.scale.square()
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc
