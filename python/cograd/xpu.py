# SPDX-License-Identifier: BSD-3-Clause
"""torch.xpu for a library without this device."""

from typing import TYPE_CHECKING

from cograd import _absent
from cograd._no_device import (
    device_count,
    empty_cache,
    is_available,
    manual_seed,
    synchronize,
)

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed", "synchronize"]

if not TYPE_CHECKING:
    __getattr__ = _absent.reporter(__name__)
    del TYPE_CHECKING
