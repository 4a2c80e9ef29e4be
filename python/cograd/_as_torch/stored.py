# SPDX-License-Identifier: BSD-3-Clause
"""Stores the values of torch's switches that have no effect here (``python/surface``)."""

from __future__ import annotations

from typing import Any

__all__ = ["store"]


def store(switches: dict[str, Any], **values: Any) -> Any:
    """Stores the values that are not None, and returns the former values of all as a tuple."""
    before = tuple(switches[name] for name in values)
    switches.update({name: value for name, value in values.items() if value is not None})
    return before
