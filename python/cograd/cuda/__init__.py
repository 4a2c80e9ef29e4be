# SPDX-License-Identifier: BSD-3-Clause
"""NVIDIA GPUs: devices, streams, memory, random numbers.

Without a GPU, functions that query, wait, seed or free return or do nothing, and functions that
need one raise RuntimeError and say why there is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cograd._base import absent as _absent
from cograd._C import OutOfMemoryError
from cograd.cuda import memory, nvtx, random, streams
from cograd.cuda._devices import (
    current_device,
    device,
    device_count,
    device_of,
    get_arch_list,
    get_device_capability,
    get_device_name,
    get_device_properties,
    init,
    is_available,
    is_bf16_supported,
    is_initialized,
    is_tf32_supported,
    set_device,
    synchronize,
)
from cograd.cuda._fallback import fallback_stats, get_fallback, set_fallback
from cograd.cuda._kernel import Kernel, kernel
from cograd.cuda._precompile import precompile
from cograd.cuda.memory import *  # noqa: F403
from cograd.cuda.random import *  # noqa: F403
from cograd.cuda.streams import *  # noqa: F403

__all__ = [
    "CUDAGraph",
    "Kernel",
    "OutOfMemoryError",
    "amp",
    "current_device",
    "device",
    "device_count",
    "device_of",
    "fallback_stats",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_fallback",
    "get_sync_debug_mode",
    "graph",
    "init",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "kernel",
    "make_graphed_callables",
    "nvtx",
    "precompile",
    "set_device",
    "set_fallback",
    "set_sync_debug_mode",
    "synchronize",
    *memory.__all__,
    *random.__all__,
    *streams.__all__,
]

_initialized = False  # packages read this
has_half = True
has_magma = False
default_generators: tuple[Any, ...] = ()


class CUDAGraph:
    """torch's type of recorded streams. It has no instances; creating one raises RuntimeError."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(
            f"cuda.{type(self).__name__} requires CUDA support that cograd does not have: streams "
            "are not recorded"
        )


class graph(CUDAGraph):
    """torch's block that records a stream; creating one raises RuntimeError."""


def make_graphed_callables(callables: Any, sample_args: Any, *args: Any, **kwargs: Any) -> Any:
    """Raises RuntimeError: streams are not recorded."""
    return CUDAGraph()


def is_current_stream_capturing() -> bool:
    """Returns False: streams are not recorded."""
    return False


def get_sync_debug_mode() -> int:
    """Returns 0: waits are not reported."""
    return 0


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Does nothing: waits are not reported."""


from cograd.cuda import amp  # noqa: E402

if not TYPE_CHECKING:
    __getattr__ = _absent.reporter(__name__)
