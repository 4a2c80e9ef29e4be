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
    """A distribution of angles around ``loc``.

    With ``k = concentration`` the density is ``exp(k * cos(x - loc)) / (2 * pi * i0(k))`` on any
    interval of length 2 pi; ``mean`` is the circular mean, ``loc``, and ``variance`` the circular
    variance, 1 - i1(k) / i0(k). Samples are in [-pi, pi); ``log_prob`` accepts any real number. The
    batch shape is what both parameters broadcast to; the event shape is ``()``. There is no
    ``rsample``; ``log_prob`` is differentiable with respect to ``loc`` and ``concentration``.
    Source: Best and Fisher, "Efficient simulation of the von Mises distribution" (1979).

    Args:
        loc: number or tensor, in radians.
        concentration: positive number or tensor; towards 0 the angles become uniform.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: a parameter is out of its range.
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
        # Use cos(d) - 1 and the scaled I0: neither overflows, and nothing cancels for large k.
        sine = cograd.sin(0.5 * (value - self.loc))
        return -2 * k * sine.square() - math.log(2 * math.pi) - special.i0e(k).log()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with cograd.no_grad():
            if cograd.get_rng() == "torch":
                return self._sample_in_rounds(shape)
            angle = cograd._C._ops._sample_von_mises(self.concentration.expand(shape))
            return (angle + math.pi + self.loc) % (2 * math.pi) - math.pi

    def _sample_in_rounds(self, shape: Any) -> Tensor:
        """Reproduces torch's samples: resamples all values until each one has been accepted once.

        This is the method of Best and Fisher, "Efficient simulation of the von Mises distribution"
        (1979).
        """
        k = self.concentration.double()
        tau = 1 + (1 + 4 * k.square()).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * k)
        s = cograd.where(k < 1e-5, k.reciprocal() + k, (1 + rho.square()) / (2 * rho))
        angle = k.new_zeros(shape)
        done = k.new_zeros(shape, dtype=cograd.bool)
        while not done.all():
            u1, u2, u3 = cograd.rand((3, *shape), dtype=cograd.float64, device=k.device).unbind()
            z = (math.pi * u1).cos()
            f = (1 + s * z) / (s + z)
            c = k * (s - f)
            accepted = (c * (2 - c) - u2 > 0) | ((c / u2).log() + 1 - c >= 0)
            angle = cograd.where(accepted, (u3 - 0.5).sign() * f.acos(), angle)
            done |= accepted
        turned = (angle + math.pi + self.loc.double()) % (2 * math.pi) - math.pi
        return turned.to(self.loc.dtype)

    @property
    def mean(self) -> Tensor:
        """Returns the circular mean."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """Returns the circular variance, 1 - I1 / I0."""
        k = self.concentration
        return 1 - special.i1e(k) / special.i0e(k)
