# SPDX-License-Identifier: BSD-3-Clause
"""Signal processing: ``windows``."""

from . import windows

__all__ = ["windows"]
