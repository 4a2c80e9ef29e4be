# SPDX-License-Identifier: BSD-3-Clause
"""Functions of the standard that create arrays."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor

__all__ = [
    "arange",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]


def _sizes(shape: Any) -> tuple[int, ...]:
    return tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Any:
    """Converts numbers, nested sequences, buffers, or arrays of other libraries to an array.

    Args:
        obj: the object to convert; a tensor is returned itself if no conversion is needed.
        dtype: None chooses it from ``obj``.
        device: None or the CPU.
        copy: True always copies, False never, None only if necessary.

    Raises:
        ValueError: ``copy=False`` but a copy is needed.
    """
    if copy is False:
        shared = obj if isinstance(obj, Tensor) else None
        if shared is None and hasattr(obj, "__dlpack__"):
            shared = cograd.from_dlpack(obj)
        if shared is None or (dtype is not None and shared.dtype != dtype):
            raise ValueError("asarray(): a copy is needed, but copy=False")
        return shared
    if isinstance(obj, Tensor) and not copy:
        return obj if dtype is None else obj.to(dtype)
    return cograd.asarray(obj, dtype=dtype, device=device, copy=copy)


def arange(
    start: Any,
    /,
    stop: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """Returns start, start + step, ... below ``stop``; a single argument is ``stop``, from 0."""
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise ValueError("arange(): step must not be 0")
    if (stop - start) * step <= 0:
        if dtype is None:
            numbers = (start, stop, step)
            whole = all(isinstance(v, int) for v in numbers)
            dtype = cograd.int64 if whole else cograd.get_default_dtype()
        return cograd.empty(0, dtype=dtype, device=device)
    return cograd.arange(start, stop, step, dtype=dtype, device=device)


def linspace(
    start: Any,
    stop: Any,
    /,
    num: int,
    *,
    dtype: Any = None,
    device: Any = None,
    endpoint: bool = True,
) -> Tensor:
    """Returns ``num`` equidistant numbers; with ``endpoint`` the last is ``stop``."""
    if dtype is None:
        is_complex = isinstance(start, complex) or isinstance(stop, complex)
        real = cograd.get_default_dtype()
        wide = real == cograd.float64
        dtype = (cograd.complex128 if wide else cograd.complex64) if is_complex else real
    if not endpoint:
        return linspace(start, stop, num + 1, dtype=dtype, device=device)[:num]
    if dtype.is_complex:
        start, stop = complex(start), complex(stop)
        wide_dtype = cograd.float64 if dtype == cograd.complex128 else cograd.float32
        parts = [
            cograd.linspace(a, b, num, dtype=wide_dtype, device=device)
            for a, b in ((start.real, stop.real), (start.imag, stop.imag))
        ]
        return cograd.complex(*parts)
    if not dtype.is_floating_point:
        return linspace(start, stop, num, dtype=cograd.float64).to(dtype)
    return cograd.linspace(start, stop, num, dtype=dtype, device=device)


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Returns an array of undefined values."""
    return cograd.empty(_sizes(shape), dtype=dtype, device=device)


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Returns an array of zeros."""
    return cograd.zeros(_sizes(shape), dtype=dtype, device=device)


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Returns an array of ones."""
    return cograd.ones(_sizes(shape), dtype=dtype, device=device)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Returns an array of one repeated number."""
    return cograd.full(_sizes(shape), fill_value, dtype=dtype, device=device)


def empty_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Calls ``empty`` with the shape and dtype of ``x``."""
    return cograd.empty_like(x, dtype=dtype, device=device)


def zeros_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Calls ``zeros`` with the shape and dtype of ``x``."""
    return cograd.zeros_like(x, dtype=dtype, device=device)


def ones_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Calls ``ones`` with the shape and dtype of ``x``."""
    return cograd.ones_like(x, dtype=dtype, device=device)


def full_like(x: Tensor, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Calls ``full`` with the shape and dtype of ``x``."""
    return cograd.full_like(x, fill_value, dtype=dtype, device=device)


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None
) -> Tensor:
    """Returns a matrix with ones on diagonal ``k`` and zeros elsewhere."""
    n_cols = n_rows if n_cols is None else n_cols
    result = cograd.zeros(n_rows, n_cols, dtype=dtype, device=device)
    if -n_rows < k < n_cols:
        result.diagonal(k).fill_(1)
    return result


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Returns an array over the memory of another library's array."""
    result = cograd.from_dlpack(x)
    return result.clone() if copy else result


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> list[Tensor]:
    """Returns the coordinates of the grid between vectors."""
    return list(cograd.meshgrid(list(arrays), indexing=indexing))


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Returns the part of matrices on and below diagonal ``k``."""
    return cograd.tril(x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Returns the part of matrices on and above diagonal ``k``."""
    return cograd.triu(x, k)
