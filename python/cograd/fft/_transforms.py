# SPDX-License-Identifier: BSD-3-Clause
"""The three kinds of transform with checked arguments; every public transform calls one.

``forward`` determines the sign of the exponent and, with ``norm``, the factor.
"""

from __future__ import annotations

from typing import Any

from cograd import Tensor

from . import _arguments as arguments
from ._primitives import ADJOINT_NORM, FftC2C, FftC2R, FftR2C


def complex_to_complex(
    op: str, x: Tensor, s: Any, dim: Any, norm: Any, out: Tensor | None, *, forward: bool
) -> Tensor:
    """Transforms all of ``dim``; the input may be real."""
    arguments.check_out(op, out, is_complex=True)
    x = arguments.promoted(op, x)
    sizes, dims = arguments.shape_and_dims(op, x, s, dim)
    mode = arguments.checked_norm(op, norm)
    if not dims:
        x = arguments.promoted(op, x, to_complex=True).clone()
    else:
        x = FftC2C.apply(arguments.resized(x, dims, sizes), tuple(dims), forward, mode)
    return arguments.stored(x, out)


def real_to_complex(
    op: str, x: Tensor, s: Any, dim: Any, norm: Any, out: Tensor | None, *, forward: bool
) -> Tensor:
    """Transforms all of ``dim``; returns bins 0 to n/2 of the last."""
    arguments.check_real(op, x)
    arguments.check_out(op, out, is_complex=True)
    x = arguments.promoted(op, x)
    sizes, dims = arguments.shape_and_dims(op, x, s, dim)
    _check_some(op, dims)
    mode = arguments.checked_norm(op, norm)
    mode = mode if forward else ADJOINT_NORM[mode]
    x = FftR2C.apply(arguments.resized(x, dims, sizes), tuple(dims), mode)
    return arguments.stored(x if forward else x.conj(), out)


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
    mode = arguments.checked_norm(op, norm)
    mode = ADJOINT_NORM[mode] if forward else mode
    x = arguments.resized(x, dims, [*sizes[:-1], n // 2 + 1])
    x = FftC2R.apply(x.conj() if forward else x, tuple(dims), mode, n)
    return arguments.stored(x, out)


def _check_some(op: str, dims: list[int]) -> None:
    if not dims:
        raise RuntimeError(f"{op} must transform at least one axis")


def one_dim(op: str, n: Any, dim: Any) -> tuple[Any, list[int]]:
    """Converts ``n`` and ``dim`` of a 1-dimensional transform to those of an n-dimensional one."""
    if n is not None:
        n = [arguments.checked_size(op, arguments.as_int(op, "n", n))]
    return n, [arguments.as_int(op, "dim", dim)]
