# SPDX-License-Identifier: BSD-3-Clause
# Written by make stubs from the rows of python/surface/switches.toml: change those.
"""torch.backends.mps: cograd does not support Apple's GPUs."""

from __future__ import annotations

__all__ = [
    "is_available",
    "is_built",
    "is_macos_or_newer",
]


def is_built() -> bool:
    """Returns False."""
    return False


def is_available() -> bool:
    """Returns False."""
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """Returns False."""
    return False
