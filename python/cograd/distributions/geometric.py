# SPDX-License-Identifier: BSD-3-Clause
"""The geometric distribution."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor
from cograd.nn import functional as F

from . import constraints
from .distribution import Distribution
from .utils import ProbsOrLogits, all_samples, broadcast_all, holds

__all__ = ["Geometric"]


class Geometric(ProbsOrLogits, Distribution):
    """The number of failures before the first success.

    The mass is ``probs * (1 - probs) ** x`` at 0, 1, ..., with mean ``1 / probs - 1`` and variance
    ``(1 - probs) / probs ** 2``. The batch shape is that of the parameter; the event shape is
    ``()``. There is no ``rsample``; ``log_prob`` is differentiable with respect to ``probs`` or
    ``logits``, whichever is given.

    Args:
        probs: number or tensor in (0, 1]: the probability of a success.
        logits: the log odds ``log(probs / (1 - probs))``, instead of ``probs``; any real number.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: not exactly one of ``probs`` and ``logits`` is given, or it is out of its range.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._set_probs_or_logits(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)
        if self._validate_args and probs is not None:
            value = self.probs
            if not holds(value > 0):
                raise ValueError(
                    f"Expected parameter probs ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) of distribution {self!r} to be positive but found "
                    f"invalid values:\n{all_samples(value)}"
                )

    @property
    def mean(self) -> Tensor:
        return 1 / self.probs - 1

    @property
    def mode(self) -> Tensor:
        return cograd.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1 / self.probs - 1) / self.probs

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        tiny = cograd.finfo(self.probs.dtype).tiny
        with cograd.no_grad():
            u = cograd.rand(shape, dtype=self.probs.dtype, device=self.probs.device).clamp(min=tiny)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        return cograd.xlog1py(value, -probs) + self.probs.log()

    def entropy(self) -> Tensor:
        logits, probs = self.logits, self.probs
        return F.binary_cross_entropy_with_logits(logits, probs, reduction="none") / probs
