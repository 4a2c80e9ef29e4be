# SPDX-License-Identifier: BSD-3-Clause
"""The old names of ``cograd.amp`` for the CPU."""

from __future__ import annotations

from typing import Any

import cograd
from cograd.amp import GradScaler as _GradScaler
from cograd.amp import autocast as _autocast

__all__ = ["GradScaler", "autocast"]


def autocast(
    enabled: bool = True, dtype: Any = cograd.bfloat16, cache_enabled: bool = True
) -> _autocast:
    """Calls ``amp.autocast("cpu", ...)``."""
    return _autocast("cpu", dtype, enabled, cache_enabled)


def GradScaler(*args: Any, **kwargs: Any) -> _GradScaler:
    """Calls ``amp.GradScaler("cpu", ...)``."""
    return _GradScaler("cpu", *args, **kwargs)
