# SPDX-License-Identifier: BSD-3-Clause
"""The Bernoulli distribution."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor
from cograd.nn import functional as F

from . import constraints
from .exp_family import ExponentialFamily
from .utils import ProbsOrLogits, broadcast_all

__all__ = ["Bernoulli"]


class Bernoulli(ProbsOrLogits, ExponentialFamily):
    """The value 1 with probability ``probs``, else 0.

    The mass is ``probs ** x * (1 - probs) ** (1 - x)`` at 0 and 1, with mean ``probs`` and variance
    ``probs * (1 - probs)``. The batch shape is that of the parameter; the event shape is ``()``.
    There is no ``rsample``; ``log_prob`` is differentiable with respect to ``probs`` or ``logits``,
    whichever is given.

    Args:
        probs: number or tensor in [0, 1]: the probability of 1.
        logits: the log odds ``log(probs / (1 - probs))``, instead of ``probs``; any real number.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: not exactly one of ``probs`` and ``logits`` is given, or it is out of its range.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._set_probs_or_logits(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        likely = (self.probs >= 0.5).to(self.probs.dtype)
        return cograd.where(self.probs == 0.5, cograd.nan, likely)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with cograd.no_grad():
            return cograd.bernoulli(self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        like = self._param
        return self._enumerated(cograd.arange(2, dtype=like.dtype, device=like.device), expand)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (cograd.logit(self.probs),)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return F.softplus(x)
