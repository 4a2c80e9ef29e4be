# SPDX-License-Identifier: BSD-3-Clause
# Written by make stubs from the rows of python/surface/switches.toml: change those.
"""torch.backends.openmp: cograd uses its own threads instead of OpenMP."""

from __future__ import annotations

__all__ = [
    "is_available",
]


def is_available() -> bool:
    """Returns False."""
    return False
