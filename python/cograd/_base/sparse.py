# SPDX-License-Identifier: BSD-3-Clause
"""What cograd.sparse registers when it is imported, for the packages that it imports itself."""

from __future__ import annotations

from typing import Any

__all__ = ["registered"]

# Empty as long as no program has used a sparse tensor.
registered: dict[str, Any] = {}
