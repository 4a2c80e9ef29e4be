# SPDX-License-Identifier: BSD-3-Clause
"""Linear algebra of the standard: products, and the extension ``linalg``."""

from __future__ import annotations

from typing import Any, NamedTuple

import cograd
from cograd import Tensor

from ._elementwise import promoted

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


class EighResult(NamedTuple):
    """The result of ``eigh``."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    """The result of ``qr``."""

    Q: Tensor
    R: Tensor


class SlogdetResult(NamedTuple):
    """The result of ``slogdet``."""

    sign: Tensor
    logabsdet: Tensor


class SVDResult(NamedTuple):
    """The result of ``svd``."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Multiplies matrices, or a matrix and a vector."""
    if x1.ndim == 0 or x2.ndim == 0:
        raise ValueError("matmul(): expected arrays with at least one axis")
    return cograd.matmul(*promoted(x1, x2))


def matrix_transpose(x: Tensor, /) -> Tensor:
    """Exchanges the last two axes."""
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose(): expected at least 2 dims, got {x.ndim}")
    return cograd.transpose(x, -2, -1)


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: Any = 2) -> Tensor:
    """Sums products over axes of both arrays."""
    x1, x2 = promoted(x1, x2)
    return cograd.tensordot(x1, x2, dims=axes)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Returns the inner product of the conjugate of ``x1`` with ``x2`` along an axis."""
    x1, x2 = promoted(x1, x2)
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(f"vecdot(): sizes {x1.shape[axis]} and {x2.shape[axis]} differ")
    if not x1.is_floating_point() and not x1.is_complex():
        return (x1.moveaxis(axis, -1) * x2.moveaxis(axis, -1)).sum(-1, dtype=x1.dtype)
    return cograd.linalg.vecdot(x1.moveaxis(axis, -1), x2.moveaxis(axis, -1))


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """Returns the Cholesky factor of positive definite matrices."""
    return cograd.linalg.cholesky(x, upper=upper)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Returns the cross product of vectors of three elements."""
    return cograd.linalg.cross(*promoted(x1, x2), dim=axis)


def det(x: Tensor, /) -> Tensor:
    """Returns determinants."""
    return cograd.linalg.det(x)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """Returns a diagonal of matrices."""
    return cograd.diagonal(x, offset, -2, -1)


def eigh(x: Tensor, /) -> EighResult:
    """Returns ascending eigenvalues, and eigenvectors of Hermitian matrices."""
    return EighResult(*cograd.linalg.eigh(x))


def eigvalsh(x: Tensor, /) -> Tensor:
    """Returns ascending eigenvalues of Hermitian matrices."""
    return cograd.linalg.eigvalsh(x)


def inv(x: Tensor, /) -> Tensor:
    """Returns inverses."""
    return cograd.linalg.inv(x)


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """Returns norms of matrices."""
    return cograd.linalg.matrix_norm(x, ord, keepdim=keepdims)


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """Returns powers of matrices, of the inverses for negative ``n``."""
    return cograd.linalg.matrix_power(x, n)


def matrix_rank(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """Counts singular values larger than ``rtol`` times the largest."""
    return cograd.linalg.matrix_rank(x, rtol=rtol)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Returns all products of elements of two vectors."""
    return cograd.outer(*promoted(x1, x2))


def pinv(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """Returns pseudo-inverses."""
    return cograd.linalg.pinv(x, rtol=rtol)


def qr(x: Tensor, /, *, mode: str = "reduced") -> QRResult:
    """Returns an orthogonal and a triangular factor."""
    return QRResult(*cograd.linalg.qr(x, mode=mode))


def slogdet(x: Tensor, /) -> SlogdetResult:
    """Returns signs and logarithms of the absolute values of determinants."""
    return SlogdetResult(*cograd.linalg.slogdet(x))


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Solves linear equations; ``x2`` is a vector if it has one axis, else matrices."""
    x1, x2 = promoted(x1, x2)
    if x2.ndim == 1:
        return cograd.linalg.solve(x1, x2.unsqueeze(-1)).squeeze(-1)
    batch = cograd.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    return cograd.linalg.solve(x1.expand(*batch, *x1.shape[-2:]), x2.expand(*batch, *x2.shape[-2:]))


def svd(x: Tensor, /, *, full_matrices: bool = True) -> SVDResult:
    """Returns the singular value decomposition."""
    return SVDResult(*cograd.linalg.svd(x, full_matrices=full_matrices))


def svdvals(x: Tensor, /) -> Tensor:
    """Returns descending singular values."""
    return cograd.linalg.svdvals(x)


def trace(x: Tensor, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """Returns the sum of a diagonal."""
    return cograd.sum(cograd.diagonal(x, offset, -2, -1), -1, dtype=dtype)


def vector_norm(x: Tensor, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Tensor:
    """Returns norms over axes."""
    if axis == ():
        return (x != 0).to(x.abs().dtype) if ord == 0 else x.abs()
    return cograd.linalg.vector_norm(x, ord, axis, keepdim=keepdims)
