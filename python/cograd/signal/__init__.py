# SPDX-License-Identifier: BSD-3-Clause
"""Signal processing: ``windows``."""

from __future__ import annotations

from . import windows

__all__ = ["windows"]
