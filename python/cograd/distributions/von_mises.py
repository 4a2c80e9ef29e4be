# SPDX-License-Identifier: BSD-3-Clause
"""The von Mises distribution of angles."""

from __future__ import annotations

import math
from typing import Any

import cograd
from cograd import Tensor, special

from . import constraints
from .distribution import Distribution
from .utils import broadcast_all

__all__ = ["VonMises"]


class VonMises(Distribution):
    """Angles with density proportional to ``exp(concentration * cos(x - loc))``.

    Samples are in [-pi, pi); they are not reparametrised.
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.size(), validate_args=validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        k = self.concentration
        # cos(d) - 1 and the scaled I0: neither overflows, and nothing cancels for large k.
        sine = cograd.sin(0.5 * (value - self.loc))
        return -2 * k * sine.square() - math.log(2 * math.pi) - special.i0e(k).log()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with cograd.no_grad():
            angle = cograd._C._ops._sample_von_mises(self.concentration.expand(shape))
            return (angle + math.pi + self.loc) % (2 * math.pi) - math.pi

    @property
    def mean(self) -> Tensor:
        """The circular mean."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The circular variance, 1 - I1 / I0."""
        k = self.concentration
        return 1 - special.i1e(k) / special.i0e(k)
