# SPDX-License-Identifier: BSD-3-Clause
# Written by make stubs from the rows of python/surface/switches.toml: change those.
"""The flag of attention's fast path: stored without effect; attention is computed in blocks."""

from __future__ import annotations

from typing import Any

__all__ = [
    "get_fastpath_enabled",
    "set_fastpath_enabled",
]

_stored: dict[str, Any] = {}


def set_fastpath_enabled(value: bool) -> None:
    """Stores the flag."""
    _stored["get_fastpath_enabled"] = value


def get_fastpath_enabled() -> bool:
    """Returns the value of ``set_fastpath_enabled``; at first True."""
    value: bool = _stored.get("get_fastpath_enabled", True)
    return value
