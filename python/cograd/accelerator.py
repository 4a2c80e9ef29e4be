# SPDX-License-Identifier: BSD-3-Clause
"""Answers for programs that ask for an accelerator: there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cograd import _absent

__all__ = [
    "current_accelerator",
    "device_count",
    "empty_cache",
    "is_available",
    "synchronize",
]


def is_available() -> bool:
    """Always False: cograd runs on the CPU."""
    return False


def device_count() -> int:
    """Always 0."""
    return 0


def current_accelerator(check_available: bool = False) -> None:
    """Always None."""


def synchronize(device: Any = None) -> None:
    """Does nothing."""


def empty_cache() -> None:
    """Does nothing."""


if not TYPE_CHECKING:
    __getattr__ = _absent.reporter(__name__)
