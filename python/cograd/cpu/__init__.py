# SPDX-License-Identifier: BSD-3-Clause
# Written by make stubs from the rows of python/surface/faces.toml: change those.
"""torch.cpu: queries about the CPU, which is one device."""

from __future__ import annotations

from typing import Any

from cograd.cpu import amp

__all__ = [
    "amp",
    "current_device",
    "current_stream",
    "device_count",
    "is_available",
    "is_initialized",
    "set_device",
    "synchronize",
]


def is_available() -> bool:
    """Returns True."""
    return True


def is_initialized() -> bool:
    """Returns True."""
    return True


def device_count() -> int:
    """Returns 1."""
    return 1


def current_device() -> str:
    """Returns "cpu"."""
    return "cpu"


def current_stream(device: Any = None) -> None:
    """Returns None: there are no streams."""


def set_device(device: Any) -> None:
    """Does nothing."""


def synchronize(device: Any = None) -> None:
    """Does nothing: work is done when a call returns."""
