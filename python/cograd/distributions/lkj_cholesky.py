# SPDX-License-Identifier: BSD-3-Clause
"""The LKJ distribution of Cholesky factors of correlation matrices."""

from __future__ import annotations

import math
from typing import Any

import cograd
from cograd import Tensor

from . import constraints
from .beta import Beta
from .distribution import Distribution
from .utils import broadcast_all
from .wishart import _mvlgamma

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """Cholesky factors L of correlation matrices of density ``det(L L^T) ** (concentration - 1)``.

    A correlation has mean 0 and variance ``1 / (2 * concentration + dim - 1)``; ``mean`` and
    ``variance`` of the factors have no formula and raise NotImplementedError. The batch shape is
    that of ``concentration``; the event shape is ``(dim, dim)``. There is no ``rsample``;
    ``log_prob`` is differentiable with respect to ``concentration``. Sampling uses the onion method
    (Lewandowski, Kurowicka and Joe 2009).

    Args:
        dim: an int of at least 2: the matrices are ``dim`` x ``dim``.
        concentration: positive number or tensor; 1 is uniform over correlation matrices, larger
            values are nearer to the identity.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: ``dim`` is below 2, or ``concentration`` is not positive.
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(
        self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            raise ValueError(
                f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            )
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        # The squared norm of row i >= 1 left of the diagonal is Beta(i / 2, eta + (n - 1 - i) / 2).
        like = self.concentration
        offset = cograd.arange(-1, dim - 1, dtype=like.dtype, device=like.device).clamp(min=0)
        rest = (self.concentration + 0.5 * (dim - 2)).unsqueeze(-1) - 0.5 * offset
        length = (0.5 * offset + 0.5).expand(rest.shape)
        self._beta = Beta(length, rest, validate_args=validate_args)
        super().__init__(self.concentration.size(), (dim, dim), validate_args)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with cograd.no_grad():
            lengths = self._beta.sample(sample_shape).unsqueeze(-1)
            shape, dtype = self._extended_shape(sample_shape), lengths.dtype
            directions = cograd.randn(shape, dtype=dtype, device=lengths.device).tril(-1)
            norm = directions.norm(dim=-1, keepdim=True)
            norm = cograd.where(norm > 0, norm, cograd.ones_like(norm))  # the first row is zero
            below = lengths.sqrt() * directions / norm
            rest = (1 - below.square().sum(-1)).clamp(min=cograd.finfo(dtype).tiny)
            return below + rest.sqrt().diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        diagonal = value.diagonal(dim1=-2, dim2=-1)[..., 1:]
        like = self.concentration
        order = cograd.arange(2, self.dim + 1, dtype=like.dtype, device=like.device)
        power = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        density = (power * diagonal.log()).sum(-1)
        n = self.dim - 1
        alpha = self.concentration + 0.5 * n
        scale = 0.5 * n * math.log(math.pi) + _mvlgamma(alpha - 0.5, n) - n * cograd.lgamma(alpha)
        return density - scale
