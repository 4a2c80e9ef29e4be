# SPDX-License-Identifier: BSD-3-Clause
"""NNPACK is not used; its flag is kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["enabled", "flags", "is_available", "set_flags"]

enabled = False


def is_available() -> bool:
    """Always False."""
    return False


def set_flags(_enabled: bool) -> tuple[bool]:
    """Keeps the flag and returns what it was."""
    global enabled
    before, enabled = enabled, _enabled
    return (before,)


@contextmanager
def flags(enabled: bool = False) -> Iterator[None]:
    """Keeps the flag for the time of a ``with`` block."""
    (before,) = set_flags(enabled)
    try:
        yield
    finally:
        set_flags(before)
