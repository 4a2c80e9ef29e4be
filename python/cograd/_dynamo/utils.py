# SPDX-License-Identifier: BSD-3-Clause
"""Questions to torch's compiler: there is none."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

__all__ = ["counters", "is_compile_supported"]

counters: defaultdict[str, Counter[str]] = defaultdict(Counter)  # of events: none is counted


def is_compile_supported(device_type: Any) -> bool:
    """Always False."""
    return False
