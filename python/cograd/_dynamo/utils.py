# SPDX-License-Identifier: BSD-3-Clause
"""torch._dynamo.utils for a library without a compiler."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

__all__ = ["counters", "is_compile_supported"]

counters: defaultdict[str, Counter[str]] = defaultdict(Counter)  # counters of events, always empty


def is_compile_supported(device_type: Any) -> bool:
    """Returns False."""
    return False
