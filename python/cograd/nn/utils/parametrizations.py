# SPDX-License-Identifier: BSD-3-Clause
"""Predefined parametrizations: orthogonal, spectral_norm, weight_norm."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor

from .. import functional as F
from ..modules.module import Module
from . import parametrize
from ._norms import power_iteration, writing

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def _is_orthogonal(q: Tensor) -> bool:
    identity = cograd.eye(q.shape[-1], dtype=q.dtype, device=q.device)
    eps = 10 * q.shape[-2] * cograd.finfo(q.dtype).eps
    return cograd.allclose(q.mH @ q, identity.expand(*q.shape[:-2], *identity.shape), atol=eps)


def _make_orthogonal(a: Tensor) -> Tensor:
    """Returns the Q of a QR decomposition whose R has a positive diagonal."""
    q, r = cograd.linalg.qr(a)
    return q * r.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


def _reflections(a: Tensor) -> Tensor:
    """Returns the first columns of a product of reflections I - 2 v v^H / |v|^2.

    Each v is a column of ``a`` below the diagonal, with a one on the diagonal.
    """
    n, k = a.shape[-2:]
    below = a.tril(-1)
    vectors = below + cograd.eye(n, k, dtype=a.dtype, device=a.device)
    scale = 2.0 / (1.0 + (below * below.conj()).sum(-2))
    q = cograd.eye(n, k, dtype=a.dtype, device=a.device).expand(a.shape)
    for i in range(k - 1, -1, -1):
        v = vectors[..., i : i + 1]
        q = q - (scale[..., i : i + 1].unsqueeze(-1) * v) @ (v.mH @ q)
    return q


class _Orthogonal(Module):
    base: Tensor

    def __init__(self, weight: Tensor, orthogonal_map: str, *, use_trivialization: bool) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, x: Tensor) -> Tensor:
        n, k = x.shape[-2:]
        wide = n < k
        if wide:
            x, n, k = x.mT, k, n
        if self.orthogonal_map == "householder":
            signs = x.diagonal(dim1=-2, dim2=-1).sign().detach()
            q = _reflections(x) * signs.unsqueeze(-2)
        else:
            x = x.tril()
            if n != k:
                x = cograd.cat([x, x.new_zeros((*x.shape[:-2], n, n - k))], -1)
            skew = x - x.mH
            if self.orthogonal_map == "matrix_exp":
                q = cograd.matrix_exp(skew)
            else:
                identity = cograd.eye(n, dtype=x.dtype, device=x.device)
                q = cograd.linalg.solve(identity - 0.5 * skew, identity + 0.5 * skew)
            if n != k:
                q = q[..., :k]
        if "base" in self._buffers and self.base is not None:
            q = self.base @ q
        return q.mT if wide else q

    def right_inverse(self, q: Tensor) -> Tensor:
        if tuple(q.shape) != tuple(self.shape):
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of "
                f"shape {q.shape}."
            )
        if "base" not in self._buffers:
            raise NotImplementedError(
                "It is not possible to assign to an orthogonal parametrization when "
                "use_trivialization=False."
            )
        start = q
        n, k = q.shape[-2:]
        wide = n < k
        if wide:
            q, n, k = q.mT, k, n
        if n == k:
            self.base = q.clone() if _is_orthogonal(q) else _make_orthogonal(q)
        else:
            more = cograd.randn((*q.shape[:-2], n, n - k), dtype=q.dtype, device=q.device)
            self.base = _make_orthogonal(cograd.cat([q, more], -1))
        # Zeros below a diagonal of -1 make every map return the identity.
        zero = cograd.zeros_like(start)
        zero.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return zero


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Keeps a matrix, or each matrix of a batch, orthogonal (or its columns or rows orthonormal).

    Args:
        orthogonal_map: 'matrix_exp' or 'cayley' of a skew-symmetric matrix, or 'householder',
            a product of reflections. The default is 'matrix_exp' for square and complex matrices,
            else 'householder'.
        use_trivialization: whether to multiply by a fixed orthogonal matrix, so that the tensor
            starts as near as possible to its old value and can be assigned.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions."
        )
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". '
            f"Got: {orthogonal_map}"
        )
    made = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, made, unsafe=True)


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_v * (weight_g / cograd.norm_except_dim(weight_v, 2, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return cograd.norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int = 0) -> Module:
    """Makes a weight g v / |v|, with the norm over all dims but ``dim``, or over all if -1 or None.

    The magnitude ``original0`` and the direction ``original1`` are learned separately.
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def take_old_names(state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
        old = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(take_old_names)
    return module


class _SpectralNorm(Module):
    _u: Tensor
    _v: Tensor

    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{weight.ndim}, "
                f"{weight.ndim - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % weight.ndim
        self.eps = eps
        if weight.ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._matrix(weight.detach())
            rows, cols = matrix.shape
            u, v = matrix.new_empty(rows).normal_(0, 1), matrix.new_empty(cols).normal_(0, 1)
            self.register_buffer("_u", F.normalize(u, dim=0, eps=eps))
            self.register_buffer("_v", F.normalize(v, dim=0, eps=eps))
            self._iterate(matrix, 15)

    def _matrix(self, weight: Tensor) -> Tensor:
        return weight.movedim(self.dim, 0).flatten(1)

    def _iterate(self, matrix: Tensor, times: int) -> None:
        with writing(self._u, self._v), cograd.no_grad():
            u, v = power_iteration(matrix.detach(), self._u, self._v, times, self.eps)
            self._u.copy_(u)
            self._v.copy_(v)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()
        return weight / cograd.vdot(u, cograd.mv(matrix, v))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divides a weight by its largest singular value, which a power iteration estimates.

    Each training call continues it by ``n_power_iterations`` iterations. ``dim`` is the dim of the
    outputs: 1 for transposed convolutions, else 0.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if dim is None:
        dim = 1 if type(module).__name__.startswith("ConvTranspose") else 0
    made = _SpectralNorm(weight, n_power_iterations, dim, eps)
    return parametrize.register_parametrization(module, name, made)
