# SPDX-License-Identifier: BSD-3-Clause
"""Norms of vectors and matrices, and functions of singular values: cond, matrix_rank."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

from cograd import _C
from cograd._C import Tensor

__all__ = ["cond", "matrix_norm", "matrix_rank", "norm", "tolerances", "vector_norm"]

_ops = _C._ops
_EPS = {
    _C.float32: 2.0**-23,
    _C.float64: 2.0**-52,
    _C.complex64: 2.0**-23,
    _C.complex128: 2.0**-52,
}


_F = TypeVar("_F", bound=Callable[..., Tensor])


def _numpy_names(function: _F) -> _F:
    """Makes ``function`` also accept ``axis`` and ``keepdims`` for ``dim`` and ``keepdim``."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Tensor:
        if not kwargs:
            return function(*args)
        for theirs, ours in (("axis", "dim"), ("keepdims", "keepdim")):
            if theirs not in kwargs:
                continue
            if ours in kwargs:
                raise TypeError(f"{function.__name__}(): got both {theirs!r} and {ours!r}")
            kwargs[ours] = kwargs.pop(theirs)
        return function(*args, **kwargs)

    return cast(_F, call)


def stored(result: Tensor, out: Tensor | None) -> Tensor:
    """Returns ``result``, or ``out`` resized to its shape and filled with it."""
    return result if out is None else _ops.mul(result, 1, out=out)


@_numpy_names
def vector_norm(
    x: Tensor,
    ord: float = 2,
    dim: int | tuple[int, ...] | None = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """Computes (sum abs(x)^ord)^(1/ord) over ``dim`` (None: all); ``ord`` may be 0, inf or -inf.

    Raises:
        RuntimeError: the input has an integer dtype, or a dim is empty and ``ord`` has no identity.
    """
    if dtype is None and out is None:
        return _ops.linalg_vector_norm(x, ord, dim, keepdim)
    return stored(_ops.linalg_vector_norm(x, ord, dim, keepdim, dtype=dtype), out)


def _check_order(ord: float | str) -> None:
    known = ("fro", "nuc") if isinstance(ord, str) else (1, -1, 2, -2, math.inf, -math.inf)
    if ord not in known:
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")


@_numpy_names
def matrix_norm(
    A: Tensor,
    ord: float | str = "fro",
    dim: tuple[int, int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """Returns the norm of the matrices in the two dims ``dim``.

    Args:
        ord: "fro", "nuc" (sum of the singular values), 2 and -2 (largest and smallest singular
            value), 1 and -1 (largest and smallest column sum of absolute values), inf and -inf (row
            sums).

    Raises:
        RuntimeError: ``ord`` is unknown, A has fewer than two dims or an integer dtype.
    """
    if A.dim() < 2:
        raise RuntimeError(
            "linalg.matrix_norm: The input tensor A must have at least 2 dimensions."
        )
    if len(dim) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {tuple(dim)}")
    _check_order(ord)
    if dtype is not None:
        if dtype.is_complex != A.is_complex():
            kind = "complex" if A.is_complex() else "real"
            raise RuntimeError(
                f"linalg.matrix_norm: dtype should be {kind} for {kind} inputs, but got {dtype}"
            )
        A = A.to(dtype)
    if ord == "fro":
        return vector_norm(A, 2, tuple(dim), keepdim, out=out)
    rows, cols = (d % A.dim() for d in dim)
    if rows == cols:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got {tuple(dim)}")
    if ord == "nuc":
        return stored(_ops.norm(A, "nuc", (rows, cols), keepdim), out)
    if ord in (2, -2):
        s = _ops.linalg_svdvals(A.movedim((rows, cols), (-2, -1)))
        result = _largest(s, -1, False) if ord == 2 else s.amin(-1)
        if keepdim:
            for d in sorted((rows, cols)):
                result = result.unsqueeze(d)
        return stored(result, out)
    assert not isinstance(ord, str)
    summed, other = (rows, cols) if abs(ord) == 1 else (cols, rows)
    sums = vector_norm(A, 1, summed, keepdim)
    if not keepdim and other > summed:
        other -= 1
    return stored(_largest(sums, other, keepdim) if ord > 0 else sums.amin(other, keepdim), out)


def _largest(x: Tensor, dim: int, keepdim: bool) -> Tensor:
    """Returns the largest element along ``dim``, or 0 if the dim is empty."""
    return x.amax(dim, keepdim) if x.shape[dim] else x.sum(dim, keepdim)


@_numpy_names
def norm(
    A: Tensor,
    ord: float | str | None = None,
    dim: int | tuple[int, ...] | None = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """Returns the vector norm over one dim or (``ord`` None) all, or the matrix norm over two dims.

    Raises:
        RuntimeError: ``ord`` does not suit the number of dims, or the input has an integer dtype.
    """
    if ord is None:
        if dtype is None and out is None:
            return _ops.linalg_vector_norm(A, 2, dim, keepdim)
        return vector_norm(A, 2, dim, keepdim, dtype=dtype, out=out)
    if dim is None and A.dim() > 2:
        raise RuntimeError(
            f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got "
            f"{A.dim()}D."
        )
    two = A.dim() == 2 if dim is None else not isinstance(dim, int) and len(dim) == 2
    if two:
        dims = (0, 1) if dim is None else dim
        assert isinstance(dims, tuple | list)
        return matrix_norm(A, ord, (dims[0], dims[1]), keepdim, dtype=dtype, out=out)
    if isinstance(ord, str):
        raise RuntimeError(f"linalg.norm(): the order {ord!r} needs two dims, got dim={dim}")
    return vector_norm(A, ord, dim, keepdim, dtype=dtype, out=out)


def cond(A: Tensor, p: float | str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Returns the condition number of each matrix in the norm ``p`` (None: 2), inf if singular.

    It is 0 for matrices without elements.

    Raises:
        RuntimeError: a matrix is not square and the norm is not 2 or -2.
    """
    if A.dim() > 1 and A.numel() == 0:
        if p is not None:
            _check_order(p)
        return stored(_ops.linalg_svdvals(A).sum(-1), out)
    if p is None or p in (2, -2):
        s = _ops.linalg_svdvals(A)
        largest, smallest = s[..., 0], s[..., -1]
        return stored(smallest / largest if p == -2 else largest / smallest, out)
    _check_order(p)
    inverse, info = _ops.linalg_inv_ex(A)
    regular = info == 0
    inverse = _ops.where(regular.unsqueeze(-1).unsqueeze(-1), inverse, 0.0)
    result = matrix_norm(A, p) * matrix_norm(inverse, p)
    return stored(_ops.where(regular, result, math.inf), out)


def tolerances(
    A: Tensor, atol: float | Tensor | None, rtol: float | Tensor | None
) -> tuple[Tensor, Tensor]:
    """Returns ``atol`` (default 0) and ``rtol`` as tensors of A's dtype, real if A is complex.

    The default of ``rtol`` is max(rows, columns) times the dtype's epsilon, but 0 where ``atol``
    is positive.
    """
    if A.dtype not in _EPS or A.dim() < 2:
        raise RuntimeError(
            f"expected a tensor of at least 2 dimensions and dtype float32, float64, complex64 or "
            f"complex128, got "
            f"{A.dim()} dimensions of {A.dtype}"
        )

    real = A.dtype.to_real()

    def as_tensor(value: float | Tensor) -> Tensor:
        return value.to(real) if isinstance(value, Tensor) else _C.tensor(value, dtype=real)

    absolute = as_tensor(0.0 if atol is None else atol)
    if rtol is not None:
        return absolute, as_tensor(rtol)
    eps = max(A.shape[-2:]) * _EPS[A.dtype]
    if atol is None:
        return absolute, as_tensor(eps)
    return absolute, _ops.where(absolute > 0, 0.0, as_tensor(eps))


def matrix_rank(
    A: Tensor,
    tol: float | Tensor | None = None,
    hermitian: bool = False,
    *,
    atol: float | Tensor | None = None,
    rtol: float | Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Counts the singular values above max(atol, rtol * the largest one): int64, one per matrix.

    Args:
        tol: older name of ``atol``; sets ``rtol`` to 0.
        hermitian: whether the matrices are Hermitian; only the lower triangle is read then.
        atol: 0 by default.
        rtol: max(rows, columns) times the dtype's epsilon by default, 0 where ``atol`` is given.
    """
    if tol is not None:
        atol, rtol = tol, 0.0
    absolute, relative = tolerances(A, atol, rtol)
    A = A.detach()
    s = _ops.linalg_eigvalsh(A).abs() if hermitian else _ops.linalg_svdvals(A)
    if s.shape[-1] == 0:
        return stored(_ops.zeros(s.shape[:-1], dtype=_C.int64, device=s.device), out)
    limit = _ops.maximum(absolute, relative * s.amax(-1))
    return stored((s > limit.unsqueeze(-1)).sum(-1), out)
