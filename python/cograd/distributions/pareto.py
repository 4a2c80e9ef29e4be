# SPDX-License-Identifier: BSD-3-Clause
"""The Pareto distribution."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor

from . import constraints
from .exponential import Exponential
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, ExpTransform
from .utils import broadcast_all

__all__ = ["Pareto"]


class Pareto(TransformedDistribution):
    """Values from ``scale`` on; a value exceeds x with probability ``(scale / x) ** alpha``.

    The density is ``alpha * scale ** alpha / x ** (alpha + 1)`` from ``scale`` on, with mean
    ``alpha * scale / (alpha - 1)`` where ``alpha > 1``, else infinite, and variance
    ``alpha * scale ** 2 / ((alpha - 1) ** 2 * (alpha - 2))`` where ``alpha > 2``, else infinite.
    The batch shape is what both parameters broadcast to; the event shape is ``()``. ``rsample`` is
    differentiable with respect to ``scale`` and ``alpha``.

    Args:
        scale: positive number or tensor: the smallest value.
        alpha: positive number or tensor: how fast the tail falls.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: a parameter is out of its range.
    """

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        stretch = AffineTransform(loc=0, scale=self.scale)
        super().__init__(base, [ExpTransform(), stretch], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        a = self.alpha.clamp(min=2)
        return self.scale.square() * a / ((a - 1).square() * (a - 2))

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.greater_than_eq(self.scale)

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + 1 + self.alpha.reciprocal()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        ratio = cograd.where(value < self.scale, 1, self.scale / value)
        return -cograd.expm1(self.alpha * cograd.log(ratio))
