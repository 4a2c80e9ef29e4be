# SPDX-License-Identifier: BSD-3-Clause
"""Factors of matrices and what is solved with them, tensors seen as matrices, Vandermonde."""

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
    """P, L and U of A = P L U, for matrices (*, m, n) with k = min(m, n).

    ``P`` (*, m, m) exchanges rows, ``L`` (*, m, k) has a diagonal of ones, ``U`` is (*, k, n).
    Raises RuntimeError for ``pivot=False``.
    """
    return _ops.linalg_lu(A, pivot=pivot, out=out)


def lu_factor(A: Tensor, *, pivot: bool = True, out: Any = None) -> _C._linalg_lu_factor_result:
    """L and U of ``lu`` in one matrix, and the rows exchanged, for ``lu_solve``.

    ``LU`` (*, m, n) leaves L's diagonal of ones out; ``pivots`` is int32 (*, min(m, n)): row i was
    exchanged with row pivots[i], counted from 1. Raises LinAlgError if U has a zero on its
    diagonal.
    """
    return _ops.linalg_lu_factor(A, pivot=pivot, out=out)


def lu_factor_ex(
    A: Tensor, *, pivot: bool = True, check_errors: bool = False, out: Any = None
) -> _C._linalg_lu_factor_ex_result:
    """``lu_factor`` and int32 ``info`` (*): 0, or which element of U's diagonal is zero."""
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
    """X (*, n, k) of A X = B from ``lu_factor(A)``; of X A = B unless ``left``.

    ``adjoint``: A^H stands for A. Batch dims broadcast. Raises RuntimeError for pivots that no
    ``lu_factor`` returned.
    """
    return _ops.linalg_lu_solve(LU, pivots, B, left=left, adjoint=adjoint, out=out)


def ldl_factor(
    A: Tensor, *, hermitian: bool = False, out: Any = None
) -> _C._linalg_ldl_factor_result:
    """Factors of A = L D L^T, or L D L^H if ``hermitian``, as LAPACK's sytrf (hetrf) has them.

    Reads the lower triangle of A (*, n, n). Returns ``LD`` (*, n, n) and ``pivots`` int32 (*, n)
    for ``ldl_solve``; not differentiable. Raises LinAlgError for a singular matrix.
    """
    return _ops.linalg_ldl_factor(A, hermitian=hermitian, out=out)


def ldl_factor_ex(
    A: Tensor, *, hermitian: bool = False, check_errors: bool = False, out: Any = None
) -> _C._linalg_ldl_factor_ex_result:
    """``ldl_factor`` and int32 ``info`` (*): 0, or which element of D's diagonal is zero."""
    return _ops.linalg_ldl_factor_ex(A, hermitian=hermitian, check_errors=check_errors, out=out)


def ldl_solve(
    LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False, out: Tensor | None = None
) -> Tensor:
    """X (*, n, k) of A X = B from ``ldl_factor(A)``; differentiable by ``B`` alone."""
    return _ops.linalg_ldl_solve(LD, pivots, B, hermitian=hermitian, out=out)


def householder_product(A: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The first n columns of H_1 ... H_k, H_i = I - tau_i v_i v_i^H.

    v_i is below the diagonal of column i of A (*, m, n), after zeros and a one; ``tau`` is (*, k),
    k <= n <= m, as ``geqrf`` returns both.
    """
    return _ops.linalg_householder_product(A, tau, out=out)


def tensorinv(A: Tensor, ind: int = 2, *, out: Tensor | None = None) -> Tensor:
    """The inverse of A as a map from its last dims to its first ``ind``.

    The products of the sizes of both groups are equal; the result has the last dims first.
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
    """X of tensordot(A, X, X.ndim) = B; ``dims`` of A are moved to its end first."""
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
    """The matrices (*, n, N) of ascending powers of the vectors x (*, n); N: n by default."""
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
