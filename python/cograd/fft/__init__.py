# SPDX-License-Identifier: BSD-3-Clause
"""Discrete Fourier transforms.

They support float32 and float64, and their complex dtypes; integers are promoted to the default
dtype.

``n`` and ``s``: the input is cut or padded with zeros at the end to these sizes along ``dim``; -1
in ``s`` keeps a size. ``norm``: "backward" (default) divides inverse transforms by the number of
points, "forward" the other transforms, "ortho" both by its square root.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import cograd
from cograd import Tensor
from cograd._base import absent as _absent

from . import _arguments, _transforms
from ._arguments import overridable

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "hfft2",
    "hfftn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

_Dims = int | Sequence[int] | None
_LAST_TWO = (-2, -1)


@overridable
def fft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Computes the spectrum of ``input`` along ``dim``."""
    return _transforms.along_one(
        "fft", _transforms.complex_to_complex, input, n, dim, norm, out, forward=True
    )


@overridable
def ifft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Computes the inverse of ``fft``."""
    return _transforms.along_one(
        "ifft", _transforms.complex_to_complex, input, n, dim, norm, out, forward=False
    )


@overridable
def rfft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Computes bins 0 to n/2 of the spectrum of real ``input``; the others are conjugates."""
    return _transforms.along_one(
        "rfft", _transforms.real_to_complex, input, n, dim, norm, out, forward=True
    )


@overridable
def irfft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Computes the inverse of ``rfft``: the real signal whose bins 0 to n/2 are ``input``.

    ``n`` is the length of the result, by default 2 (m - 1) for m bins; pass it if it is odd. The
    imaginary parts of bins 0 and n/2 are ignored.
    """
    return _transforms.along_one(
        "irfft", _transforms.complex_to_real, input, n, dim, norm, out, forward=False
    )


@overridable
def hfft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Computes the real spectrum of a Hermitian signal from its half, indices 0 to n/2.

    ``n`` is the length of the result, by default 2 (m - 1) for m values.
    """
    return _transforms.along_one(
        "hfft", _transforms.complex_to_real, input, n, dim, norm, out, forward=True
    )


@overridable
def ihfft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Computes the inverse of ``hfft``: half of the Hermitian signal with spectrum ``input``."""
    return _transforms.along_one(
        "ihfft", _transforms.real_to_complex, input, n, dim, norm, out, forward=False
    )


@overridable
def fft2(
    input: Tensor,
    s: int | Sequence[int] | None = None,
    dim: _Dims = _LAST_TWO,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Computes the spectrum of ``input`` along two dims."""
    return _transforms.complex_to_complex("fft2", input, s, dim, norm, out, forward=True)


@overridable
def ifft2(
    input: Tensor,
    s: int | Sequence[int] | None = None,
    dim: _Dims = _LAST_TWO,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Computes the inverse of ``fft2``."""
    return _transforms.complex_to_complex("ifft2", input, s, dim, norm, out, forward=False)


@overridable
def rfft2(
    input: Tensor,
    s: int | Sequence[int] | None = None,
    dim: _Dims = _LAST_TWO,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Computes the spectrum of real ``input`` along two dims; bins 0 to n/2 of the last dim."""
    return _transforms.real_to_complex("rfft2", input, s, dim, norm, out, forward=True)


@overridable
def irfft2(
    input: Tensor,
    s: int | Sequence[int] | None = None,
    dim: _Dims = _LAST_TWO,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Computes the inverse of ``rfft2``; ``s`` contains the sizes of the result."""
    return _transforms.complex_to_real("irfft2", input, s, dim, norm, out, forward=False)


@overridable
def hfft2(
    input: Tensor,
    s: int | Sequence[int] | None = None,
    dim: _Dims = _LAST_TWO,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Computes the real spectrum of a signal that is Hermitian along the last of two dims.

    ``input`` contains indices 0 to n/2 of that dim; ``s`` contains the sizes of the result.
    """
    return _transforms.complex_to_real("hfft2", input, s, dim, norm, out, forward=True)


@overridable
def ihfft2(
    input: Tensor,
    s: int | Sequence[int] | None = None,
    dim: _Dims = _LAST_TWO,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Computes the inverse of ``hfft2``: half of the Hermitian signal with spectrum ``input``."""
    return _transforms.real_to_complex("ihfft2", input, s, dim, norm, out, forward=False)


@overridable
def fftn(
    input: Tensor,
    s: int | Sequence[int] | None = None,
    dim: _Dims = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Computes the spectrum of ``input`` along ``dim``: by default ``s``'s last dims, or all."""
    return _transforms.complex_to_complex("fftn", input, s, dim, norm, out, forward=True)


@overridable
def ifftn(
    input: Tensor,
    s: int | Sequence[int] | None = None,
    dim: _Dims = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Computes the inverse of ``fftn``."""
    return _transforms.complex_to_complex("ifftn", input, s, dim, norm, out, forward=False)


@overridable
def rfftn(
    input: Tensor,
    s: int | Sequence[int] | None = None,
    dim: _Dims = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Computes the spectrum of real ``input`` along ``dim``; bins 0 to n/2 of the last dim."""
    return _transforms.real_to_complex("rfftn", input, s, dim, norm, out, forward=True)


@overridable
def irfftn(
    input: Tensor,
    s: int | Sequence[int] | None = None,
    dim: _Dims = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Computes the inverse of ``rfftn``; ``s`` contains the sizes of the result."""
    return _transforms.complex_to_real("irfftn", input, s, dim, norm, out, forward=False)


@overridable
def hfftn(
    input: Tensor,
    s: int | Sequence[int] | None = None,
    dim: _Dims = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Computes the real spectrum of a signal that is Hermitian along the last of ``dim``.

    ``input`` contains indices 0 to n/2 of that dim; ``s`` contains the sizes of the result.
    """
    return _transforms.complex_to_real("hfftn", input, s, dim, norm, out, forward=True)


@overridable
def ihfftn(
    input: Tensor,
    s: int | Sequence[int] | None = None,
    dim: _Dims = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Computes the inverse of ``hfftn``: half of the Hermitian signal with spectrum ``input``."""
    return _transforms.real_to_complex("ihfftn", input, s, dim, norm, out, forward=False)


def _frequencies(
    op: str, bins: Any, n: int, d: float, out: Tensor | None, **options: Any
) -> Tensor:
    dtype = options["dtype"]
    if out is not None:
        if dtype is not None and dtype != out.dtype:
            raise RuntimeError(f"dtype {dtype} does not match dtype of out parameter ({out.dtype})")
        dtype = out.dtype
    dtype = cograd.get_default_dtype() if dtype is None else dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(f"{op} requires a floating point or complex dtype, but got {dtype}")
    layout, device = options["layout"], options["device"]
    parts = [cograd.arange(*b, dtype=dtype, layout=layout, device=device) for b in bins]
    step = 1.0 / (n * d) if n * d else math.inf
    result = (cograd.cat(parts) if len(parts) > 1 else parts[0]).mul_(step)
    return _arguments.stored(result, out).requires_grad_(options["requires_grad"])


def fftfreq(
    n: int,
    d: float = 1.0,
    *,
    out: Tensor | None = None,
    dtype: cograd.dtype | None = None,
    layout: Any = cograd.strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Returns the frequency of each bin of ``fft`` over ``n`` samples, ``d`` apart.

    [0, 1, ..., (n - 1) // 2, -(n // 2), ..., -1] / (d n)
    """
    n = _arguments.as_int("fftfreq", "n", n)
    if n < 0:
        raise RuntimeError(f"fftfreq(): Trying to create tensor with negative dimension {n}: [{n}]")
    options = dict(dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)
    bins = ((0, (n + 1) // 2), (-(n // 2), 0))
    return _frequencies("fftfreq", bins, n, d, out, **options)


def rfftfreq(
    n: int,
    d: float = 1.0,
    *,
    out: Tensor | None = None,
    dtype: cograd.dtype | None = None,
    layout: Any = cograd.strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Returns the frequency of each bin of ``rfft`` over ``n`` samples, ``d`` apart.

    [0, 1, ..., n // 2] / (d n)
    """
    n = _arguments.as_int("rfftfreq", "n", n)
    if n < -2:
        raise RuntimeError(f"rfftfreq(): Trying to create tensor with negative dimension for n={n}")
    options = dict(dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)
    return _frequencies("rfftfreq", ((0, n // 2 + 1),), n, d, out, **options)


def _rolled(input: Tensor, dim: _Dims, *, back: bool) -> Tensor:
    dims = range(input.dim()) if dim is None else _arguments.as_ints("fftshift", "dim", dim)
    negative = [_arguments.checked_dim(input, d) for d in dims]
    shifts = [(input.shape[d] + back) // 2 for d in negative]
    return cograd.roll(input, shifts, negative)


@overridable
def fftshift(input: Tensor, dim: _Dims = None) -> Tensor:
    """Moves the bin of frequency 0 to the middle of ``dim`` (default: all)."""
    return _rolled(input, dim, back=False)


@overridable
def ifftshift(input: Tensor, dim: _Dims = None) -> Tensor:
    """Inverts ``fftshift``."""
    return _rolled(input, dim, back=True)


if not TYPE_CHECKING:
    __getattr__ = _absent.reporter(__name__)
