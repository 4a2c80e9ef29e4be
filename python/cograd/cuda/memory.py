# SPDX-License-Identifier: BSD-3-Clause
"""Reports the memory of each GPU that tensors use and that the allocator keeps, in bytes."""

from __future__ import annotations

from typing import Any

from cograd import _C
from cograd.cuda._devices import index_of

__all__ = [
    "empty_cache",
    "get_allocator_backend",
    "ipc_collect",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
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
]


def memory_stats(device: Any = None) -> dict[str, Any]:
    """Returns the counts of a GPU's allocator under torch's names; {} before its first use."""
    if not _C._cuda_started():
        return {}
    stats: dict[str, Any] = _C._cuda_memory(index_of(device, "memory_stats()"))
    return stats


def memory_allocated(device: Any = None) -> int:
    """Returns the bytes that tensors hold."""
    return int(memory_stats(device).get("allocated_bytes.all.current", 0))


def max_memory_allocated(device: Any = None) -> int:
    """Returns the most bytes that tensors have held."""
    return int(memory_stats(device).get("allocated_bytes.all.peak", 0))


def memory_reserved(device: Any = None) -> int:
    """Returns the bytes that the allocator has from the driver, for tensors and for later."""
    return int(memory_stats(device).get("reserved_bytes.all.current", 0))


def max_memory_reserved(device: Any = None) -> int:
    """Returns the most bytes that the allocator has had from the driver."""
    return int(memory_stats(device).get("reserved_bytes.all.peak", 0))


memory_cached = memory_reserved
max_memory_cached = max_memory_reserved


def memory_snapshot(mempool_id: Any = None) -> list[Any]:
    """Returns an empty list: the allocator keeps no history."""
    return []


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """Returns a table of the allocator's counts."""
    stats = memory_stats(device)
    if not stats:
        return "no cuda device" if _C._cuda_count() == 0 else "the cuda device was not used yet"
    rows = [f"{'':24}{'now':>12}{'peak':>12}{'ever':>14}"]
    for title, name, unit in (
        ("tensors", "allocation", 1),
        ("tensors, MiB", "allocated_bytes", 1 << 20),
        ("from the driver", "segment", 1),
        ("from the driver, MiB", "reserved_bytes", 1 << 20),
    ):
        now, peak, ever = (
            stats[f"{name}.all.{k}"] / unit for k in ("current", "peak", "allocated")
        )
        digits = 0 if unit == 1 else 1
        rows.append(f"{title:24}{now:12.{digits}f}{peak:12.{digits}f}{ever:14.{digits}f}")
    rows.append(f"retries {stats['num_alloc_retries']}, out of memory {stats['num_ooms']}")
    return "\n".join(rows)


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Returns the free and the total bytes of a GPU, as its driver counts them."""
    free, total = _C._cuda_free_and_total(index_of(device, "mem_get_info()"))
    return free, total


def empty_cache() -> None:
    """Gives back to the driver what the allocators keep for later."""
    if _C._cuda_started():
        for index in range(_C._cuda_count()):
            _C._cuda_release_cached(index)


def ipc_collect() -> None:
    """Does nothing: memory is not shared between processes."""


def reset_peak_memory_stats(device: Any = None) -> None:
    """Makes the peaks what is held now."""
    if _C._cuda_started():
        _C._cuda_reset_peaks(index_of(device, "reset_peak_memory_stats()"))


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Does nothing: the sums count from the start of the process."""


reset_max_memory_allocated = reset_peak_memory_stats
reset_max_memory_cached = reset_peak_memory_stats


def get_allocator_backend() -> str:
    """Returns "native": cograd's own allocator."""
    return "native"
