# SPDX-License-Identifier: BSD-3-Clause
"""Answers for programs that ask for an accelerator: there is none."""

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
    """Always None."""


if not TYPE_CHECKING:
    __getattr__ = _absent.reporter(__name__)
    del TYPE_CHECKING, annotations
