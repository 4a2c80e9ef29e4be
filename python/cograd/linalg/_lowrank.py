# SPDX-License-Identifier: BSD-3-Clause
"""A few singular values or eigenvalues of large matrices: randomised SVD, PCA, LOBPCG, and lu."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import _C
from cograd._base.return_types import make
from cograd._C import Tensor

__all__ = ["lobpcg", "lu", "pca_lowrank", "svd_lowrank"]

_ops = _C._ops
_LuWithInfo = make("_lu_with_info", "LU, pivots, info")


def lu(A: Tensor, pivot: bool = True, get_infos: bool = False, out: Any = None) -> Any:
    """Returns LU and pivots as ``linalg.lu_factor_ex`` does, and info with ``get_infos``.

    Unlike ``linalg.lu_factor`` it accepts a singular matrix.
    """
    factors, pivots, info = _ops.linalg_lu_factor_ex(A, pivot=pivot)
    result: Any = _LuWithInfo(factors, pivots, info) if get_infos else (factors, pivots)
    if out is None:
        return result
    for target, value in zip(out, result, strict=True):
        target.resize_(value.shape).copy_(value)
    return out


MOST_ITERATIONS = 1 << 16  # each computes several decompositions: more would not finish in practice


def _iterations(name: str, niter: int | None, default: int) -> int:
    niter = default if niter is None else niter
    if niter > MOST_ITERATIONS:
        raise ValueError(f"{name}(): niter must be at most {MOST_ITERATIONS}, got {niter}")
    return niter


def _range_of(A: Tensor, q: int, niter: int, M: Tensor | None) -> Tensor:
    """Approximates the range of A - M by orthonormal columns (Halko et al. 2011, algorithm 4.4)."""

    def times(x: Tensor, adjoint: bool = False) -> Tensor:
        y = (A.mH if adjoint else A) @ x
        return y if M is None else y - (M.mH if adjoint else M) @ x

    start = cograd.randn(A.shape[-1], q, dtype=A.dtype, device=A.device)
    Q = _ops.linalg_qr(times(start))[0]
    for _ in range(niter):
        Q = _ops.linalg_qr(times(Q, adjoint=True))[0]
        Q = _ops.linalg_qr(times(Q))[0]
    result: Tensor = Q
    return result


def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Computes a rank-``q`` singular value decomposition, A - M approximately U diag(S) V^H.

    Args:
        A: matrices (*, m, n).
        q: number of singular values; choose a little more than the rank of A.
        niter: number of power iterations, which damp small singular values; ValueError above 65536.
        M: the mean, broadcast to A.

    N. Halko, P.-G. Martinsson, J. Tropp, "Finding structure with randomness" (2011), algorithm 5.1.
    Samples from the default generator.
    """
    q = 6 if q is None else q
    niter = _iterations("svd_lowrank", niter, 2)
    m, n = A.shape[-2:]
    if M is not None:
        M = M.expand(A.shape)
    if m < n:
        A, M = A.mH, None if M is None else M.mH
    Q = _range_of(A, q, niter, M)
    B = Q.mH @ (A if M is None else A - M)
    U, S, Vh = _ops.linalg_svd(B, full_matrices=False)
    left, right = Q @ U, Vh.mH
    return (right, S, left) if m < n else (left, S, right)


def pca_lowrank(
    A: Tensor, q: int | None = None, center: bool = True, niter: int = 2
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns ``svd_lowrank`` of A (*, m, n), after subtracting the column means if ``center``.

    ``q``: min(6, m, n) by default. Raises ValueError for a ``q`` above m or n, or ``niter`` < 0.
    """
    m, n = A.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(
            f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}"
        )
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    if not A.is_floating_point():
        A = A.to(cograd.get_default_dtype())
    mean = A.mean(dim=-2, keepdim=True) if center else None
    return svd_lowrank(A if mean is None else A - mean, q, niter)


def _orthonormal(S: Tensor, B: Tensor | None) -> Tensor:
    """Returns a B-orthonormal basis of the columns of S, dropping linearly dependent ones."""
    gram = S.mT @ (S if B is None else B @ S)
    scale = gram.diagonal().clamp_min(0).sqrt().reciprocal()
    scale = cograd.where(scale.isfinite(), scale, 0.0)
    values, vectors = _ops.linalg_eigh(gram * scale.unsqueeze(0) * scale.unsqueeze(1))
    kept = values > cograd.finfo(S.dtype).eps * S.shape[-1] * values[-1]
    basis = vectors[:, kept] * values[kept].rsqrt()
    return S @ (scale.unsqueeze(1) * basis)


def _basis(parts: list[Tensor], B: Tensor | None) -> Tensor:
    basis = _orthonormal(cograd.cat(parts, 1), B)
    return _orthonormal(basis, B)  # a second time: the first pass loses digits


def _lobpcg_one(
    A: Tensor, X: Tensor, B: Tensor | None, iK: Tensor | None, niter: int, tol: float, largest: bool
) -> tuple[Tensor, Tensor]:
    k = X.shape[-1]
    sign = -1 if largest else 1
    X = _basis([X], B)
    P: Tensor | None = None
    size = A.norm() + (0 if B is None else B.norm())
    values = X.new_zeros(k)
    for step in range(niter + 1):
        AX, BX = A @ X, X if B is None else B @ X
        if step == 0:
            values, C = _ops.linalg_eigh(sign * (X.mT @ AX))
            X, AX, BX = X @ C, AX @ C, BX @ C
        R = sign * AX - BX * values
        if step == niter or bool((R.norm(dim=0) <= tol * size * X.norm(dim=0)).all()):
            break
        W = R if iK is None else iK @ R
        S = _basis([X, W] if P is None else [X, W, P], B)
        found, C = _ops.linalg_eigh(sign * (S.mT @ (A @ S)))
        values, new = found[:k], S @ C[:, :k]
        P = new - X @ (X.mT @ (new if B is None else B @ new))
        X = new
    return sign * values, X


def lobpcg(
    A: Tensor,
    k: int | None = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: int | None = None,
    iK: Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Any = None,
    ortho_iparams: dict[str, int] | None = None,
    ortho_fparams: dict[str, float] | None = None,
    ortho_bparams: dict[str, bool] | None = None,
) -> tuple[Tensor, Tensor]:
    """Computes the ``k`` largest (or smallest) eigenvalues of A x = l B x; eigenvectors in columns.

    Args:
        A: symmetric matrices (*, m, m), real.
        k: number of eigenvalues, by default the columns of ``X``, else 1. 3 k <= m.
        B: symmetric positive definite, A's shape; the identity by default.
        X: starting vectors (*, m, n), random by default; ``n`` is their number.
        iK: a preconditioner, close to the inverse of A.
        niter: maximum number of iterations (1000 by default; ValueError above 65536).
        tol: the residual, relative to the norms of A and B, at which to stop (the root of the
            dtype's eps by default).
        largest: whether to compute the largest eigenvalues; True by default.
        method: "basic" or "ortho"; both run one method and ignore the parameters after it.

    Eigenvalues are differentiable, eigenvectors are not. A. Knyazev, "Toward the optimal
    preconditioned eigensolver" (2001); bases: U. Hetmaniuk and R. Lehoucq (2006).
    """
    if A.dim() < 2 or A.shape[-1] != A.shape[-2]:
        raise ValueError(f"lobpcg(): expected square matrices, got shape {tuple(A.shape)}")
    if method not in (None, "basic", "ortho"):
        raise ValueError(f"lobpcg(): unknown method {method!r}, expected 'basic' or 'ortho'")
    m = A.shape[-1]
    k = (1 if X is None else X.shape[-1]) if k is None else k
    if m < 3 * k:
        raise ValueError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={m}) is smaller than "
            f"3 x the number of requested eigenpairs (={k})"
        )
    if tol is None:
        tol = cograd.finfo(A.dtype).eps ** 0.5
    limit = 1000 if niter is not None and niter < 0 else _iterations("lobpcg", niter, 1000)
    columns = max(k, k if n is None else n)
    with cograd.no_grad():
        start = (
            cograd.randn(*A.shape[:-1], columns, dtype=A.dtype, device=A.device) if X is None else X
        )
        each = [
            t if t is None else t.expand(*A.shape[:-2], *t.shape[-2:]).reshape(-1, *t.shape[-2:])
            for t in (A, start, B, iK)
        ]
        pairs = [
            _lobpcg_one(
                each[0][i],  # type: ignore[index]
                each[1][i],  # type: ignore[index]
                None if each[2] is None else each[2][i],
                None if each[3] is None else each[3][i],
                limit,
                tol,
                largest is not False,
            )
            for i in range(each[0].shape[0])  # type: ignore[union-attr]
        ]
        values = cograd.stack([v[:k] for v, _ in pairs]).reshape(*A.shape[:-2], k)
        vectors = cograd.stack([x[:, :k] for _, x in pairs]).reshape(*A.shape[:-1], k)
    if cograd.is_grad_enabled() and (A.requires_grad or (B is not None and B.requires_grad)):
        # For B-normal x, d l = x^T (dA - l dB) x: the change of x has no effect.
        values = values + (vectors * ((A - A.detach()) @ vectors)).sum(-2)
        if B is not None:
            drift = (vectors * ((B - B.detach()) @ vectors)).sum(-2)
            values = values - values.detach() * drift
    return values, vectors
