# SPDX-License-Identifier: BSD-3-Clause
"""Mixed precision: ``autocast`` runs products in bfloat16 or float16; ``GradScaler``."""

from typing import TYPE_CHECKING

from cograd._base import absent as _absent

from .autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from .grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

if not TYPE_CHECKING:
    __getattr__ = _absent.reporter(__name__)
    del TYPE_CHECKING
