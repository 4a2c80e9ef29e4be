# SPDX-License-Identifier: BSD-3-Clause
"""The relaxed Bernoulli distribution."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor
from cograd.nn import functional as F

from . import constraints
from .distribution import Distribution
from .transformed_distribution import TransformedDistribution
from .transforms import SigmoidTransform
from .utils import ProbsOrLogits, broadcast_all, clamp_probs

__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]


class LogitRelaxedBernoulli(ProbsOrLogits, Distribution):
    """The log odds of a relaxed Bernoulli variable (Maddison, Mnih and Teh 2017).

    Args:
        temperature: towards 0 the samples become those of a Bernoulli variable.
        probs: probabilities of 1.
        logits: the log odds, instead of ``probs``.
        validate_args: see ``Distribution``.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    _unbatched = ("temperature",)

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        self._set_probs_or_logits(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(cograd.rand(shape, dtype=probs.dtype, device=probs.device))
        odds = u.log() - (-u).log1p() + probs.log() - (-probs).log1p()
        return odds / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        difference = logits - value * self.temperature
        return (
            cograd.as_tensor(self.temperature, device=logits.device).log()
            + difference
            - 2 * F.softplus(difference)
        )


class RelaxedBernoulli(TransformedDistribution):
    """Values in (0, 1), near 0 or 1 at low temperatures, with reparametrised gradients.

    With ``t = temperature`` and ``a = probs / (1 - probs)`` the density is
    ``t * a * (x * (1 - x)) ** (-t - 1) / (a * x ** -t + (1 - x) ** -t) ** 2`` on (0, 1); mean and
    variance have no formula and raise NotImplementedError. The batch shape is that of ``probs``;
    the event shape is ``()``. ``rsample`` is differentiable with respect to ``temperature`` and
    ``probs`` or ``logits``, whichever is given. Source: Maddison, Mnih and Teh, "The concrete
    distribution" (2017).

    Args:
        temperature: positive number or tensor ``()``, which is not checked; towards 0 the samples
            become those of a Bernoulli variable.
        probs: number or tensor in [0, 1]: the probability of 1.
        logits: the log odds ``log(probs / (1 - probs))``, instead of ``probs``; any real number.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: not exactly one of ``probs`` and ``logits`` is given, or it is out of its range.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    base_dist: LogitRelaxedBernoulli

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Tensor:
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        return self.base_dist.probs
