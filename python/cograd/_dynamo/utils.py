# SPDX-License-Identifier: BSD-3-Clause
# Written by make stubs from the rows of python/surface/faces.toml: change those.
"""torch._dynamo.utils for a library without a compiler: no event is counted."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

__all__ = [
    "counters",
    "is_compile_supported",
]

counters: defaultdict[str, Counter[str]] = defaultdict(Counter)


def is_compile_supported(device_type: Any) -> bool:
    """Returns False."""
    return False
