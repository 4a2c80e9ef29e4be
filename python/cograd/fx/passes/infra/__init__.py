# SPDX-License-Identifier: BSD-3-Clause
"""Passes as objects."""

from __future__ import annotations

__all__: list[str] = []
