# SPDX-License-Identifier: BSD-3-Clause
"""Factorizations and solvers built on them, tensorinv and tensorsolve, Vandermonde matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import cograd
from cograd import _C
from cograd._C import Tensor
from cograd._linalg_norms import stored

__all__ = [
    "householder_product",
    "ldl_factor",
    "ldl_factor_ex",
    "ldl_solve",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "tensorinv",
    "tensorsolve",
    "vander",
]

_ops = _C._ops


def lu(A: Tensor, *, pivot: bool = True, out: Any = None) -> _C._linalg_lu_result:
    """Returns P, L and U of A = P L U, for matrices (*, m, n) with k = min(m, n).

    ``P`` (*, m, m) permutes rows, ``L`` (*, m, k) has a diagonal of ones, ``U`` is (*, k, n).
    Raises RuntimeError for ``pivot=False``.
    """
    return _ops.linalg_lu(A, pivot=pivot, out=out)


def lu_factor(A: Tensor, *, pivot: bool = True, out: Any = None) -> _C._linalg_lu_factor_result:
    """Returns L and U of ``lu`` packed in one matrix, and the row exchanges, for ``lu_solve``.

    ``LU`` (*, m, n) omits L's diagonal of ones; ``pivots`` is int32 (*, min(m, n)): row i was
    exchanged with row pivots[i], counted from 1. Raises LinAlgError if U has a zero on its
    diagonal.
    """
    return _ops.linalg_lu_factor(A, pivot=pivot, out=out)


def lu_factor_ex(
    A: Tensor, *, pivot: bool = True, check_errors: bool = False, out: Any = None
) -> _C._linalg_lu_factor_ex_result:
    """Returns ``lu_factor`` and int32 ``info`` (*): 0, or the index from 1 of U's zero pivot."""
    return _ops.linalg_lu_factor_ex(A, pivot=pivot, check_errors=check_errors, out=out)


def lu_solve(
    LU: Tensor,
    pivots: Tensor,
    B: Tensor,
    *,
    left: bool = True,
    adjoint: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Solves A X = B for X (*, n, k) given ``lu_factor(A)``; X A = B unless ``left``.

    With ``adjoint``, A^H replaces A. Batch dims broadcast. Raises RuntimeError for pivots that are
    not from ``lu_factor``.
    """
    return _ops.linalg_lu_solve(LU, pivots, B, left=left, adjoint=adjoint, out=out)


def ldl_factor(
    A: Tensor, *, hermitian: bool = False, out: Any = None
) -> _C._linalg_ldl_factor_result:
    """Factors A = L D L^T, or L D L^H if ``hermitian``, in the format of LAPACK's sytrf (hetrf).

    Reads the lower triangle of A (*, n, n). Returns ``LD`` (*, n, n) and ``pivots`` int32 (*, n)
    for ``ldl_solve``; not differentiable. Raises LinAlgError for a singular matrix.
    """
    return _ops.linalg_ldl_factor(A, hermitian=hermitian, out=out)


def ldl_factor_ex(
    A: Tensor, *, hermitian: bool = False, check_errors: bool = False, out: Any = None
) -> _C._linalg_ldl_factor_ex_result:
    """Returns ``ldl_factor`` and int32 ``info`` (*): 0, or the index from 1 of D's zero pivot."""
    return _ops.linalg_ldl_factor_ex(A, hermitian=hermitian, check_errors=check_errors, out=out)


def ldl_solve(
    LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False, out: Tensor | None = None
) -> Tensor:
    """Solves A X = B for X (*, n, k) given ``ldl_factor(A)``; differentiable only in ``B``."""
    return _ops.linalg_ldl_solve(LD, pivots, B, hermitian=hermitian, out=out)


def householder_product(A: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Returns the first n columns of H_1 ... H_k, where H_i = I - tau_i v_i v_i^H.

    v_i is stored below the diagonal of column i of A (*, m, n), its leading zeros and one are
    implicit; ``tau`` is (*, k), k <= n <= m, as ``geqrf`` returns both.
    """
    return _ops.linalg_householder_product(A, tau, out=out)


def tensorinv(A: Tensor, ind: int = 2, *, out: Tensor | None = None) -> Tensor:
    """Returns the inverse of A as a map from its last dims to its first ``ind``.

    Both groups of dims must have the same product of sizes; the result has the last dims first.
    """
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    first, last = A.shape[:ind], A.shape[ind:]
    n, m = math.prod(first), math.prod(last)
    if n != m:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == "
            f"prod(self.shape[:ind]), but got {m} != {n}"
        )
    inverse = _ops.linalg_inv(A.reshape(n, n)).reshape(*last, *first)
    return stored(inverse, out)


def tensorsolve(
    A: Tensor, B: Tensor, dims: Sequence[int] | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Solves tensordot(A, X, X.ndim) = B for X; ``dims`` of A are moved to its end first."""
    if dims is not None:
        wanted = [d % A.dim() for d in dims]
        rest = [d for d in range(A.dim()) if d not in wanted]
        A = A.permute(*rest, *wanted)
    shape = A.shape[B.dim() :]
    n, m = math.prod(A.shape[: B.dim()]), math.prod(shape)
    if n != m or n != B.numel():
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), but got {m} != {n}"
        )
    x = _ops.linalg_solve(A.reshape(n, n), B.reshape(-1)).reshape(shape)
    return stored(x, out)


def vander(x: Tensor, N: int | None = None) -> Tensor:
    """Returns matrices (*, n, N) of ascending powers of the vectors x (*, n); N is n by default."""
    if x.dtype is _C.bool:
        raise RuntimeError(
            "linalg.vander supports floating point, complex, and integer tensors, but got Bool"
        )
    count = (x.shape[-1] if x.dim() else 1) if N is None else N
    if count <= 1:
        raise RuntimeError("N must be greater than 1.")
    powers = x.unsqueeze(-1).expand(*x.shape, count - 1)
    ones = x.new_ones(()).expand(*x.shape, 1)
    table: Tensor = cograd.cat((ones, powers), -1).cumprod(-1)
    return table
