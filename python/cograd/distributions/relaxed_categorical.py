# SPDX-License-Identifier: BSD-3-Clause
"""The relaxed one-hot categorical distribution."""

from __future__ import annotations

import math
from typing import Any

import cograd
from cograd import Tensor

from . import constraints
from ._of_categorical import OfCategorical
from .transformed_distribution import TransformedDistribution
from .transforms import ExpTransform
from .utils import clamp_probs

__all__ = ["ExpRelaxedCategorical", "RelaxedOneHotCategorical"]


class ExpRelaxedCategorical(OfCategorical):
    """The logarithms of relaxed one-hot vectors (Maddison, Mnih and Teh 2017).

    Args:
        temperature: towards 0 the samples become logarithms of one-hot vectors.
        probs: probabilities in the last dim.
        logits: their logarithms, instead of ``probs``.
        validate_args: see ``Distribution``.
    """

    support = constraints.real_vector  # only normalised ones
    has_rsample = True
    _unbatched = ("temperature",)

    def __init__(
        self,
        temperature: Any,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        super().__init__(probs, logits, validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        u = clamp_probs(cograd.rand(shape, dtype=self.logits.dtype, device=self.logits.device))
        scores = (self.logits - (-u.log()).log()) / self.temperature
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n = self._event_shape[-1]
        logits, value = cograd.broadcast_tensors(self.logits, value)
        temperature = cograd.as_tensor(self.temperature, dtype=logits.dtype, device=logits.device)
        log_temperature = temperature.log()
        scores = logits - value * self.temperature
        normal = (scores - scores.logsumexp(dim=-1, keepdim=True)).sum(-1)
        return normal + math.lgamma(n) + (n - 1) * log_temperature


class RelaxedOneHotCategorical(TransformedDistribution):
    """Points of a simplex, near its corners at low temperatures, with reparametrised gradients.

    With ``t = temperature`` the density is
    ``gamma(K) * t ** (K - 1) * prod(probs / x ** (t + 1)) / sum(probs / x ** t) ** K`` over the
    first K - 1 elements; mean and variance have no formula and raise NotImplementedError. The batch
    shape is that of the parameter without its last dim; the event shape is ``(K,)``. ``rsample`` is
    differentiable with respect to ``temperature`` and ``probs`` or ``logits``, whichever is given.
    Source: Maddison, Mnih and Teh, "The concrete distribution" (2017).

    Args:
        temperature: positive number or tensor ``()``, which is not checked; towards 0 the samples
            become one-hot vectors.
        probs: tensor ``(..., K)`` of nonnegative numbers, which are divided by their sum over the
            last dim.
        logits: the logarithms of ``probs``, ``(..., K)``, instead of ``probs``; normalised
            likewise.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: not exactly one of ``probs`` and ``logits`` is given, it has no dim, or is out
            of range.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True
    base_dist: ExpRelaxedCategorical

    def __init__(
        self,
        temperature: Any,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Tensor:
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        return self.base_dist.probs
