# SPDX-License-Identifier: BSD-3-Clause
"""The Wishart distribution."""

from __future__ import annotations

import math
from numbers import Number
from typing import Any

import cograd
from cograd import Tensor

from . import constraints
from .chi2 import Chi2
from .exp_family import ExponentialFamily
from .multivariate_normal import _MatrixParameter
from .utils import all_samples, holds, vec_to_tril_matrix

__all__ = ["Wishart"]


def _lowered(a: Tensor, p: int) -> Tensor:
    """Returns ``a``, ``a - 1/2``, ... in a new last dim of size p."""
    return a.unsqueeze(-1) - 0.5 * cograd.arange(p, dtype=a.dtype, device=a.device)


def _mvlgamma(a: Tensor, p: int) -> Tensor:
    """Returns the logarithm of the multivariate gamma function of dimension p."""
    return cograd.lgamma(_lowered(a, p)).sum(-1) + 0.25 * p * (p - 1) * math.log(math.pi)


def _mvdigamma(a: Tensor, p: int) -> Tensor:
    """Returns the derivative of ``_mvlgamma`` with respect to a."""
    return cograd.digamma(_lowered(a, p)).sum(-1)


class Wishart(_MatrixParameter, ExponentialFamily):
    """The distribution of a sum of ``df`` products x x^T of normal vectors x of mean 0.

    With ``V = covariance_matrix`` and p its size, the density is
    ``det(x) ** ((df - p - 1) / 2) * exp(-trace(inv(V) @ x) / 2) / c`` on positive definite
    matrices, where ``c = 2 ** (df * p / 2) * det(V) ** (df / 2) * mvgamma(df / 2, p)`` contains the
    multivariate gamma function. Each element has mean ``df * V`` and variance
    ``df * (V ** 2 + outer(diag(V), diag(V)))``. The batch shape is what ``df`` and
    the matrix without its last two dims broadcast to; the event shape is ``(p, p)``. ``rsample`` is
    differentiable with respect to ``df`` and the matrix that is given. Sampling uses Bartlett's
    decomposition.

    Args:
        df: number or tensor greater than p - 1: the degrees of freedom.
        covariance_matrix: ``(..., p, p)``; give exactly one of the three.
        precision_matrix: the inverse of the covariance.
        scale_tril: the lower triangular Cholesky factor of the covariance.
        validate_args: see ``Distribution``.

    Raises:
        AssertionError: not exactly one matrix is given.
        ValueError: ``df`` is too small, dims are missing, or a parameter is out of its range.
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self,
        df: Any,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        df_shape = () if isinstance(df, Number) else df.shape
        batch = self._set_matrix(
            covariance_matrix, precision_matrix, scale_tril, df_shape, AssertionError
        )
        matrices = (scale_tril, covariance_matrix, precision_matrix)
        (given,) = (m for m in matrices if m is not None)
        event = given.shape[-2:]
        df = (
            cograd.tensor(df, dtype=given.dtype, device=given.device)
            if isinstance(df, Number)
            else df
        )
        self.df = df.expand(batch)
        if not holds(self.df > event[-1] - 1):
            raise ValueError(
                f"Value of df={all_samples(df)} expected to be greater than ndim - 1 = "
                f"{event[-1] - 1}."
            )
        super().__init__(batch, event, validate_args=validate_args)
        self._set_factor(covariance_matrix, precision_matrix, scale_tril)
        steps = cograd.arange(event[-1], dtype=given.dtype, device=given.device)
        self._dist_chi2 = Chi2(df=self.df.unsqueeze(-1) - steps, validate_args=False)

    @property
    def arg_constraints(self) -> dict[str, Any]:
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self._event_shape[-1] - 1),
        }

    def _matrices(self, factor: Tensor) -> Tensor:
        return factor.view((*self._batch_shape, 1, 1))

    @property
    def mean(self) -> Tensor:
        return self._matrices(self.df) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self.df - self._event_shape[-1] - 1
        factor = cograd.where(factor <= 0, cograd.nan, factor)
        return self._matrices(factor) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        V = self.covariance_matrix
        diagonal = V.diagonal(dim1=-2, dim2=-1)
        outer = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self._matrices(self.df) * (V.square() + outer)

    def rsample(self, sample_shape: Any = (), max_try_correction: int | None = None) -> Tensor:
        """Samples by Bartlett's decomposition, which needs no ``max_try_correction``."""
        shape = self._extended_shape(sample_shape)
        diagonal = self._dist_chi2.rsample(sample_shape).sqrt()
        p = shape[-1]
        below = cograd.randn(
            (*shape[:-2], p * (p - 1) // 2), dtype=diagonal.dtype, device=diagonal.device
        )
        whole = vec_to_tril_matrix(below, diag=-1) + diagonal.diag_embed()
        factor = self._unbroadcasted_scale_tril @ whole
        return factor @ factor.mT

    def _half_log_det(self) -> Tensor:
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        nu, p = self.df, self._event_shape[-1]
        factor = self._unbroadcasted_scale_tril
        solved = cograd.cholesky_solve(value, factor.expand(value.shape))
        trace = solved.diagonal(dim1=-2, dim2=-1).sum(-1)
        return (
            -nu * (0.5 * p * math.log(2) + self._half_log_det())
            - _mvlgamma(nu / 2, p)
            + (nu - p - 1) / 2 * cograd.linalg.slogdet(value).logabsdet
            - trace / 2
        )

    def entropy(self) -> Tensor:
        nu, p = self.df, self._event_shape[-1]
        return (
            (p + 1) * (0.5 * p * math.log(2) + self._half_log_det())
            + _mvlgamma(nu / 2, p)
            - (nu - p - 1) / 2 * _mvdigamma(nu / 2, p)
            + nu * p / 2
        )

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        p = self._event_shape[-1]
        nu_half = y + (p + 1) / 2
        log_det = cograd.linalg.slogdet(-2 * x).logabsdet
        return nu_half * (p * math.log(2) - log_det) + _mvlgamma(nu_half, p)
