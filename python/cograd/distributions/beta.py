# SPDX-License-Identifier: BSD-3-Clause
"""The beta distribution."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor

from . import constraints
from .dirichlet import Dirichlet
from .exp_family import ExponentialFamily
from .utils import broadcast_all

__all__ = ["Beta"]


class Beta(ExponentialFamily):
    """A distribution over the unit interval.

    With ``a = concentration1`` and ``b = concentration0`` the density is
    ``x ** (a - 1) * (1 - x) ** (b - 1) / beta(a, b)`` on [0, 1], with mean ``a / (a + b)`` and
    variance ``a * b / ((a + b) ** 2 * (a + b + 1))``. The batch shape is what both parameters
    broadcast to; the event shape is ``()``. ``rsample`` is differentiable with respect to
    ``concentration1`` and ``concentration0``. These gradients are implicit (Jankowiak and Obermeyer
    2018).

    Args:
        concentration1: positive number or tensor; larger values move the samples towards 1.
        concentration0: positive number or tensor; larger values move the samples towards 0.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: a parameter is out of its range.
    """

    arg_constraints = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        both = cograd.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(both, validate_args=validate_args)
        super().__init__(self._dirichlet.batch_shape, validate_args=validate_args)

    @property
    def concentration1(self) -> Tensor:
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Tensor:
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.square() * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a, b = self.concentration1, self.concentration0
        return (
            cograd.xlogy(a - 1, value)
            + cograd.xlog1py(b - 1, -value)
            + cograd.lgamma(a + b)
            - cograd.lgamma(a)
            - cograd.lgamma(b)
        )

    def entropy(self) -> Tensor:
        return self._dirichlet.entropy()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        return cograd.lgamma(x) + cograd.lgamma(y) - cograd.lgamma(x + y)
