# SPDX-License-Identifier: BSD-3-Clause
"""Base class of the distributions over vectors that contain a Categorical."""

from __future__ import annotations

from typing import Any

from cograd import Tensor

from . import constraints
from .categorical import Categorical
from .distribution import Distribution

__all__ = ["OfCategorical"]


class OfCategorical(Distribution):
    """A distribution over vectors of length K that contains a ``Categorical`` of K categories."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical = Categorical(probs, logits)
        shape = self._categorical.param_shape
        super().__init__(self._categorical.batch_shape, shape[-1:], validate_args=validate_args)

    @property
    def _param(self) -> Tensor:
        return self._categorical._param

    @property
    def probs(self) -> Tensor:
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        return self._categorical.logits

    @property
    def param_shape(self) -> Any:
        return self._categorical.param_shape

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._categorical._new(*args, **kwargs)
