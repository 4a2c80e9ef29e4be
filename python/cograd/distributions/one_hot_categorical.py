# SPDX-License-Identifier: BSD-3-Clause
"""The categorical distribution over unit vectors."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor
from cograd.nn import functional as F

from . import constraints
from ._of_categorical import OfCategorical

__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]


class OneHotCategorical(OfCategorical):
    """Unit vectors of length K with the probabilities in the last dim of ``probs``."""

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
        values = cograd.eye(n, dtype=self._param.dtype)
        values = values.view((n,) + (1,) * len(self._batch_shape) + (n,))
        return values.expand((n, *self._batch_shape, n)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """The same with samples that pass gradients straight to ``probs`` (Bengio et al. 2013)."""

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        samples = self.sample(sample_shape)
        return samples + (self.probs - self.probs.detach())
