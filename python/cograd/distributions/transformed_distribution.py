# SPDX-License-Identifier: BSD-3-Clause
"""Distributions of transformed values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cograd
from cograd import Size, Tensor

from . import constraints
from .distribution import Distribution
from .independent import Independent
from .transforms import ComposeTransform, Transform
from .utils import _sum_rightmost

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """The distribution of values of ``base_distribution`` after ``transforms``.

    ``log_prob`` is that of the value before the transforms minus each ``log_abs_det_jacobian``;
    ``cdf`` and ``icdf`` need monotonic transforms. Mean, variance and entropy have no formula and
    raise NotImplementedError. The batch shape and the event shape are those of the base after the
    transforms: dims that a transform treats as one event become part of it. ``rsample`` exists if
    the base has it, with gradients for the parameters of the base and of the transforms.

    Args:
        base_distribution: the distribution of the values before the transforms.
        transforms: one transform, or a list of transforms, of which the first one is applied first.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: an item is not a transform, or needs more dims than the values have.
    """

    arg_constraints: dict[str, Any] = {}

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | Sequence[Transform],
        validate_args: bool | None = None,
    ) -> None:
        self.transforms = _listed(transforms)
        whole = ComposeTransform(self.transforms)
        shape = Size((*base_distribution.batch_shape, *base_distribution.event_shape))
        own_dims = len(base_distribution.event_shape)
        domain_dims, codomain_dims = whole.domain.event_dim, whole.codomain.event_dim
        if len(shape) < domain_dims:
            raise ValueError(
                "base_distribution needs to have shape with size at least "
                f"{domain_dims}, but got {shape}."
            )
        after = Size(whole.forward_shape(shape))
        before = Size(whole.inverse_shape(after))
        if tuple(shape) != tuple(before):
            base_distribution = base_distribution.expand(before[: len(before) - own_dims])
        extra = domain_dims - own_dims
        if extra > 0:
            base_distribution = Independent(base_distribution, extra)
        self.base_dist = base_distribution
        cut = len(after) - (codomain_dims + max(own_dims - domain_dims, 0))
        super().__init__(after[:cut], after[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        shape = Size((*batch_shape, *self.event_shape))
        for t in reversed(self.transforms):
            shape = t.inverse_shape(shape)
        base = self.base_dist
        new.base_dist = base.expand(shape[: len(shape) - len(base.event_shape)])
        return new

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        extra = len(self.event_shape) - support.event_dim
        return constraints.independent(support, extra) if extra > 0 else support

    @property
    def has_rsample(self) -> bool:
        return bool(self.base_dist.has_rsample)

    def _forward(self, x: Tensor) -> Tensor:
        for t in self.transforms:
            x = t(x)
        return x

    def _backward(self, y: Tensor) -> Tensor:
        for t in reversed(self.transforms):
            y = t.inv(y)
        return y

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with cograd.no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._forward(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        event_dim = len(self.event_shape)
        result: Any = 0.0
        y = value
        for t in reversed(self.transforms):
            x = t.inv(y)
            event_dim += t.domain.event_dim - t.codomain.event_dim
            stretched = t.log_abs_det_jacobian(x, y)
            result = result - _sum_rightmost(stretched, event_dim - t.domain.event_dim)
            y = x
        before = self.base_dist.log_prob(y)
        own = _sum_rightmost(before, event_dim - len(self.base_dist.event_shape))
        return result + own

    def _mirrored(self, level: Tensor) -> Tensor:
        """Returns 1 - level if the transforms together are decreasing, else level."""
        sign: Any = 1
        for t in self.transforms:
            sign = sign * t.sign
        if isinstance(sign, int) and sign == 1:
            return level
        return sign * (level - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        value = self._backward(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._mirrored(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self._forward(self.base_dist.icdf(self._mirrored(value)))


def _listed(transforms: Any) -> list[Transform]:
    if isinstance(transforms, Transform):
        return [transforms]
    if not isinstance(transforms, list):
        raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
    if not all(isinstance(t, Transform) for t in transforms):
        raise ValueError("transforms must be a Transform or a list of Transforms")
    return list(transforms)
