# SPDX-License-Identifier: BSD-3-Clause
"""Answers for programs that ask for this device: there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cograd import _absent

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed", "synchronize"]


def is_available() -> bool:
    """Always False: cograd runs on the CPU."""
    return False


def device_count() -> int:
    """Always 0."""
    return 0


def manual_seed(seed: int) -> None:
    """Does nothing."""


def empty_cache() -> None:
    """Does nothing."""


def synchronize(device: Any = None) -> None:
    """Does nothing."""


if not TYPE_CHECKING:
    __getattr__ = _absent.reporter(__name__)
