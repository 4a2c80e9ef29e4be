# SPDX-License-Identifier: BSD-3-Clause
"""Exponential families, whose entropy follows from their log normaliser."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor

from .distribution import Distribution
from .utils import _sum_rightmost

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """Base class of distributions with density ``exp(<t(x), theta> - F(theta) + k(x))``.

    A subclass defines theta as ``_natural_params``, F as ``_log_normalizer`` and the mean of k as
    ``_mean_carrier_measure``. The mean of t is the gradient of F, from which ``entropy`` is
    computed; it is differentiable with respect to the parameters.

    Args:
        batch_shape: see ``Distribution``.
        event_shape: see ``Distribution``.
        validate_args: see ``Distribution``.
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError

    def entropy(self) -> Tensor:
        carrier = self._mean_carrier_measure
        given = self._natural_params
        params = [p if p.requires_grad else p.detach().requires_grad_() for p in given]
        with cograd.enable_grad():
            normalizer = self._log_normalizer(*params)
            slopes = cograd.autograd.grad(normalizer.sum(), params, create_graph=True)
        result = normalizer - carrier
        for p, slope in zip(params, slopes):
            result = result - _sum_rightmost(p * slope, p.dim() - len(self._batch_shape))
        return result
