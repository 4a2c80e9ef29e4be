# SPDX-License-Identifier: BSD-3-Clause
"""Names ranges of a program for NVIDIA's profilers; does nothing without libnvToolsExt."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from functools import cache
from typing import Any

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


@cache
def _library() -> Any:
    try:
        found = ctypes.CDLL("libnvToolsExt.so.1")
        found.nvtxRangeStartA.restype = ctypes.c_uint64
        found.nvtxRangeEnd.argtypes = [ctypes.c_uint64]
    except (OSError, AttributeError):
        return None
    return found


def range_push(msg: str) -> int:
    """Begins a range inside of this thread's current one; returns its depth, from 0."""
    library = _library()
    return int(library.nvtxRangePushA(msg.encode())) if library else -1


def range_pop() -> int:
    """Ends this thread's innermost range; returns its depth."""
    library = _library()
    return int(library.nvtxRangePop()) if library else -1


def range_start(msg: str) -> int:
    """Begins a range that any thread can end; returns its handle."""
    library = _library()
    return int(library.nvtxRangeStartA(msg.encode())) if library else 0


def range_end(range_id: int) -> None:
    """Ends a range that ``range_start`` began."""
    library = _library()
    if library:
        library.nvtxRangeEnd(range_id)


def mark(msg: str) -> None:
    """Marks a moment."""
    library = _library()
    if library:
        library.nvtxMarkA(msg.encode())


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """Names a block, or a function as a decorator; arguments go to ``msg.format``."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
