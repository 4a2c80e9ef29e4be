# SPDX-License-Identifier: BSD-3-Clause
# Written by make stubs from the rows of python/surface/faces.toml: change those.
"""Functions of the namespaces of devices that cograd does not have."""

from __future__ import annotations

from typing import Any

__all__ = [
    "device_count",
    "empty_cache",
    "is_available",
    "manual_seed",
    "synchronize",
]


def is_available() -> bool:
    """Returns False: cograd does not have this device."""
    return False


def device_count() -> int:
    """Returns 0."""
    return 0


def manual_seed(seed: int) -> None:
    """Does nothing."""


def empty_cache() -> None:
    """Does nothing."""


def synchronize(device: Any = None) -> None:
    """Does nothing."""
