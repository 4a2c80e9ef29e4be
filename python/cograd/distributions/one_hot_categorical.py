# SPDX-License-Identifier: BSD-3-Clause
"""The categorical distribution over one-hot vectors."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor
from cograd.nn import functional as F

from . import constraints
from ._of_categorical import OfCategorical

__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]


class OneHotCategorical(OfCategorical):
    """One-hot vectors of length K with the probabilities in the last dim of ``probs``.

    The mass is ``prod(probs ** x)`` at vectors with a single 1, with mean ``probs`` and variance
    ``probs * (1 - probs)``. The batch shape is that of the parameter without its last dim; the
    event shape is ``(K,)``. There is no ``rsample``; ``log_prob`` is differentiable with respect to
    ``probs`` or ``logits``, whichever is given.

    Args:
        probs: tensor ``(..., K)`` of nonnegative numbers, which are divided by their sum over the
            last dim.
        logits: the logarithms of ``probs``, ``(..., K)``, instead of ``probs``; normalised
            likewise.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: not exactly one of the two is given, it has no dim, or it is out of its range.
    """

    support = constraints.one_hot
    has_enumerate_support = True

    def _one_hot(self, index: Tensor) -> Tensor:
        return F.one_hot(index, self._event_shape[-1]).to(self.probs.dtype)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return self._one_hot(self.probs.argmax(dim=-1))

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self._one_hot(self._categorical.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self._event_shape[0]
        values = cograd.eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.view((n,) + (1,) * len(self._batch_shape) + (n,))
        return values.expand((n, *self._batch_shape, n)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """``OneHotCategorical`` with samples that pass gradients straight to the probabilities.

    The mass is ``prod(probs ** x)`` at vectors with a single 1, with mean ``probs`` and variance
    ``probs * (1 - probs)``. The batch shape is that of the parameter without its last dim; the
    event shape is ``(K,)``. ``rsample`` is differentiable with respect to ``probs`` or ``logits``,
    whichever is given. The sample has the values of a one-hot vector and the gradient of ``probs``:
    that of the mean, not of the sample (Bengio, Leonard and Courville 2013).

    Args:
        probs: tensor ``(..., K)`` of nonnegative numbers, which are divided by their sum over the
            last dim.
        logits: the logarithms of ``probs``, ``(..., K)``, instead of ``probs``; normalised
            likewise.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: not exactly one of the two is given, it has no dim, or it is out of its range.
    """

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        samples = self.sample(sample_shape)
        return samples + (self.probs - self.probs.detach())
