# SPDX-License-Identifier: BSD-3-Clause
"""What passes share: matching."""

from __future__ import annotations

__all__: list[str] = []
