# SPDX-License-Identifier: BSD-3-Clause
# Written by make stubs from the rows of python/surface/switches.toml: change those.
"""Switches of cuDNN, a library for GPUs: stored without effect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cograd._as_torch.stored import store as _store

__all__ = [
    "allow_tf32",
    "benchmark",
    "benchmark_limit",
    "depthwise_kernel",
    "deterministic",
    "enabled",
    "flags",
    "fp32_precision",
    "is_acceptable",
    "is_available",
    "set_flags",
    "version",
]

enabled = True
benchmark = False
benchmark_limit: int | None = None
deterministic = False
allow_tf32 = True
fp32_precision = "none"
depthwise_kernel = "auto"


def version() -> None:
    """Returns None: cograd does not use cuDNN."""


def is_available() -> bool:
    """Returns False."""
    return False


def is_acceptable(tensor: Any) -> bool:
    """Returns False: no tensor is on a GPU."""
    return False


def set_flags(
    _enabled: bool | None = None,
    _benchmark: bool | None = None,
    _benchmark_limit: int | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
    _fp32_precision: str = "none",
    _depthwise_kernel: str | None = None,
) -> tuple[Any, ...]:
    """Stores the given switches and returns the former values of all."""
    before: tuple[Any, ...] = _store(
        globals(),
        enabled=_enabled,
        benchmark=_benchmark,
        benchmark_limit=_benchmark_limit,
        deterministic=_deterministic,
        allow_tf32=_allow_tf32,
        fp32_precision=_fp32_precision,
        depthwise_kernel=_depthwise_kernel,
    )
    return before


_SWITCHES = (
    "enabled",
    "benchmark",
    "benchmark_limit",
    "deterministic",
    "allow_tf32",
    "fp32_precision",
    "depthwise_kernel",
)


@contextmanager
def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
    fp32_precision: str = "none",
    depthwise_kernel: str = "auto",
) -> Iterator[None]:
    """Stores the switches for the duration of a with block."""
    before = {name: globals()[name] for name in _SWITCHES}
    set_flags(
        enabled,
        benchmark,
        benchmark_limit,
        deterministic,
        allow_tf32,
        fp32_precision,
        depthwise_kernel,
    )
    try:
        yield
    finally:
        globals().update(before)
