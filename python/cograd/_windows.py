# SPDX-License-Identifier: BSD-3-Clause
"""Window functions: the formulas, and the factories of the root namespace.

Values are computed in double precision. ``span`` is the distance from the first point to where
the window is symmetric again: n for a periodic window, n - 1 for a symmetric one.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy

import cograd
from cograd import Tensor, from_numpy

__all__ = [
    "bartlett_window",
    "blackman_window",
    "hamming_window",
    "hann_window",
    "kaiser_window",
]

BLACKMAN = (0.42, 0.5, 0.08)


def points(n: int) -> Any:
    """Returns 0, 1, ..., n - 1."""
    return numpy.arange(n, dtype=numpy.float64)


def cosine_sum(n: int, span: int, coefficients: Sequence[float]) -> Any:
    """Returns the sum of (-1)^i a_i cos(2 pi i k / span) at k = 0, ..., n - 1."""
    t = points(n) * (2 * math.pi / span)
    return sum((-1) ** i * a * numpy.cos(i * t) for i, a in enumerate(coefficients))


def triangle(n: int, span: int) -> Any:
    """Returns a triangle that rises from 0 to 1 in the middle and falls again."""
    return 1 - abs(points(n) * (2 / span) - 1)


def kaiser_bessel(n: int, span: int, beta: float) -> Any:
    """Returns I0(beta sqrt(1 - t^2)) / I0(beta) for t from -1 to 1."""
    t = points(n) * (2 / span) - 1
    return numpy.i0(beta * numpy.sqrt(1 - t * t)) / numpy.i0(beta)


def finished(
    values: Any,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Returns ``values`` as a tensor of ``dtype``."""
    result = cograd.empty(len(values), dtype=dtype, layout=layout, device=device)
    return result.copy_(from_numpy(values)).requires_grad_(requires_grad)


def _length(op: str, n: Any, periodic: Any, dtype: Any) -> tuple[int, int]:
    """Returns the checked length, and the span."""
    if isinstance(n, (bool, float)):
        raise TypeError(
            f"{op}(): argument 'window_length' (position 1) must be int, not {type(n).__name__}"
        )
    if not isinstance(periodic, bool):
        raise TypeError(
            f"{op}(): argument 'periodic' (position 2) must be bool, not {type(periodic).__name__}"
        )
    if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(f"{op} expects floating point dtypes, got: {dtype}")
    n = operator.index(n)
    if n < 0:
        raise RuntimeError(f"{op} requires non-negative window_length, got window_length={n}")
    return n, n if periodic else n - 1


def _window(
    op: str, n: Any, periodic: Any, shape: Any, shape_args: tuple[Any, ...], **options: Any
) -> Tensor:
    n, span = _length(op, n, periodic, options["dtype"])
    values = points(n) + 1 if n < 2 else shape(n, span, *shape_args)
    return finished(values, **options)


def bartlett_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: cograd.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Returns 1 - |2 k / (n - 1) - 1|; if ``periodic``, n + 1 points without the last."""
    options = {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}
    return _window("bartlett_window", window_length, periodic, triangle, (), **options)


def blackman_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: cograd.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Returns 0.42 - 0.5 cos(t) + 0.08 cos(2 t), t = 2 pi k / (n - 1), or / n if ``periodic``."""
    options = {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}
    return _window("blackman_window", window_length, periodic, cosine_sum, (BLACKMAN,), **options)


def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: cograd.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Returns alpha - beta cos(t), t = 2 pi k / (n - 1), or / n if ``periodic``."""
    options = {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}
    terms = ((alpha, beta),)
    return _window("hamming_window", window_length, periodic, cosine_sum, terms, **options)


def hann_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: cograd.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Returns (1 - cos(t)) / 2, t = 2 pi k / (n - 1), or / n if ``periodic``."""
    options = {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}
    terms = ((0.5, 0.5),)
    return _window("hann_window", window_length, periodic, cosine_sum, terms, **options)


def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: cograd.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Returns I0(beta sqrt(1 - t^2)) / I0(beta), t = 2 k / (n - 1) - 1, or / n if ``periodic``."""
    options = {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}
    return _window("kaiser_window", window_length, periodic, kaiser_bessel, (beta,), **options)
