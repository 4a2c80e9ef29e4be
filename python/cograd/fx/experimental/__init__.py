# SPDX-License-Identifier: BSD-3-Clause
"""What torch calls experimental: fusion."""

from __future__ import annotations

__all__: list[str] = []
