# SPDX-License-Identifier: BSD-3-Clause
"""The flag of NNPACK, which cograd does not use: stored without effect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["enabled", "flags", "is_available", "set_flags"]

enabled = False


def is_available() -> bool:
    """Returns False."""
    return False


def set_flags(_enabled: bool) -> tuple[bool]:
    """Stores the flag and returns its former value."""
    global enabled
    before, enabled = enabled, _enabled
    return (before,)


@contextmanager
def flags(enabled: bool = False) -> Iterator[None]:
    """Stores the flag for the duration of a with block."""
    (before,) = set_flags(enabled)
    try:
        yield
    finally:
        set_flags(before)
