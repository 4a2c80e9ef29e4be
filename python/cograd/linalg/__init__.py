# SPDX-License-Identifier: BSD-3-Clause
"""torch.linalg: solvers, decompositions, norms and products of batches of matrices.

Matrices have dtype float32, float64, complex64 or complex128. ``^H`` is the conjugate transpose,
which is the transpose for real matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cograd import _C
from cograd._base import absent as _absent
from cograd._base.return_types import make
from cograd._C import Tensor
from cograd.linalg._factors import (
    householder_product,
    ldl_factor,
    ldl_factor_ex,
    ldl_solve,
    lu,
    lu_factor,
    lu_factor_ex,
    lu_solve,
    tensorinv,
    tensorsolve,
    vander,
)
from cograd.linalg._norms import (
    cond,
    matrix_norm,
    matrix_rank,
    norm,
    stored,
    tolerances,
    vector_norm,
)

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "ldl_factor",
    "ldl_factor_ex",
    "ldl_solve",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]

_ops = _C._ops
LinAlgError: type[RuntimeError] = _C._LinAlgError
LinAlgError.__module__ = "cograd.linalg"


def solve(A: Tensor, B: Tensor, *, left: bool = True, out: Tensor | None = None) -> Tensor:
    """Solves A X = B for X, or X A = B unless ``left``.

    Args:
        A: square matrices (*, n, n) of dtype float32, float64, complex64 or complex128.
        B: (*, n, k), whose batch dims broadcast with A's; or vectors: (n,), or A's shape without
            its last dim.

    Raises:
        LinAlgError: a matrix is singular.
        RuntimeError: shapes or dtypes do not match.
    """
    return _ops.linalg_solve(A, B, left=left, out=out)


def solve_ex(
    A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False, out: Any = None
) -> _C._linalg_solve_ex_result:
    """Returns ``solve`` and, instead of raising, LAPACK's ``info`` (int32, 0 on success)."""
    return _ops.linalg_solve_ex(A, B, left=left, check_errors=check_errors, out=out)


def inv(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Returns the inverse of each square matrix. Raises LinAlgError for a singular one."""
    return _ops.linalg_inv(A, out=out)


def inv_ex(A: Tensor, *, check_errors: bool = False, out: Any = None) -> _C._linalg_inv_ex_result:
    """Returns ``inv`` and, instead of raising, LAPACK's ``info`` (int32, 0 on success)."""
    return _ops.linalg_inv_ex(A, check_errors=check_errors, out=out)


def det(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Returns the determinant of each square matrix. Singular matrices have a gradient too."""
    return _ops.linalg_det(A, out=out)


def slogdet(A: Tensor, *, out: Any = None) -> _C._linalg_slogdet_result:
    """Returns ``sign`` and ``logabsdet`` of the determinant: 0 and -inf for a singular matrix.

    The sign of a complex determinant is a complex number of absolute value 1.
    """
    return _ops.linalg_slogdet(A, out=out)


def cholesky(A: Tensor, *, upper: bool = False, out: Tensor | None = None) -> Tensor:
    """Returns L of A = L L^H (L^H if ``upper``); reads only that triangle of A.

    Raises LinAlgError for a matrix that is not positive definite. The gradient is Hermitian.
    """
    return _ops.linalg_cholesky(A, upper=upper, out=out)


def cholesky_ex(
    A: Tensor, *, upper: bool = False, check_errors: bool = False, out: Any = None
) -> _C._linalg_cholesky_ex_result:
    """Returns ``cholesky`` and, instead of raising, LAPACK's ``info`` (int32)."""
    return _ops.linalg_cholesky_ex(A, upper=upper, check_errors=check_errors, out=out)


def qr(A: Tensor, mode: str = "reduced", *, out: Any = None) -> _C._linalg_qr_result:
    """Computes ``Q`` with orthonormal columns and upper triangular ``R`` such that A = Q R.

    Args:
        A: (*, m, n).
        mode: "reduced": Q (*, m, k), R (*, k, n) with k = min(m, n); "complete": (*, m, m) and
            (*, m, n); "r": R as in "reduced", Q empty.

    Raises:
        RuntimeError: raised in backward for mode "r", and for "complete" with m > n. The gradient
            needs the first k columns of A to be linearly independent.
    """
    return _ops.linalg_qr(A, mode, out=out)


def eigh(A: Tensor, UPLO: str = "L", *, out: Any = None) -> _C._linalg_eigh_result:
    """Computes ``eigenvalues`` (ascending, real) and ``eigenvectors`` (columns) of Hermitian A.

    Reads only the lower triangle (upper for ``UPLO`` "U"). Gradients through the eigenvectors need
    distinct eigenvalues, and for complex matrices a result that does not depend on the vectors'
    phases: backward raises RuntimeError otherwise. Raises LinAlgError if LAPACK does not converge.
    """
    return _ops.linalg_eigh(A, UPLO, out=out)


def eigvalsh(A: Tensor, UPLO: str = "L", *, out: Tensor | None = None) -> Tensor:
    """Returns only the eigenvalues of ``eigh``."""
    return _ops.linalg_eigvalsh(A, UPLO, out=out)


def eig(A: Tensor, *, out: Any = None) -> _C._linalg_eig_result:
    """Computes complex ``eigenvalues`` and ``eigenvectors`` (columns of norm 1) of square A.

    The eigenvalues have no particular order; those of real matrices are real or in conjugate
    pairs. Gradients through the eigenvectors need distinct eigenvalues and a result that does not
    depend on the vectors' phases: backward raises RuntimeError otherwise.

    Raises:
        RuntimeError: matrices are not square, or have elements that are not finite.
        LinAlgError: LAPACK does not converge.
    """
    return _ops.linalg_eig(A, out=out)


def eigvals(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Returns only the eigenvalues of ``eig``."""
    return _ops.linalg_eigvals(A, out=out)


def svd(
    A: Tensor, full_matrices: bool = True, *, driver: str | None = None, out: Any = None
) -> _C._linalg_svd_result:
    """Computes ``U``, ``S`` (descending) and ``Vh`` such that A = U diag(S) Vh.

    Args:
        A: (*, m, n).
        full_matrices: whether U is (*, m, m) and Vh (*, n, n), or (*, m, k) and (*, k, n)
            with k = min(m, n).
        driver: must be None on the CPU.

    Gradients through U and Vh need distinct singular values, and positive ones unless m = n. For
    complex matrices, the result must not depend on the phases that a column of U and a row of Vh
    share. The result may depend on the space that the vectors after the k-th span, but not on
    their choice. Backward raises RuntimeError otherwise. Raises LinAlgError for elements that are
    not finite.
    """
    return _ops.linalg_svd(A, full_matrices, driver=driver, out=out)


def svdvals(A: Tensor, *, driver: str | None = None, out: Tensor | None = None) -> Tensor:
    """Returns only the singular values of ``svd``."""
    if driver is not None:
        raise RuntimeError("linalg.svdvals: `driver` is only supported on CUDA, expected None")
    return _ops.linalg_svdvals(A, out=out)


def solve_triangular(
    A: Tensor,
    B: Tensor,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Solves A X = B (X A = B unless ``left``) for triangular A; does not read its other half.

    With ``unitriangular`` the diagonal counts as ones. A singular matrix results in inf and NaN.
    """
    return _ops.linalg_solve_triangular(
        A, B, upper=upper, left=left, unitriangular=unitriangular, out=out
    )


def pinv(
    A: Tensor,
    rcond: float | Tensor | None = None,
    hermitian: bool = False,
    *,
    atol: float | Tensor | None = None,
    rtol: float | Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Returns the pseudoinverse (*, n, m) of matrices (*, m, n).

    Singular values up to max(atol, rtol * the largest one) count as 0; see ``matrix_rank`` for the
    defaults. ``rcond`` is the older name of ``rtol``. With ``hermitian`` only the lower triangle is
    read. The gradient is valid where the rank is constant.
    """
    absolute, relative = tolerances(A, atol, rtol if rcond is None else rcond)
    if hermitian and A.numel() > 0:
        lower, diagonal = A.tril(-1), A.diagonal(dim1=-2, dim2=-1)
        A = lower + lower.mH + (diagonal.real if A.is_complex() else diagonal).diag_embed()
    return stored(_ops.linalg_pinv(A, absolute, relative), out)


_LstsqResult = make("linalg_lstsq", "solution, residuals, rank, singular_values")
_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """Returns the X of least norm among those that minimise the norm of A X - B.

    Args:
        A: (*, m, n).
        B: (*, m, k), or vectors (*, m) for A of one dim more.
        rcond: singular values up to rcond times the largest count as 0 (None: epsilon times
            max(m, n)).
        driver: "gels" (assumes full rank), "gelsy" (the default), "gelsd" or "gelss". All use the
            SVD; the driver decides which of ``rank`` and ``singular_values`` are filled in.

    Returns:
        ``solution`` (*, n, k), differentiable; ``residuals`` (*, k), the squared norms of the
        columns of A X - B if m > n, every matrix has full rank and the driver is not "gelsy",
        else empty; ``rank``;
        ``singular_values`` (for "gelsd" and "gelss").

    Raises:
        RuntimeError: the driver is unknown, or the shapes do not match.
    """
    if _C._autocast_enabled():
        import cograd

        A, B = _C._autocast_wide(A, B)
        with cograd.autocast("cpu", enabled=False):  # the products inside, too
            return lstsq(A, B, rcond, driver=driver)
    driver = "gelsy" if driver is None else driver
    if driver not in _DRIVERS:
        raise RuntimeError(
            "torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss), "
            f"got {driver!r}"
        )
    if A.dim() < 2 or B.dim() < 1:
        raise RuntimeError("torch.linalg.lstsq: input must have at least 2 dimensions.")
    vector = B.dim() == A.dim() - 1 and B.shape == A.shape[:-1]
    right = B.unsqueeze(-1) if vector else B
    if right.dim() < 2 or A.shape[-2] != right.shape[-2]:
        raise RuntimeError(
            "torch.linalg.lstsq: input.size(-2) should match other.size(-2), got shapes "
            f"{tuple(A.shape)} and {tuple(B.shape)}"
        )
    if A.dtype != right.dtype:
        raise RuntimeError(
            f"torch.linalg.lstsq: Expected input and other to have the same dtype, but got "
            f"{A.dtype} and {B.dtype}"
        )
    m, n = A.shape[-2:]
    solution = pinv(A, rtol=rcond) @ right
    rank = matrix_rank(A, rtol=rcond)
    nothing = _ops.empty((0,), dtype=A.dtype.to_real(), device=A.device)
    # Empty, but attached to the graph, as in torch.
    residuals = _ops.real(solution.reshape(-1)[:0])
    if driver != "gelsy" and m > n and bool((rank == n).all()):
        rest = A @ solution - right
        residuals = _ops.real(rest * rest.conj()).sum(-2)
    values = svdvals(A.detach()) if driver in ("gelsd", "gelss") else nothing
    if driver == "gels":
        rank = _ops.empty((0,), dtype=_C.int64, device=A.device)
    return _LstsqResult(solution.squeeze(-1) if vector else solution, residuals, rank, values)


def matrix_power(A: Tensor, n: int, *, out: Tensor | None = None) -> Tensor:
    """Returns the n-th power of each square matrix; powers of the inverse for negative n."""
    return _ops.matrix_power(A, n, out=out)


def matrix_exp(A: Tensor) -> Tensor:
    """Returns the matrix exponential of each square matrix."""
    return _ops.matrix_exp(A)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Returns a view of the diagonals of matrices."""
    return _ops.diagonal(A, offset, dim1, dim2)


def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Returns ``input @ other``."""
    return _ops.matmul(input, other, out=out)


def vecdot(x: Tensor, y: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Tensor:
    """Returns the sum of conj(x) * y along ``dim``; the shapes broadcast."""
    if _C._autocast_enabled() and out is None:
        wide, low = (_C.float16, _C.bfloat16, _C.float32), _C._autocast_dtype(x.is_cuda)
        x, y = (t.to(low) if t.dtype in wide else t for t in (x, y))
        if x.dtype == low and y.dtype == low:
            return (x.float() * y.float()).sum(dim).to(low)
    return stored((x.conj() * y).sum(dim), out)


def cross(input: Tensor, other: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Tensor:
    """Computes the cross product of vectors of length 3 along ``dim``; the shapes broadcast.

    Raises:
        RuntimeError: the size of ``dim`` is not 3, or the numbers of dims differ.
    """
    return _ops.linalg_cross(input, other, dim=dim, out=out)


def multi_dot(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Multiplies at least two matrices (the first and last may be vectors) in the cheapest order.

    Raises:
        RuntimeError: there are fewer than two tensors, or shapes do not chain.
    """
    if len(tensors) < 2:
        raise RuntimeError("multi_dot(): expected at least 2 tensors but got fewer")
    chain = list(tensors)
    drop_rows, drop_cols = chain[0].dim() == 1, chain[-1].dim() == 1
    if drop_rows:
        chain[0] = chain[0].unsqueeze(0)
    if drop_cols:
        chain[-1] = chain[-1].unsqueeze(1)
    for i, t in enumerate(chain):
        if t.dim() != 2:
            raise RuntimeError(f"multi_dot(): tensor {i} must be 2D but got {t.dim()}D")
    result = _product(chain, _cheapest([t.shape[0] for t in chain] + [chain[-1].shape[1]]))
    if drop_rows:
        result = result.squeeze(0)
    if drop_cols:
        result = result.squeeze(-1)
    return stored(result, out)


def _cheapest(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Returns where to split matrices i..j, of shapes (sizes[k], sizes[k + 1]), at least cost."""
    n = len(sizes) - 1
    cost = {(i, i): 0 for i in range(n)}
    split: dict[tuple[int, int], int] = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            options = [
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            ]
            cost[i, j], split[i, j] = min(options)
    return split


def _product(chain: Sequence[Tensor], split: dict[tuple[int, int], int]) -> Tensor:
    def part(i: int, j: int) -> Tensor:
        if i == j:
            return chain[i]
        k = split[i, j]
        return part(i, k) @ part(k + 1, j)

    return part(0, len(chain) - 1)


if not TYPE_CHECKING:
    __getattr__ = _absent.reporter(__name__)
