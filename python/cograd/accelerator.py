# SPDX-License-Identifier: BSD-3-Clause
"""torch.accelerator for a library without accelerators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cograd import _absent
from cograd._no_device import device_count, empty_cache, is_available, synchronize

__all__ = [
    "current_accelerator",
    "device_count",
    "empty_cache",
    "is_available",
    "synchronize",
]


def current_accelerator(check_available: bool = False) -> None:
    """Returns None."""


if not TYPE_CHECKING:
    __getattr__ = _absent.reporter(__name__)
    del TYPE_CHECKING, annotations
