# SPDX-License-Identifier: BSD-3-Clause
"""torch.cuda for a library without GPUs.

Functions that query, wait, seed or free return or do nothing; functions that need a GPU raise.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from cograd._base import absent as _absent
from cograd._C import OutOfMemoryError

__all__ = [
    "CUDAGraph",
    "Event",
    "OutOfMemoryError",
    "Stream",
    "amp",
    "current_device",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "get_allocator_backend",
    "get_arch_list",
    "get_rng_state",
    "get_rng_state_all",
    "get_sync_debug_mode",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "set_sync_debug_mode",
    "synchronize",
]

_initialized = False  # packages read this

_NONE = (
    "cograd runs on the CPU only, so there is no cuda device to use; ask cuda.is_available() "
    "first, or pass device='cpu'"
)


def _no_gpu(what: str) -> NoReturn:
    raise RuntimeError(f"cuda.{what}: {_NONE}")


class _OfGpu:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(f"cuda.{type(self).__name__} requires CUDA support: {_NONE}")


def is_available() -> bool:
    """Returns False: cograd runs on the CPU."""
    return False


def device_count() -> int:
    """Returns 0."""
    return 0


# ---- seeds and states: there are no generators to seed -------------------------------------------


def manual_seed(seed: int) -> None:
    """Does nothing; ``cograd.manual_seed`` seeds the CPU."""
    int(seed)


def manual_seed_all(seed: int) -> None:
    """Does nothing."""
    int(seed)


def get_rng_state_all() -> list[Any]:
    """Returns an empty list."""
    return []


def set_rng_state_all(new_states: Iterable[Any]) -> None:
    """Does nothing for an empty list: there are no devices with states.

    Raises:
        RuntimeError: the list is not empty.
    """
    if list(new_states):
        _no_gpu("set_rng_state_all()")


# ---- devices -------------------------------------------------------------------------------------


@contextlib.contextmanager
def device(device: Any) -> Iterator[None]:
    """Does nothing for None or a negative number, as torch does without a GPU.

    Raises:
        RuntimeError: a device is named.
    """
    if device is not None and not (isinstance(device, int) and device < 0):
        _no_gpu(f"device({device!r})")
    yield


@contextlib.contextmanager
def device_of(obj: Any) -> Iterator[None]:
    """Does nothing: no tensor is on a GPU."""
    yield


# ---- rows of python/surface/faces.toml, written by make stubs ------------------------------------

has_half = False
has_magma = False
default_generators: tuple[Any, ...] = ()


class Stream(_OfGpu):
    """torch's type of GPU queues. It has no instances; creating one raises RuntimeError."""


class Event(_OfGpu):
    """torch's type of marks in a queue. It has no instances; creating one raises RuntimeError."""


class CUDAGraph(_OfGpu):
    """torch's type of recorded queues. It has no instances; creating one raises RuntimeError."""


class StreamContext(_OfGpu):
    """torch's block for a GPU queue. It has no instances; creating one raises RuntimeError."""


class graph(_OfGpu):
    """torch's block that records a queue. It has no instances; creating one raises RuntimeError."""


def is_initialized() -> bool:
    """Returns False."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Returns False."""
    return False


def is_tf32_supported() -> bool:
    """Returns False."""
    return False


def is_current_stream_capturing() -> bool:
    """Returns False."""
    return False


def get_arch_list() -> list[str]:
    """Returns an empty list."""
    return []


def get_allocator_backend() -> str:
    """Returns "native"."""
    return "native"


def get_sync_debug_mode() -> int:
    """Returns 0."""
    return 0


def memory_allocated(device: Any = None) -> int:
    """Returns 0."""
    return 0


def max_memory_allocated(device: Any = None) -> int:
    """Returns 0."""
    return 0


def memory_reserved(device: Any = None) -> int:
    """Returns 0."""
    return 0


def max_memory_reserved(device: Any = None) -> int:
    """Returns 0."""
    return 0


def memory_stats(device: Any = None) -> dict[str, Any]:
    """Returns an empty dict."""
    return {}


def memory_snapshot(mempool_id: Any = None) -> list[Any]:
    """Returns an empty list."""
    return []


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """Returns "no cuda device"."""
    return "no cuda device"


def seed() -> None:
    """Does nothing."""


def seed_all() -> None:
    """Does nothing."""


def synchronize(device: Any = None) -> None:
    """Does nothing: work is done when a call returns."""


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Does nothing."""


def empty_cache() -> None:
    """Does nothing."""


def ipc_collect() -> None:
    """Does nothing."""


def reset_peak_memory_stats(device: Any = None) -> None:
    """Does nothing."""


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Does nothing."""


def reset_max_memory_allocated(device: Any = None) -> None:
    """Does nothing."""


def reset_max_memory_cached(device: Any = None) -> None:
    """Does nothing."""


def init() -> None:
    """Raises RuntimeError: there is no device."""
    _no_gpu("init()")


def initial_seed() -> int:
    """Raises RuntimeError: there is no device."""
    _no_gpu("initial_seed()")


def get_rng_state(device: Any = "cuda") -> Any:
    """Raises RuntimeError: there is no device."""
    _no_gpu("get_rng_state()")


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Raises RuntimeError: there is no device."""
    _no_gpu("set_rng_state()")


def current_device() -> int:
    """Raises RuntimeError: there is no device."""
    _no_gpu("current_device()")


def set_device(device: Any) -> None:
    """Raises RuntimeError: there is no device."""
    _no_gpu("set_device()")


memory_cached = memory_reserved
max_memory_cached = max_memory_reserved


# ---- end of the rows -----------------------------------------------------------------------------

from cograd.cuda import amp  # noqa: E402

if not TYPE_CHECKING:
    __getattr__ = _absent.reporter(__name__)
