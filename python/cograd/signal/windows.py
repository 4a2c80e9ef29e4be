# SPDX-License-Identifier: BSD-3-Clause
"""Windows of ``M`` points, of dtype float32 or float64.

They are symmetric, or with ``sym=False`` periodic, for spectra: the first M of M + 1 points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy

import cograd
from cograd import Tensor
from cograd import _windows as windows

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]

_NUTTALL = (0.3635819, 0.4891775, 0.1365995, 0.0106411)


def _made(
    op: str,
    M: int,
    sym: bool,
    shape: Callable[..., Any],
    shape_args: tuple[Any, ...],
    options: tuple[Any, ...],
    single: bool = False,
) -> Tensor:
    """Creates a window; one point is 1, unless ``single`` lets ``shape`` compute it."""
    dtype, layout, device, requires_grad = options
    dtype = cograd.get_default_dtype() if dtype is None else dtype
    if M < 0:
        raise ValueError(f"{op} requires non-negative window length, got M={M}")
    if layout is not None and layout != cograd.strided:
        raise ValueError(f"{op} is implemented for strided tensors only, got: {layout}")
    if dtype not in (cograd.float32, cograd.float64):
        raise ValueError(f"{op} expects float32 or float64 dtypes, got: {dtype}")
    if M == 0 or (M == 1 and not single):
        values = windows.points(M) + 1
    else:
        values = shape(M, M - 1 if sym or M == 1 else M, *shape_args)
    return windows.finished(values, dtype, layout, device, requires_grad)


def _half_sine(n: int, span: int) -> Any:
    return numpy.sin((windows.points(n) + 0.5) * (math.pi / (span + 1)))


def _decay(n: int, span: int, center: float | None, tau: float) -> Any:
    return numpy.exp(-abs(windows.points(n) - (span / 2 if center is None else center)) / tau)


def _bell(n: int, span: int, std: float) -> Any:
    return numpy.exp(-0.5 * ((windows.points(n) - span / 2) / std) ** 2)


def bartlett(
    M: int,
    *,
    sym: bool = True,
    dtype: cograd.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Returns 1 - |2 k / (M - 1) - 1|, a triangle."""
    options = (dtype, layout, device, requires_grad)
    return _made("bartlett", M, sym, windows.triangle, (), options)


def blackman(
    M: int,
    *,
    sym: bool = True,
    dtype: cograd.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Returns 0.42 - 0.5 cos(t) + 0.08 cos(2 t), t = 2 pi k / (M - 1)."""
    options = (dtype, layout, device, requires_grad)
    return _made("blackman", M, sym, windows.cosine_sum, (windows.BLACKMAN,), options)


def cosine(
    M: int,
    *,
    sym: bool = True,
    dtype: cograd.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Returns sin(pi (k + 0.5) / M)."""
    options = (dtype, layout, device, requires_grad)
    return _made("cosine", M, sym, _half_sine, (), options, single=True)


def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: cograd.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Returns exp(-|k - center| / tau); ``center`` is (M - 1) / 2 if the window is symmetric."""
    options = (dtype, layout, device, requires_grad)
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    return _made("exponential", M, sym, _decay, (center, tau), options, single=True)


def gaussian(
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: cograd.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Returns exp(-(k - (M - 1) / 2)^2 / (2 std^2))."""
    options = (dtype, layout, device, requires_grad)
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    return _made("gaussian", M, sym, _bell, (std,), options, single=True)


def general_cosine(
    M: int,
    *,
    a: Iterable[float],
    sym: bool = True,
    dtype: cograd.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Returns a_0 - a_1 cos(t) + a_2 cos(2 t) - ..., t = 2 pi k / (M - 1)."""
    options = (dtype, layout, device, requires_grad)
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    terms = list(a)
    if not terms:
        raise ValueError("Coefficients cannot be empty")
    return _made("general_cosine", M, sym, windows.cosine_sum, (terms,), options)


def general_hamming(
    M: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: cograd.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Returns alpha - (1 - alpha) cos(t), t = 2 pi k / (M - 1)."""
    options = (dtype, layout, device, requires_grad)
    return _made("general_hamming", M, sym, windows.cosine_sum, ((alpha, 1 - alpha),), options)


def hamming(
    M: int,
    *,
    sym: bool = True,
    dtype: cograd.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Returns 0.54 - 0.46 cos(t), t = 2 pi k / (M - 1)."""
    options = (dtype, layout, device, requires_grad)
    return _made("hamming", M, sym, windows.cosine_sum, ((0.54, 0.46),), options)


def hann(
    M: int,
    *,
    sym: bool = True,
    dtype: cograd.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Returns (1 - cos(t)) / 2, t = 2 pi k / (M - 1)."""
    options = (dtype, layout, device, requires_grad)
    return _made("hann", M, sym, windows.cosine_sum, ((0.5, 0.5),), options)


def kaiser(
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: cograd.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Returns I0(beta sqrt(1 - t^2)) / I0(beta), t = 2 k / (M - 1) - 1."""
    options = (dtype, layout, device, requires_grad)
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    return _made("kaiser", M, sym, windows.kaiser_bessel, (beta,), options)


def nuttall(
    M: int,
    *,
    sym: bool = True,
    dtype: cograd.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Returns 0.36 - 0.49 cos(t) + 0.14 cos(2 t) - 0.01 cos(3 t), t = 2 pi k / (M - 1)."""
    options = (dtype, layout, device, requires_grad)
    return _made("nuttall", M, sym, windows.cosine_sum, (_NUTTALL,), options)
