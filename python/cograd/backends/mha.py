# SPDX-License-Identifier: BSD-3-Clause
"""The flag of attention's fast path: stored without effect; attention is computed in blocks."""

from __future__ import annotations

__all__ = ["get_fastpath_enabled", "set_fastpath_enabled"]

_is_fastpath_enabled = True


def get_fastpath_enabled() -> bool:
    """Returns the value of ``set_fastpath_enabled``; True at first."""
    return _is_fastpath_enabled


def set_fastpath_enabled(value: bool) -> None:
    """Stores the flag."""
    global _is_fastpath_enabled
    _is_fastpath_enabled = value
