# SPDX-License-Identifier: BSD-3-Clause
"""Transforms of vectors and matrices, and of the parts of a value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import cograd
from cograd import Size, Tensor
from cograd.nn import functional as F

from . import constraints
from ._transform_base import Transform
from ._transform_elementwise import _OfOneKind
from .distribution import Distribution
from .utils import _sum_rightmost, tril_matrix_to_vec, vec_to_tril_matrix


def _at_least_vector(shape: Any) -> Any:
    if len(shape) < 1:
        raise ValueError("Too few dimensions on input")
    return shape


class SoftmaxTransform(_OfOneKind):
    """``y = softmax(x)`` over the last dim; ``inv`` returns the logarithms.

    From ``real_vector`` to ``simplex``. It is not bijective: ``log_abs_det_jacobian`` raises
    NotImplementedError. It suits optimisation; ``StickBreakingTransform`` is bijective.

    Args:
        cache_size: see ``Transform``.

    Raises:
        ValueError: ``cache_size`` is not 0 or 1.
    """

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return F.softmax(x, dim=-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Any) -> Any:
        return _at_least_vector(shape)

    inverse_shape = forward_shape


class StickBreakingTransform(_OfOneKind):
    """Maps n - 1 real numbers to n positive numbers whose sum is 1.

    Each number determines which share of the rest of a stick is broken off: with the shares
    ``s = sigmoid(x - log(m))``, where m counts down from n - 1 to 1,
    ``y[i] = s[i] * prod(1 - s[:i])``, and the last element is the rest. Zeros give equal parts.
    From ``real_vector`` to ``simplex``, bijective; shapes change from ``(..., n - 1)`` to
    ``(..., n)``.

    Args:
        cache_size: see ``Transform``.

    Raises:
        ValueError: ``cache_size`` is not 0 or 1.
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    @staticmethod
    def _centred(x: Tensor) -> Tensor:
        n = x.shape[-1]
        return x - cograd.arange(n, 0, -1, dtype=x.dtype, device=x.device).log()

    def _call(self, x: Tensor) -> Tensor:
        shares = cograd.sigmoid(self._centred(x))
        finfo = cograd.finfo(shares.dtype)  # keep shares off 0 and 1: all need logarithms
        shares = shares.clamp(min=finfo.tiny, max=1 - finfo.eps)
        rest = (1 - shares).cumprod(-1)
        return F.pad(shares, (0, 1), value=1.0) * F.pad(rest, (1, 0), value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        broken = y[..., :-1]
        rest = (1 - broken.cumsum(-1)).clamp(min=cograd.finfo(y.dtype).tiny)
        n = broken.shape[-1]
        return (
            broken.log()
            - rest.log()
            + cograd.arange(n, 0, -1, dtype=y.dtype, device=y.device).log()
        )

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = self._centred(x)
        return (-x + F.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        _at_least_vector(shape)
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Any) -> Any:
        _at_least_vector(shape)
        return Size((*shape[:-1], shape[-1] - 1))


class LowerCholeskyTransform(_OfOneKind):
    """Maps a square matrix to a lower triangular one with the ``exp`` of its diagonal.

    From ``independent(real, 2)`` to ``lower_cholesky``; the part above the diagonal has no effect
    and gets no gradient. It is not bijective: ``log_abs_det_jacobian`` raises NotImplementedError.

    Args:
        cache_size: see ``Transform``.

    Raises:
        ValueError: ``cache_size`` is not 0 or 1.
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(_OfOneKind):
    """Maps a square matrix to L L^T, where L is its ``LowerCholeskyTransform``.

    From ``independent(real, 2)`` to ``positive_definite``; the inverse uses the Cholesky factor. It
    is not bijective: ``log_abs_det_jacobian`` raises NotImplementedError.

    Args:
        cache_size: see ``Transform``.

    Raises:
        ValueError: ``cache_size`` is not 0 or 1.
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(cograd.linalg.cholesky(y))


class CorrCholeskyTransform(_OfOneKind):
    """Maps n (n - 1) / 2 real numbers to the Cholesky factor of an n x n correlation matrix.

    r = tanh(x) fills the part below the diagonal row by row. The element in row i, column j is r
    times the root of what the squares left of it leave of 1; the diagonal is the rest. Zeros give
    the identity. From ``real_vector`` to ``corr_cholesky``, bijective.

    Args:
        cache_size: see ``Transform``.

    Raises:
        ValueError: the number of elements is not n (n - 1) / 2 for any n.
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        r = x.tanh()
        eps = cograd.finfo(r.dtype).eps
        r = vec_to_tril_matrix(r.clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - r.square()).sqrt().cumprod(-1)
        r = r + cograd.eye(r.shape[-1], dtype=r.dtype, device=r.device)
        return r * F.pad(left[..., :-1], (1, 0), value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        # 1 minus the sum of squares up to each column, shifted by one column.
        left = 1 - y.square().cumsum(-1)
        left = F.pad(left[..., :-1], (1, 0), value=1.0)
        entries = tril_matrix_to_vec(y, diag=-1)
        r = entries / tril_matrix_to_vec(left, diag=-1).sqrt()
        return (r.log1p() - (-r).log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        left = 1 - y.square().cumsum(-1)
        rows = tril_matrix_to_vec(left, diag=-2).log().sum(-1) / 2
        slopes = (2 * (F.softplus(2 * x) - x - math.log(2.0))).sum(-1)
        return rows - slopes

    def forward_shape(self, shape: Any) -> Any:
        _at_least_vector(shape)
        count = shape[-1]
        n = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != count:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return Size((*shape[:-1], n, n))

    def inverse_shape(self, shape: Any) -> Any:
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        n = shape[-1]
        return Size((*shape[:-2], n * (n - 1) // 2))


def _check_parts(tseq: Sequence[Any], cache_size: int) -> list[Transform]:
    if not all(isinstance(t, Transform) for t in tseq):
        kinds = sorted({type(t).__name__ for t in tseq})
        raise TypeError(f"tseq: expected a sequence of Transforms, got elements of {kinds}")
    return [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)


class CatTransform(Transform):
    """Applies one transform to each of the parts, of given ``lengths``, along ``dim``.

    Domain and codomain are the ``cat`` of those of the parts; the transform is bijective if all
    parts are. ``log_abs_det_jacobian`` concatenates the terms of the parts along ``dim``.

    Args:
        tseq: the transforms.
        dim: the dim along which values are divided.
        lengths: the sizes of the parts along ``dim``; 1 each by default.
        cache_size: see ``Transform``.

    Raises:
        TypeError: an item of ``tseq`` is not a transform.
        ValueError: the number of ``lengths`` does not fit, or a value has another size along
            ``dim``.
    """

    transforms: list[Transform]

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        self.transforms = _check_parts(tseq, cache_size)
        super().__init__(cache_size=cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise ValueError(f"got {len(self.lengths)} lengths for {len(tseq)} transforms")
        self.dim = dim

    @property
    def event_dim(self) -> int:
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _parts(self, value: Tensor) -> list[Tensor]:
        dim = self.dim
        if not -value.dim() <= dim < value.dim() or value.size(dim) != self.length:
            raise ValueError(
                f"CatTransform: expected {self.length} elements along dim {dim} of a value, got "
                f"one of shape {value.size()}"
            )
        starts = [sum(self.lengths[:i]) for i in range(len(self.lengths))]
        return [value.narrow(dim, start, n) for start, n in zip(starts, self.lengths)]

    def _call(self, x: Tensor) -> Tensor:
        parts = [t(v) for t, v in zip(self.transforms, self._parts(x))]
        return cograd.cat(parts, dim=self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        parts = [t.inv(v) for t, v in zip(self.transforms, self._parts(y))]
        return cograd.cat(parts, dim=self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        terms: list[Any] = []
        for t, before, after in zip(self.transforms, self._parts(x), self._parts(y)):
            term = t.log_abs_det_jacobian(before, after)
            terms.append(_sum_rightmost(term, self.event_dim - t.event_dim))
        dim = self.dim if self.dim < 0 else self.dim - x.dim()
        dim += self.event_dim
        return cograd.cat(terms, dim=dim) if dim < 0 else sum(terms)

    @property
    def bijective(self) -> bool:
        return all(t.bijective for t in self.transforms)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(Transform):
    """Applies one transform to each slice along ``dim``.

    Domain and codomain are the ``stack`` of those of the slices; the transform is bijective if all
    slices are. ``log_abs_det_jacobian`` stacks the terms of the slices along ``dim``.

    Args:
        tseq: the transforms.
        dim: the dim along which values are divided.
        cache_size: see ``Transform``.

    Raises:
        TypeError: an item of ``tseq`` is not a transform.
        ValueError: a value has another number of slices.
    """

    transforms: list[Transform]

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        self.transforms = _check_parts(tseq, cache_size)
        super().__init__(cache_size=cache_size)
        self.dim = dim

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return StackTransform(self.transforms, self.dim, cache_size)

    def _slices(self, value: Tensor) -> list[Tensor]:
        dim, n = self.dim, len(self.transforms)
        if not -value.dim() <= dim < value.dim() or value.size(dim) != n:
            raise ValueError(
                f"StackTransform: expected {n} slices along dim {dim} of a value, got one of "
                f"shape {value.size()}"
            )
        return [value.select(dim, i) for i in range(n)]

    def _call(self, x: Tensor) -> Tensor:
        return cograd.stack([t(v) for t, v in zip(self.transforms, self._slices(x))], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        return cograd.stack([t.inv(v) for t, v in zip(self.transforms, self._slices(y))], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        slices = zip(self.transforms, self._slices(x), self._slices(y))
        return cograd.stack([t.log_abs_det_jacobian(a, b) for t, a, b in slices], self.dim)

    @property
    def bijective(self) -> bool:
        return all(t.bijective for t in self.transforms)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.stack([t.codomain for t in self.transforms], self.dim)


class CumulativeDistributionTransform(Transform):
    """``y = distribution.cdf(x)``; the inverse is ``icdf``.

    From the distribution's support to ``unit_interval``, bijective and increasing;
    ``log_abs_det_jacobian`` is ``distribution.log_prob(x)``. Values that follow the distribution
    become uniform.

    Args:
        distribution: a distribution that has ``cdf`` and, for the inverse, ``icdf``.
        cache_size: see ``Transform``.

    Raises:
        ValueError: ``cache_size`` is not 0 or 1.
    """

    bijective = True
    codomain = constraints.unit_interval
    sign = 1

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:
        return self.distribution.support

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size=cache_size)
