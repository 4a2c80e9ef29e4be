# SPDX-License-Identifier: BSD-3-Clause
# Written by make stubs from the rows of python/surface/faces.toml: change those.
"""torch.accelerator for a library without accelerators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cograd._as_torch.no_device import device_count, empty_cache, is_available, synchronize
from cograd._base import absent as _absent

__all__ = [
    "current_accelerator",
    "device_count",
    "empty_cache",
    "is_available",
    "synchronize",
]


def current_accelerator(check_available: bool = False) -> None:
    """Returns None."""


if not TYPE_CHECKING:  # type checkers would accept every name
    __getattr__ = _absent.reporter(__name__)
    del TYPE_CHECKING, annotations
