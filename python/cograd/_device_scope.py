# SPDX-License-Identifier: BSD-3-Clause
"""``with device("cpu"):`` and ``@device("cpu")``: where new tensors go, which is the CPU anyway."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from cograd import _C

__all__: list[str] = []

_F = TypeVar("_F", bound=Callable[..., Any])


def _enter(self: _C.device) -> _C.device:
    """Nothing; RuntimeError for a device that there is not."""
    _C._check_device(self)
    return self


def _exit(self: _C.device, *exc: object) -> None:
    """Nothing."""


def _decorate(self: _C.device, func: _F) -> _F:
    """``func``; RuntimeError for a device that there is not."""
    _C._check_device(self)
    return func


_C.device.__enter__ = _enter  # type: ignore[attr-defined, method-assign, unused-ignore]
_C.device.__exit__ = _exit  # type: ignore[attr-defined, method-assign, unused-ignore]
_C.device.__call__ = _decorate  # type: ignore[attr-defined, method-assign, unused-ignore]
