# SPDX-License-Identifier: BSD-3-Clause
"""The logistic normal distribution."""

from __future__ import annotations

from typing import Any

from cograd import Tensor

from . import constraints
from .independent import Independent
from .normal import Normal
from .transformed_distribution import TransformedDistribution
from .transforms import StickBreakingTransform

__all__ = ["LogisticNormal"]


class LogisticNormal(TransformedDistribution):
    """The distribution of ``StickBreakingTransform`` applied to normal vectors.

    The density is the normal one divided by the transform's Jacobian; mean and variance have no
    formula and raise NotImplementedError. With n = ``loc.shape[-1]``, or 1 for a number, the batch
    shape is the shape to which both parameters broadcast without that dim, the event shape
    ``(n + 1,)``. ``rsample`` is differentiable with respect to ``loc`` and ``scale``.

    Args:
        loc: number or tensor: the means of the normal elements.
        scale: positive number or tensor: the standard deviations of the normal elements.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: a parameter is out of its range.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True
    base_dist: Independent

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        return self.base_dist.base_dist.loc  # type: ignore[attr-defined]

    @property
    def scale(self) -> Tensor:
        return self.base_dist.base_dist.scale  # type: ignore[attr-defined]
