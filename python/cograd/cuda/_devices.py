# SPDX-License-Identifier: BSD-3-Clause
"""Reports which GPUs there are and which one is current; sets the current one."""

from __future__ import annotations

import contextlib
import ctypes.util
import functools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import cograd
from cograd import _C


def no_gpu(what: str) -> NoReturn:
    """Raises RuntimeError: there is no GPU for ``cuda.what``, and why."""
    raise RuntimeError(
        f"cuda.{what}: there is no cuda device to use: {_C._cuda_failure()}; ask "
        "cuda.is_available() first, or pass device='cpu'"
    )


def index_of(device: Any, what: str) -> int:
    """Returns the index of a GPU; None is the current one.

    Raises:
        RuntimeError: there is no GPU, or none with that index.
        ValueError: the device is not a GPU.
    """
    if _C._cuda_count() == 0:
        no_gpu(what)
    if isinstance(device, str):
        device = cograd.device(device)
    if isinstance(device, cograd.device):
        if device.type != "cuda":
            raise ValueError(f"cuda.{what}: expected a cuda device, but got: {device}")
        device = device.index
    index = _C._cuda_current() if device is None else int(device)
    if not 0 <= index < device_count():
        raise RuntimeError(
            f"CUDA error: invalid device ordinal: cuda.{what} got index {index}, "
            f"but there are {device_count()} GPUs"
        )
    return index


def device_count() -> int:
    """Returns the number of GPUs, without starting the driver."""
    return int(_C._cuda_count())


@functools.cache
def has_compiler() -> bool:
    """Returns whether NVRTC, which compiles the kernels, is found where the core looks for it."""
    if own := os.environ.get("COGRAD_NVRTC"):
        return os.path.isfile(own)
    packages = Path(cograd.__file__).parents[1] / "nvidia"
    wheels = ("cu13/lib/libnvrtc.so.13", "cuda_nvrtc/lib/libnvrtc.so.12")
    if any((packages / name).is_file() for name in wheels):
        return True
    return ctypes.util.find_library("nvrtc") is not None


def is_available() -> bool:
    """Returns whether there is a GPU and a compiler for its kernels; does not start the driver.

    Without ``pip install 'cograd[cuda]'``, programs that ask this go on on the CPU.
    """
    return device_count() > 0 and has_compiler()


def init() -> None:
    """Starts the driver; it starts by itself when a GPU is first used.

    Raises:
        RuntimeError: there is no GPU.
    """
    current_device()


def is_initialized() -> bool:
    """Returns whether the driver has started."""
    return bool(_C._cuda_started())


def current_device() -> int:
    """Returns the index of the GPU that ``device("cuda")`` means on this thread.

    Raises:
        RuntimeError: there is no GPU.
    """
    return index_of(None, "current_device()")


def set_device(device: Any) -> None:
    """Makes a GPU the current one of this thread; does nothing for a negative index.

    Raises:
        RuntimeError: there is no such GPU.
    """
    if isinstance(device, int) and device < 0 and device_count() > 0:
        return
    _C._cuda_set_current(index_of(device, f"set_device({device!r})"))


@contextlib.contextmanager
def device(device: Any) -> Iterator[None]:
    """Makes a GPU the current one in the block; does nothing for None or a negative index.

    Raises:
        RuntimeError: there is no such GPU.
    """
    if device is None or (isinstance(device, int) and device < 0):
        yield
        return
    index = index_of(device, f"device({device!r})")
    before = _C._cuda_current()
    _C._cuda_set_current(index)
    try:
        yield
    finally:
        _C._cuda_set_current(before)


@contextlib.contextmanager
def device_of(obj: Any) -> Iterator[None]:
    """Makes the GPU of a tensor the current one in the block; does nothing for other tensors."""
    with device(obj.get_device() if getattr(obj, "is_cuda", False) else None):
        yield


class DeviceProperties(NamedTuple):
    """The properties of a GPU. Sizes of memory are in bytes."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    warp_size: int
    max_threads_per_multi_processor: int
    shared_memory_per_block: int
    shared_memory_per_block_optin: int
    regs_per_multiprocessor: int
    L2_cache_size: int


def get_device_properties(device: Any = None) -> DeviceProperties:
    """Returns the properties of a GPU; None is the current one."""
    return DeviceProperties(**_C._cuda_properties(index_of(device, "get_device_properties()")))


def get_device_name(device: Any = None) -> str:
    """Returns the name of a GPU, such as "NVIDIA H200"."""
    return get_device_properties(device).name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """Returns the compute capability of a GPU, such as (9, 0)."""
    p = get_device_properties(device)
    return p.major, p.minor


def get_arch_list() -> list[str]:
    """Returns the architectures of the GPUs: kernels are compiled for these when first used."""
    found = {get_device_capability(i) for i in range(device_count())}
    return [f"sm_{major}{minor}" for major, minor in sorted(found)]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Returns whether the current GPU computes with bfloat16 (capability 8.0), or emulates it."""
    return is_available() and (including_emulation or get_device_capability() >= (8, 0))


def is_tf32_supported() -> bool:
    """Returns whether the current GPU has TF32 products (capability 8.0)."""
    return is_available() and get_device_capability() >= (8, 0)


def synchronize(device: Any = None) -> None:
    """Waits until a GPU has done all its work; returns at once without a GPU."""
    if is_initialized():
        _C._cuda_synchronize(index_of(device, "synchronize()"))
