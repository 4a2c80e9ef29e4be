# SPDX-License-Identifier: BSD-3-Clause
"""The old names of ``cograd.amp`` for GPUs; without a GPU they have no effect."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import cograd
from cograd.amp import GradScaler as _GradScaler
from cograd.amp import autocast as _autocast
from cograd.amp import custom_bwd as _custom_bwd
from cograd.amp import custom_fwd as _custom_fwd

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


def _quiet(kind: Any, *args: Any, **kwargs: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the docstrings say what happens without a GPU
        return kind(*args, **kwargs)


def autocast(
    enabled: bool = True, dtype: Any = cograd.float16, cache_enabled: bool = True
) -> _autocast:
    """Calls ``amp.autocast("cuda", ...)``, without a warning if there is no GPU."""
    block: _autocast = _quiet(_autocast, "cuda", dtype, enabled, cache_enabled)
    return block


def GradScaler(*args: Any, enabled: bool = True, **kwargs: Any) -> _GradScaler:
    """Calls ``amp.GradScaler("cuda", ...)``, without a warning if there is no GPU."""
    scaler: _GradScaler = _quiet(_GradScaler, "cuda", *args, enabled=enabled, **kwargs)
    return scaler


custom_fwd = functools.partial(_custom_fwd, device_type="cuda")
custom_bwd = functools.partial(_custom_bwd, device_type="cuda")
