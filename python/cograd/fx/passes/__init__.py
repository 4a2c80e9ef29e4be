# SPDX-License-Identifier: BSD-3-Clause
"""Passes over graphs: shapes, splitting, drawing, matching."""

from __future__ import annotations

__all__: list[str] = []
