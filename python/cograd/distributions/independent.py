# SPDX-License-Identifier: BSD-3-Clause
"""Independent treats batch dims as event dims."""

from __future__ import annotations

from typing import Any

from cograd import Size, Tensor

from . import constraints
from .distribution import Distribution
from .utils import _sum_rightmost

__all__ = ["Independent"]


class Independent(Distribution):
    """Treats the last batch dims of ``base_distribution`` as independent parts of one value.

    The density is the product over these dims: ``log_prob`` and ``entropy`` are summed; mean,
    variance, samples and their gradients are those of ``base_distribution``. The last
    ``reinterpreted_batch_ndims`` dims of its batch shape become the first dims of the event shape.

    Args:
        base_distribution: the distribution.
        reinterpreted_batch_ndims: the number of dims, from 0 to all batch dims.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: there are fewer batch dims.
    """

    arg_constraints: dict[str, Any] = {}
    base_dist: Distribution

    def __init__(
        self,
        base_distribution: Distribution,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        have = len(base_distribution.batch_shape)
        if not 0 <= reinterpreted_batch_ndims <= have:
            raise ValueError(
                "Expected 0 <= reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                f"actual {reinterpreted_batch_ndims} vs {have}"
            )
        shape = Size((*base_distribution.batch_shape, *base_distribution.event_shape))
        cut = have - reinterpreted_batch_ndims
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        inner = self.event_shape[: self.reinterpreted_batch_ndims]
        new.base_dist = self.base_dist.expand((*batch_shape, *inner))
        return new

    @property
    def has_rsample(self) -> bool:
        return bool(self.base_dist.has_rsample)

    @property
    def has_enumerate_support(self) -> bool:
        if self.reinterpreted_batch_ndims > 0:
            return False
        return bool(self.base_dist.has_enumerate_support)

    @constraints.dependent_property
    def support(self) -> Any:
        result = self.base_dist.support
        n = self.reinterpreted_batch_ndims
        return constraints.independent(result, n) if n else result

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        inner = self.base_dist.log_prob(value)
        return _sum_rightmost(inner, self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        inner = self.base_dist.entropy()
        return _sum_rightmost(inner, self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"
