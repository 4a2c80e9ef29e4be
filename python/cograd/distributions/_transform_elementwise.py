# SPDX-License-Identifier: BSD-3-Clause
"""Transforms of single elements."""

from __future__ import annotations

import math
from numbers import Number
from typing import Any

import cograd
from cograd import Tensor
from cograd.nn import functional as F

from . import constraints
from ._transform_base import Transform
from .utils import _sum_rightmost, broadcast_all


class _OfOneKind(Transform):
    """A transform without parameters: all instances of the class are equal."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    __hash__ = object.__hash__


class ExpTransform(_OfOneKind):
    """``y = exp(x)``; the inverse is the logarithm.

    From ``real`` to ``positive``, bijective and increasing; ``log_abs_det_jacobian`` is ``x``.

    Args:
        cache_size: see ``Transform``.

    Raises:
        ValueError: ``cache_size`` is not 0 or 1.
    """

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = 1

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class PowerTransform(Transform):
    """``y = x ** exponent`` of positive numbers; the inverse has the exponent ``1 / exponent``.

    From ``positive`` to ``positive``, bijective, with the sign of the exponent;
    ``log_abs_det_jacobian`` is ``log(abs(exponent * y / x))``. It is differentiable with respect to
    ``exponent``, too.

    Args:
        exponent: number or tensor, not 0, which broadcasts with the values.
        cache_size: see ``Transform``.

    Raises:
        ValueError: ``cache_size`` is not 0 or 1.
    """

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    @property
    def sign(self) -> Any:
        return self.exponent.sign()

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return PowerTransform(self.exponent, cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PowerTransform):
            return False
        return bool(self.exponent.eq(other.exponent).all())

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Any) -> Any:
        return cograd.broadcast_shapes(shape, self.exponent.shape)

    inverse_shape = forward_shape


class SigmoidTransform(_OfOneKind):
    """``y = 1 / (1 + exp(-x))``; the inverse is the log odds.

    From ``real`` to ``unit_interval``, bijective and increasing; ``log_abs_det_jacobian`` is
    ``-softplus(-x) - softplus(x)``. Results are clamped away from 0 and 1, so that the inverse is
    finite.

    Args:
        cache_size: see ``Transform``.

    Raises:
        ValueError: ``cache_size`` is not 0 or 1.
    """

    domain = constraints.real
    codomain = constraints.unit_interval
    bijective = True
    sign = 1

    def _call(self, x: Tensor) -> Tensor:
        finfo = cograd.finfo(x.dtype)
        return cograd.sigmoid(x).clamp(min=finfo.tiny, max=1.0 - finfo.eps)

    def _inverse(self, y: Tensor) -> Tensor:
        finfo = cograd.finfo(y.dtype)
        y = y.clamp(min=finfo.tiny, max=1.0 - finfo.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -F.softplus(-x) - F.softplus(x)


class SoftplusTransform(_OfOneKind):
    """``y = log(1 + exp(x))``; the inverse is ``log(exp(y) - 1)``.

    From ``real`` to ``positive``, bijective and increasing; ``log_abs_det_jacobian`` is
    ``-softplus(-x)``.

    Args:
        cache_size: see ``Transform``.

    Raises:
        ValueError: ``cache_size`` is not 0 or 1.
    """

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = 1

    def _call(self, x: Tensor) -> Tensor:
        return F.softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -F.softplus(-x)


class TanhTransform(_OfOneKind):
    """``y = tanh(x)``; the inverse is ``atanh(y)``.

    From ``real`` to ``interval(-1.0, 1.0)``, bijective and increasing; ``log_abs_det_jacobian`` is
    ``2 * (log(2) - x - softplus(-2 * x))``. Unlike ``log(1 - y ** 2)`` this does not cancel for
    large x.

    Args:
        cache_size: see ``Transform``.

    Raises:
        ValueError: ``cache_size`` is not 0 or 1.
    """

    domain = constraints.real
    codomain = constraints.interval(-1.0, 1.0)
    bijective = True
    sign = 1

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return cograd.atanh(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        # log(1 - tanh(x)^2), in a form that does not cancel for large x.
        return 2.0 * (math.log(2.0) - x - F.softplus(-2.0 * x))


class AbsTransform(_OfOneKind):
    """``y = abs(x)``; ``inv`` returns the positive one of the two inverses.

    From ``real`` to ``positive``, not bijective: ``log_abs_det_jacobian`` and ``sign`` raise
    NotImplementedError.

    Args:
        cache_size: see ``Transform``.

    Raises:
        ValueError: ``cache_size`` is not 0 or 1.
    """

    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class AffineTransform(Transform):
    """``y = loc + scale * x``; the inverse is ``(y - loc) / scale``.

    From ``real`` to ``real``, bijective, with the sign of ``scale``; ``log_abs_det_jacobian`` is
    ``log(abs(scale))``, summed over the last ``event_dim`` dims. It is differentiable with respect
    to ``loc`` and ``scale``, too.

    Args:
        loc: number or tensor, which broadcasts with the values.
        scale: number or tensor, not 0, likewise.
        event_dim: the number of dims on the right that make an event.
        cache_size: see ``Transform``.

    Raises:
        ValueError: ``cache_size`` is not 0 or 1.
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc = loc
        self.scale = scale
        self._event_dim = event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    def _region(self) -> Any:
        if self.event_dim == 0:
            return constraints.real
        return constraints.independent(constraints.real, self.event_dim)

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return self._region()

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return self._region()

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self.event_dim, cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AffineTransform):
            return False
        return _equal(self.loc, other.loc) and _equal(self.scale, other.scale)

    __hash__ = object.__hash__

    @property
    def sign(self) -> Any:
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return int(self.scale > 0) - int(self.scale < 0)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if isinstance(self.scale, Tensor):
            log_scale = self.scale.abs().log()
        else:
            log_scale = cograd.full_like(x, math.log(abs(self.scale)) if self.scale else -math.inf)
        # One term for each element of an event, also where scale broadcasts along the event.
        return _sum_rightmost(log_scale.expand(x.shape), self.event_dim)

    def forward_shape(self, shape: Any) -> Any:
        shapes = (getattr(v, "shape", ()) for v in (self.loc, self.scale))
        return cograd.broadcast_shapes(shape, *shapes)

    inverse_shape = forward_shape


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, Number) and isinstance(b, Number):
        return a == b
    return bool(cograd.as_tensor(a == b).all())
