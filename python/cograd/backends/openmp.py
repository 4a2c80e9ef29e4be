# SPDX-License-Identifier: BSD-3-Clause
"""OpenMP: loops run on cograd's own threads instead."""

from __future__ import annotations

__all__ = ["is_available"]


def is_available() -> bool:
    """Always False."""
    return False
