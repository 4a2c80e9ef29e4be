# SPDX-License-Identifier: BSD-3-Clause
"""The binomial distribution."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor
from cograd.nn import functional as F

from . import constraints
from .distribution import Distribution
from .utils import ProbsOrLogits, holds

__all__ = ["Binomial"]


class Binomial(ProbsOrLogits, Distribution):
    """The number of successes in ``total_count`` trials of probability ``probs``.

    The mass is ``comb(total_count, x) * probs ** x * (1 - probs) ** (total_count - x)`` at 0, 1,
    ..., ``total_count``, with mean ``total_count * probs`` and variance
    ``total_count * probs * (1 - probs)``. The batch shape is what the parameters broadcast to; the
    event shape is ``()``. There is no ``rsample``; ``log_prob`` is differentiable with respect to
    ``probs`` or ``logits``, whichever is given. ``entropy`` and ``enumerate_support`` raise
    NotImplementedError if the counts of the batch differ.

    Args:
        total_count: number or tensor of nonnegative integers.
        probs: number or tensor in [0, 1]: the probability of a success.
        logits: the log odds ``log(probs / (1 - probs))``, instead of ``probs``; any real number.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: not exactly one of ``probs`` and ``logits`` is given, or a parameter is out of
            its range.
    """

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    def __init__(
        self,
        total_count: Any = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        (count,) = self._set_probs_or_logits(probs, logits, total_count)
        self.total_count = count.type_as(self._param)
        super().__init__(self._param.size(), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return cograd.minimum(((self.total_count + 1) * self.probs).floor(), self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with cograd.no_grad():
            return cograd.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        choices = cograd.lgamma(n + 1) - cograd.lgamma(value + 1) - cograd.lgamma(n - value + 1)
        # k log(p) + (n - k) log(1 - p), computed from logits.
        return choices + value * self.logits - n * F.softplus(self.logits)

    def _one_count(self, what: str) -> int:
        if self.total_count.numel() == 0:
            return 0
        n = self.total_count.max()
        if not holds(self.total_count == n):
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{what}`.")
        return int(n.item())

    def entropy(self) -> Tensor:
        self._one_count("entropy")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(cograd.exp(log_prob) * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self._one_count("enumerate_support")
        like = self._param
        return self._enumerated(cograd.arange(1 + n, dtype=like.dtype, device=like.device), expand)
