# SPDX-License-Identifier: BSD-3-Clause
"""Fourier transforms of the standard: the extension ``fft``."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor

_ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
_MANY = ("fftn", "ifftn", "rfftn", "irfftn")

__all__ = [*_ONE, *_MANY, "fftfreq", "fftshift", "ifftshift", "rfftfreq"]


def _along_one(name: str) -> Any:
    def transform(
        x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward"
    ) -> Tensor:
        return getattr(cograd.fft, name)(x, n, axis, norm)  # type: ignore[no-any-return]

    return _named(transform, name, f"cograd.fft.{name} along an axis.")


def _along_many(name: str) -> Any:
    def transform(
        x: Tensor,
        /,
        *,
        s: tuple[int, ...] | None = None,
        axes: tuple[int, ...] | None = None,
        norm: str = "backward",
    ) -> Tensor:
        return getattr(cograd.fft, name)(x, s, axes, norm)  # type: ignore[no-any-return]

    return _named(transform, name, f"cograd.fft.{name} along axes.")


def _named(function: Any, name: str, doc: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


for _name in _ONE:
    globals()[_name] = _along_one(_name)
for _name in _MANY:
    globals()[_name] = _along_many(_name)


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """Returns the frequencies of ``fft``."""
    return cograd.fft.fftfreq(n, d, dtype=dtype)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """Returns the frequencies of ``rfft``."""
    return cograd.fft.rfftfreq(n, d, dtype=dtype)


def fftshift(x: Tensor, /, *, axes: Any = None) -> Tensor:
    """Moves the frequency 0 to the middle."""
    return cograd.fft.fftshift(x, axes)


def ifftshift(x: Tensor, /, *, axes: Any = None) -> Tensor:
    """Moves the frequency 0 back to the beginning."""
    return cograd.fft.ifftshift(x, axes)
