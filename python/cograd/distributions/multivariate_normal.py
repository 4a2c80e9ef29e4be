# SPDX-License-Identifier: BSD-3-Clause
"""The multivariate normal distribution."""

from __future__ import annotations

import math
from typing import Any

import cograd
from cograd import Tensor

from . import constraints
from .distribution import Distribution
from .utils import _standard_normal, lazy_property

__all__ = ["MultivariateNormal"]


def _batch_mv(bmat: Tensor, bvec: Tensor) -> Tensor:
    """Multiplies matrices by vectors; a single matrix is multiplied by all vectors at once."""
    if bmat.dim() == 2:
        return bvec @ bmat.mT
    return (bmat @ bvec.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(bL: Tensor, bx: Tensor) -> Tensor:
    """Returns ``x^T (L L^T)^-1 x``; additional leading dims of x become columns of one solve."""
    n = bL.dim() - 2
    shape = cograd.broadcast_shapes(bx.shape[:-1], bL.shape[:-2])
    cut = len(shape) - n
    columns = bx.expand((*shape, bx.shape[-1]))
    flat = columns.reshape((cograd.Size(shape[:cut]).numel(), *shape[cut:], bx.shape[-1]))
    solved = cograd.linalg.solve_triangular(bL, flat.movedim(0, -1), upper=False)
    return solved.square().sum(-2).movedim(-1, 0).reshape(shape)


def _precision_to_scale_tril(P: Tensor) -> Tensor:
    """Returns the Cholesky factor of the inverse of P, from that of P in reversed order."""
    reversed_factor = cograd.linalg.cholesky(P.flip((-2, -1)))
    inverse = reversed_factor.flip((-2, -1)).mT
    eye = cograd.eye(P.shape[-1], dtype=P.dtype, device=P.device)
    return cograd.linalg.solve_triangular(inverse, eye.expand(P.shape), upper=False)


class _MatrixParameter(Distribution):
    """Base class: a covariance given by itself, its inverse or its Cholesky factor."""

    _unbatched: tuple[str, ...] = ("_unbroadcasted_scale_tril",)
    _unbroadcasted_scale_tril: Tensor

    def _set_matrix(
        self, covariance_matrix: Any, precision_matrix: Any, scale_tril: Any, batch: Any, least: Any
    ) -> Any:
        """Stores the given matrix, broadcast with ``batch``; returns the batch shape."""
        given = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        known = [(name, matrix) for name, matrix in given.items() if matrix is not None]
        if len(known) != 1:
            raise least(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be "
                "specified."
            )
        name, matrix = known[0]
        if matrix.dim() < 2:
            raise ValueError(
                f"{name} must be at least two-dimensional, with optional leading batch dimensions"
            )
        batch = cograd.broadcast_shapes(matrix.shape[:-2], batch)
        setattr(self, name, matrix.expand((*batch, *matrix.shape[-2:])))
        return batch

    def _set_factor(self, covariance_matrix: Any, precision_matrix: Any, scale_tril: Any) -> None:
        """Computes the Cholesky factor from the given, validated matrix."""
        if scale_tril is not None:
            self._unbroadcasted_scale_tril = scale_tril
        elif covariance_matrix is not None:
            self._unbroadcasted_scale_tril = cograd.linalg.cholesky(covariance_matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(precision_matrix)

    @lazy_property
    def scale_tril(self) -> Tensor:
        factor = self._unbroadcasted_scale_tril
        return factor.expand((*self._batch_shape, *factor.shape[-2:]))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        factor = self._unbroadcasted_scale_tril
        return (factor @ factor.mT).expand((*self._batch_shape, *factor.shape[-2:]))

    @lazy_property
    def precision_matrix(self) -> Tensor:
        factor = self._unbroadcasted_scale_tril
        return cograd.cholesky_inverse(factor).expand((*self._batch_shape, *factor.shape[-2:]))


class MultivariateNormal(_MatrixParameter):
    """Normal vectors with mean ``loc`` and a covariance, a precision or a Cholesky factor.

    With ``S = covariance_matrix`` the density is
    ``exp(-(x - loc) @ inv(S) @ (x - loc) / 2) / sqrt(det(2 * pi * S))`` on real vectors, with mean
    ``loc`` and variance ``diag(S)``. The batch shape is what the parameters without these dims
    broadcast to; the event shape is ``(d,)``. ``rsample`` is differentiable with respect to ``loc``
    and the matrix that is given.

    Args:
        loc: means, ``(..., d)``.
        covariance_matrix: positive definite, ``(..., d, d)``; give exactly one of the three.
        precision_matrix: the inverse of the covariance.
        scale_tril: the lower triangular Cholesky factor of the covariance; the cheapest to use.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: not exactly one matrix is given, dims are missing, or a parameter is out of its
            range.
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        batch = self._set_matrix(
            covariance_matrix, precision_matrix, scale_tril, loc.shape[:-1], ValueError
        )
        self.loc = loc.expand((*batch, -1))
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)
        self._set_factor(covariance_matrix, precision_matrix, scale_tril)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        squares = self._unbroadcasted_scale_tril.square().sum(-1)
        return squares.expand((*self._batch_shape, *self._event_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        z = _standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, z)

    def _half_log_det(self) -> Tensor:
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        distance = _batch_mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        constant = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + distance) - self._half_log_det()

    def entropy(self) -> Tensor:
        constant = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        return (constant + self._half_log_det()).expand(self._batch_shape)
