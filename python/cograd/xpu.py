# SPDX-License-Identifier: BSD-3-Clause
# Written by make stubs from the rows of python/surface/faces.toml: change those.
"""torch.xpu for a library without this device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cograd._as_torch.no_device import (
    device_count,
    empty_cache,
    is_available,
    manual_seed,
    synchronize,
)
from cograd._base import absent as _absent

__all__ = [
    "device_count",
    "empty_cache",
    "is_available",
    "is_current_stream_capturing",
    "manual_seed",
    "synchronize",
]


def is_current_stream_capturing() -> bool:
    """Returns False."""
    return False


if not TYPE_CHECKING:  # type checkers would accept every name
    __getattr__ = _absent.reporter(__name__)
    del TYPE_CHECKING, annotations
