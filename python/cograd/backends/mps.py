# SPDX-License-Identifier: BSD-3-Clause
"""Apple's GPUs: there are none for cograd."""

from __future__ import annotations

__all__ = ["is_available", "is_built", "is_macos_or_newer"]


def is_built() -> bool:
    """Always False."""
    return False


def is_available() -> bool:
    """Always False."""
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """Always False."""
    return False
