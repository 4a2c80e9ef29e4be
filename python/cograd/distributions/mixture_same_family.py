# SPDX-License-Identifier: BSD-3-Clause
"""Mixtures of distributions of one family."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor

from . import constraints
from .categorical import Categorical
from .distribution import Distribution

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """A mixture of the last batch dim of ``component_distribution``.

    ``mixture_distribution`` has the weights. Density and mean are the weighted sums of those of the
    components; the variance is the mean of their variances plus the variance of their means. The
    batch shape is that of the components without the last dim; the event shape is theirs. There is
    no ``rsample``; ``log_prob`` is differentiable with respect to the parameters of both
    distributions.

    Args:
        mixture_distribution: a ``Categorical`` with one category for each component.
        component_distribution: the components, along its last batch dim.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: an argument has another type, or the shapes do not fit.
    """

    arg_constraints: dict[str, Any] = {}
    has_rsample = False

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        _check_mixture(mixture_distribution, component_distribution)
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        self._num_component = component_distribution.batch_shape[-1]
        self._event_ndims = len(component_distribution.event_shape)
        super().__init__(
            component_distribution.batch_shape[:-1],
            component_distribution.event_shape,
            validate_args=validate_args,
        )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        new._component_distribution = self._component_distribution.expand(
            (*batch_shape, self._num_component)
        )
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        return new

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        return self._component_distribution

    def _weights(self) -> Tensor:
        """Returns the probabilities, with an additional dim of size 1 for each event dim."""
        probs: Tensor = self._mixture_distribution.probs
        return probs.reshape((*probs.shape, *(1,) * self._event_ndims))

    @property
    def mean(self) -> Tensor:
        return (self._weights() * self._component_distribution.mean).sum(-1 - self._event_ndims)

    @property
    def variance(self) -> Tensor:
        dim = -1 - self._event_ndims
        inner = self._component_distribution
        within = (self._weights() * inner.variance).sum(dim)
        between = (self._weights() * (inner.mean - self.mean.unsqueeze(dim)).square()).sum(dim)
        return within + between

    def cdf(self, x: Tensor) -> Tensor:
        inner = self._component_distribution.cdf(x.unsqueeze(-1 - self._event_ndims))
        return (inner * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, x: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(x)
        inner = self._component_distribution.log_prob(x.unsqueeze(-1 - self._event_ndims))
        weights = cograd.log_softmax(self._mixture_distribution.logits, -1)
        return cograd.logsumexp(inner + weights, -1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with cograd.no_grad():
            dim = len(sample_shape) + len(self._batch_shape)
            mixture = self._mixture_distribution.expand(self._batch_shape)
            which = mixture.sample(sample_shape)
            values = self._component_distribution.sample(sample_shape)
            index = which.reshape((*which.shape, 1, *(1,) * self._event_ndims))
            index = index.expand((*which.shape, 1, *self._event_shape))
            return values.gather(dim, index).squeeze(dim)

    def __repr__(self) -> str:
        parts = f"{self._mixture_distribution},\n  {self._component_distribution}"
        return f"MixtureSameFamily(\n  {parts})"


def _check_mixture(mixture: Any, component: Any) -> None:
    if not isinstance(mixture, Categorical):
        raise ValueError(
            "The Mixture distribution needs to be an instance of cograd.distributions.Categorical"
        )
    if not isinstance(component, Distribution):
        raise ValueError(
            "The Component distribution needs to be an instance of "
            "cograd.distributions.Distribution"
        )
    for a, b in zip(reversed(mixture.batch_shape), reversed(component.batch_shape[:-1])):
        if a != 1 and b != 1 and a != b:
            raise ValueError(
                f"`mixture_distribution.batch_shape` ({mixture.batch_shape}) is not compatible "
                f"with `component_distribution.batch_shape`({component.batch_shape[:-1]})"
            )
    count, have = mixture.logits.shape[-1], component.batch_shape[-1]
    if count != have:
        raise ValueError(
            f"`mixture_distribution component` ({count}) does not equal "
            f"`component_distribution.batch_shape[-1]` ({have})"
        )
