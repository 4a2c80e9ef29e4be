# SPDX-License-Identifier: BSD-3-Clause
"""NVIDIA GPUs: devices, streams, memory, random numbers.

Without a GPU, functions that query, wait, seed or free return or do nothing, and functions that
need one raise RuntimeError and say why there is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cograd._base import absent as _absent
from cograd._C import OutOfMemoryError
from cograd._tensor.legacy import ON_GPU as _ON_GPU
from cograd.cuda import graphs, memory, nvtx, random, streams
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
from cograd.cuda._sync_debug import get_sync_debug_mode, set_sync_debug_mode
from cograd.cuda.graphs import *  # noqa: F403
from cograd.cuda.memory import *  # noqa: F403
from cograd.cuda.random import *  # noqa: F403
from cograd.cuda.streams import *  # noqa: F403

__all__ = [
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
    "graphs",
    "init",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "is_tf32_supported",
    "kernel",
    "nvtx",
    "precompile",
    "set_device",
    "set_fallback",
    "set_sync_debug_mode",
    "synchronize",
    *graphs.__all__,
    *memory.__all__,
    *random.__all__,
    *streams.__all__,
    *_ON_GPU,
]

_initialized = False  # packages read this
has_half = True
has_magma = False
default_generators: tuple[Any, ...] = ()
globals().update(_ON_GPU)


from cograd.cuda import amp  # noqa: E402

if not TYPE_CHECKING:
    __getattr__ = _absent.reporter(__name__)
