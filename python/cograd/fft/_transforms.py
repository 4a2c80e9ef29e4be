# SPDX-License-Identifier: BSD-3-Clause
"""The three kinds of transform with checked arguments; every public transform calls one.

``forward`` determines the sign of the exponent and, with ``norm``, the factor. The ops
``_fft_c2c``, ``_fft_r2c`` (forward) and ``_fft_c2r`` (inverse) compute; the other direction of the
last two is that of the conjugate.
"""

from __future__ import annotations

from typing import Any

from cograd import _C, Tensor

from . import _arguments as arguments

_ops = _C._ops


def complex_to_complex(
    op: str, x: Tensor, s: Any, dim: Any, norm: Any, out: Tensor | None, *, forward: bool
) -> Tensor:
    """Transforms all of ``dim``; the input may be real."""
    arguments.check_out(op, out, is_complex=True)
    x = arguments.promoted(op, x)
    sizes, dims = arguments.shape_and_dims(op, x, s, dim)
    factor = arguments.factor_number(op, norm, forward)
    if not dims:
        return arguments.stored(arguments.promoted(op, x, to_complex=True).clone(), out)
    x = arguments.resized(x, dims, sizes)
    if x.is_complex():
        return _ops._fft_c2c(x, dims, factor, forward, out=out)
    x = _ops._fft_r2c(x, dims, factor, False, out=out if forward else None)
    return x if forward else arguments.stored(x.conj(), out)


def real_to_complex(
    op: str, x: Tensor, s: Any, dim: Any, norm: Any, out: Tensor | None, *, forward: bool
) -> Tensor:
    """Transforms all of ``dim``; returns bins 0 to n/2 of the last."""
    arguments.check_real(op, x)
    arguments.check_out(op, out, is_complex=True)
    x = arguments.promoted(op, x)
    sizes, dims = arguments.shape_and_dims(op, x, s, dim)
    _check_some(op, dims)
    factor = arguments.factor_number(op, norm, forward)
    x = arguments.resized(x, dims, sizes)
    x = _ops._fft_r2c(x, dims, factor, True, out=out if forward else None)
    return x if forward else arguments.stored(x.conj(), out)


def complex_to_real(
    op: str, x: Tensor, s: Any, dim: Any, norm: Any, out: Tensor | None, *, forward: bool
) -> Tensor:
    """Transforms all of ``dim``; the last contains bins 0 to n/2."""
    arguments.check_out(op, out, is_complex=False)
    x = arguments.promoted(op, x, to_complex=True)
    sizes, dims = arguments.shape_and_dims(op, x, s, dim)
    _check_some(op, dims)
    if s is None or arguments.as_ints(op, "s", s)[-1] == -1:
        sizes[-1] = 2 * (x.shape[dims[-1]] - 1)
    n = arguments.checked_size(op, sizes[-1])
    factor = arguments.factor_number(op, norm, forward)
    x = arguments.resized(x, dims, [*sizes[:-1], n // 2 + 1])
    if forward:
        x = x.conj()
    return _ops._fft_c2r(x, dims, factor, n, out=out)


def _check_some(op: str, dims: list[int]) -> None:
    if not dims:
        raise RuntimeError(f"{op} must transform at least one axis")


def along_one(
    op: str, kind: Any, x: Tensor, n: Any, dim: Any, norm: Any, out: Tensor | None, *, forward: bool
) -> Tensor:
    """Transforms ``dim``, to ``n`` points unless it is None; ``kind`` is a function above."""
    if n is None and out is None and type(dim) is int and _fits(kind, x, dim):
        factor = arguments.factor_number(op, norm, forward)
        if kind is complex_to_complex:
            return _ops._fft_c2c(x, (dim,), factor, forward)
        if kind is complex_to_real:
            x = x.conj() if forward else x
            return _ops._fft_c2r(x, (dim,), factor, 2 * (x.shape[dim] - 1))
        y = _ops._fft_r2c(x, (dim,), factor, True)
        return y if forward else y.conj()
    if n is not None:
        n = [arguments.checked_size(op, arguments.as_int(op, "n", n))]
    dims = [arguments.as_int(op, "dim", dim)]
    return kind(op, x, n, dims, norm, out, forward=forward)  # type: ignore[no-any-return]


def _fits(kind: Any, x: Tensor, dim: int) -> bool:
    """Returns whether the op takes ``x`` as it is; the checks of other calls take longer."""
    count = x.dim()
    if not -count <= dim < count or x.shape[dim] < (2 if kind is complex_to_real else 1):
        return False
    if kind is real_to_complex:
        return x.dtype in arguments.WIDE and not _C._autocast_enabled()
    return x.is_complex()
