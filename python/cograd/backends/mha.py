# SPDX-License-Identifier: BSD-3-Clause
"""Attention's fast path: a flag that is kept; attention runs by blocks whatever it says."""

from __future__ import annotations

__all__ = ["get_fastpath_enabled", "set_fastpath_enabled"]

_is_fastpath_enabled = True


def get_fastpath_enabled() -> bool:
    """What ``set_fastpath_enabled`` was given; True at first."""
    return _is_fastpath_enabled


def set_fastpath_enabled(value: bool) -> None:
    """Keeps the flag."""
    global _is_fastpath_enabled
    _is_fastpath_enabled = value
