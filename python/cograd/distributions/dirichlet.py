# SPDX-License-Identifier: BSD-3-Clause
"""The Dirichlet distribution."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor
from cograd.nn import functional as F

from . import constraints
from .exp_family import ExponentialFamily

__all__ = ["Dirichlet"]


class Dirichlet(ExponentialFamily):
    """A distribution over positive vectors whose sum is 1.

    With ``a = concentration`` the density is
    ``gamma(sum(a)) / prod(gamma(a)) * prod(x ** (a - 1))`` over the first K - 1 elements, with mean
    ``a / sum(a)`` and variance ``a * (sum(a) - a) / (sum(a) ** 2 * (sum(a) + 1))``. The batch shape
    is ``concentration.shape[:-1]``, the event shape ``(K,)``. ``rsample`` is differentiable with
    respect to ``concentration``. The gradient is implicit (Jankowiak and Obermeyer 2018).

    Args:
        concentration: tensor ``(..., K)`` of positive numbers.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: ``concentration`` has no dims, or an element is not positive.
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return cograd._C._ops._sample_dirichlet(self.concentration.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a = self.concentration
        return (
            cograd.xlogy(a - 1, value).sum(-1) + cograd.lgamma(a.sum(-1)) - cograd.lgamma(a).sum(-1)
        )

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def mode(self) -> Tensor:
        above = (self.concentration - 1).clamp(min=0.0)
        inside = above / above.sum(-1, keepdim=True)
        corner = F.one_hot(self.concentration.argmax(-1), self.concentration.shape[-1])
        convex = (self.concentration < 1).all(-1, keepdim=True)
        return cograd.where(convex, corner.type_as(inside), inside)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, keepdim=True)
        rest = total - self.concentration
        return self.concentration * rest / (total.square() * (total + 1))

    def entropy(self) -> Tensor:
        a = self.concentration
        n, total = a.size(-1), a.sum(-1)
        return (
            cograd.lgamma(a).sum(-1)
            - cograd.lgamma(total)
            - (n - total) * cograd.digamma(total)
            - ((a - 1) * cograd.digamma(a)).sum(-1)
        )

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration,)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return x.lgamma().sum(-1) - cograd.lgamma(x.sum(-1))
