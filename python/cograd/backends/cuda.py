# SPDX-License-Identifier: BSD-3-Clause
"""The plans of Fourier transforms; switches of torch's GPU kernels, stored without effect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from cograd.backends._plans import FFT, PlanCaches

__all__ = [
    "cudnn_sdp_enabled",
    "cufft_plan_cache",
    "enable_cudnn_sdp",
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "flash_sdp_enabled",
    "is_built",
    "math_sdp_enabled",
    "matmul",
    "mem_efficient_sdp_enabled",
    "sdp_kernel",
]

# ---- rows of python/surface/switches.toml, written by make stubs ---------------------------------

matmul = SimpleNamespace(
    allow_tf32=False,
    allow_fp16_reduced_precision_reduction=True,
    allow_bf16_reduced_precision_reduction=True,
    allow_fp16_accumulation=False,
    fp32_precision="none",
)


def is_built() -> bool:
    """Returns False."""
    return False


_stored: dict[str, Any] = {}


def enable_flash_sdp(enabled: bool) -> None:
    """Stores the flag, which has no effect: attention is always computed in blocks."""
    _stored["flash_sdp_enabled"] = enabled


def flash_sdp_enabled() -> bool:
    """Returns the value of ``enable_flash_sdp``; at first True."""
    value: bool = _stored.get("flash_sdp_enabled", True)
    return value


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Stores the flag, which has no effect: attention is always computed in blocks."""
    _stored["mem_efficient_sdp_enabled"] = enabled


def mem_efficient_sdp_enabled() -> bool:
    """Returns the value of ``enable_mem_efficient_sdp``; at first True."""
    value: bool = _stored.get("mem_efficient_sdp_enabled", True)
    return value


def enable_math_sdp(enabled: bool) -> None:
    """Stores the flag, which has no effect: attention is always computed in blocks."""
    _stored["math_sdp_enabled"] = enabled


def math_sdp_enabled() -> bool:
    """Returns the value of ``enable_math_sdp``; at first True."""
    value: bool = _stored.get("math_sdp_enabled", True)
    return value


def enable_cudnn_sdp(enabled: bool) -> None:
    """Stores the flag, which has no effect: attention is always computed in blocks."""
    _stored["cudnn_sdp_enabled"] = enabled


def cudnn_sdp_enabled() -> bool:
    """Returns the value of ``enable_cudnn_sdp``; at first True."""
    value: bool = _stored.get("cudnn_sdp_enabled", True)
    return value


# ---- end of the rows -----------------------------------------------------------------------------

cufft_plan_cache = PlanCaches(FFT, "cufft_plan_cache")


@contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[None]:
    """Stores the four flags for the duration of a with block."""
    before = dict(_stored)
    enable_flash_sdp(enable_flash)
    enable_math_sdp(enable_math)
    enable_mem_efficient_sdp(enable_mem_efficient)
    enable_cudnn_sdp(enable_cudnn)
    try:
        yield
    finally:
        _stored.clear()
        _stored.update(before)
