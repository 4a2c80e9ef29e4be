# SPDX-License-Identifier: BSD-3-Clause
"""Switches of torch's GPU kernels, which cograd does not have: stored without effect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

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

matmul = SimpleNamespace(
    allow_tf32=False,
    allow_fp16_reduced_precision_reduction=True,
    allow_bf16_reduced_precision_reduction=True,
    allow_fp16_accumulation=False,
    fp32_precision="none",
)
cufft_plan_cache = SimpleNamespace(size=0, max_size=0, clear=lambda: None)
_attention = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def is_built() -> bool:
    """Returns False."""
    return False


def flash_sdp_enabled() -> bool:
    """Returns the value of ``enable_flash_sdp``; True at first."""
    return _attention["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Stores the flag, which has no effect: attention is always computed in blocks."""
    _attention["flash"] = enabled


def mem_efficient_sdp_enabled() -> bool:
    """Returns the value of ``enable_mem_efficient_sdp``; True at first."""
    return _attention["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Stores the flag, which has no effect: attention is always computed in blocks."""
    _attention["mem_efficient"] = enabled


def math_sdp_enabled() -> bool:
    """Returns the value of ``enable_math_sdp``; True at first."""
    return _attention["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Stores the flag, which has no effect: attention is always computed in blocks."""
    _attention["math"] = enabled


def cudnn_sdp_enabled() -> bool:
    """Returns the value of ``enable_cudnn_sdp``; True at first."""
    return _attention["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Stores the flag, which has no effect: attention is always computed in blocks."""
    _attention["cudnn"] = enabled


@contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[None]:
    """Stores the four flags for the duration of a with block."""
    before = dict(_attention)
    _attention.update(
        flash=enable_flash,
        math=enable_math,
        mem_efficient=enable_mem_efficient,
        cudnn=enable_cudnn,
    )
    try:
        yield
    finally:
        _attention.update(before)
