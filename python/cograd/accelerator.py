# SPDX-License-Identifier: BSD-3-Clause
"""The kind of accelerator that this machine has, and its functions: NVIDIA's GPUs, or none."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import cograd
from cograd._base import absent as _absent
from cograd.cuda import current_device as current_device_index
from cograd.cuda import (
    current_stream,
    device_count,
    empty_cache,
    is_available,
    max_memory_allocated,
    max_memory_reserved,
    memory_allocated,
    memory_reserved,
    memory_stats,
    reset_peak_memory_stats,
    set_stream,
    synchronize,
)
from cograd.cuda import set_device as set_device_index

__all__ = [
    "current_accelerator",
    "current_device_idx",
    "current_device_index",
    "current_stream",
    "device_count",
    "device_index",
    "empty_cache",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_peak_memory_stats",
    "set_device_idx",
    "set_device_index",
    "set_stream",
    "synchronize",
]

current_device_idx = current_device_index
set_device_idx = set_device_index


def current_accelerator(check_available: bool = False) -> Any:
    """Returns ``device("cuda")``; None if there is no GPU."""
    return cograd.device("cuda") if is_available() else None


@contextlib.contextmanager
def device_index(device: int | None) -> Iterator[None]:
    """Makes a device the current one in the block; does nothing for None."""
    with cograd.cuda.device(device):
        yield


if not TYPE_CHECKING:
    __getattr__ = _absent.reporter(__name__)
