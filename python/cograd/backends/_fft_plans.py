# SPDX-License-Identifier: BSD-3-Clause
"""Caches of the plans that cuFFT makes for Fourier transforms, one for each GPU."""

from __future__ import annotations

from typing import Any, NoReturn

import cograd
from cograd import _C

__all__ = ["PlanCache", "PlanCaches"]


class PlanCache:
    """The plans of one GPU, or of the current one. The one that was used last is freed last.

    Without a GPU the cache is empty and has no room.
    """

    _index: int  # -1 is the current GPU

    def __init__(self, index: int = -1) -> None:
        object.__setattr__(self, "_index", index)

    @property
    def size(self) -> int:
        """The number of plans."""
        return self._numbers()[0] if _C._cuda_started() else 0

    @property
    def max_size(self) -> int:
        """The largest number of plans, at first 4096. With 0, none is kept."""
        return self._numbers()[1] if _C._cuda_count() else 0

    @max_size.setter
    def max_size(self, n: int) -> None:
        if isinstance(n, bool) or not isinstance(n, int):
            raise TypeError(
                f"cufft_plan_cache.max_size: expected an int, but got {type(n).__name__}"
            )
        if n < 0:
            raise RuntimeError(f"cufft_plan_cache.max_size must be at least 0, but got {n}")
        if _C._cuda_count():
            _C._cuda_limit_fft_plans(self._index, n)

    def clear(self) -> None:
        """Frees all plans."""
        if _C._cuda_started():
            _C._cuda_clear_fft_plans(self._index)

    def _numbers(self) -> tuple[int, int]:
        numbers: tuple[int, int] = _C._cuda_fft_plans(self._index)
        return numbers

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "size":
            _read_only()
        object.__setattr__(self, name, value)


def _read_only() -> NoReturn:
    raise RuntimeError(
        "cufft_plan_cache.size is read-only: it is the number of plans that are kept. "
        "cufft_plan_cache.max_size limits it"
    )


class PlanCaches(PlanCache):
    """``backends.cuda.cufft_plan_cache``: the current GPU's cache; an index gives another GPU's."""

    def __getitem__(self, device: Any) -> PlanCache:
        if isinstance(device, str):
            device = cograd.device(device)
        if isinstance(device, cograd.device):
            if device.type != "cuda":
                raise ValueError(f"cufft_plan_cache: expected a cuda device, but got: {device}")
            device = -1 if device.index is None else device.index
            if device < 0:
                return self
        if isinstance(device, bool) or not isinstance(device, int):
            raise TypeError(
                "cufft_plan_cache: expected a cuda device or its index, but got: "
                f"{type(device).__name__}"
            )
        count = _C._cuda_count()
        if not 0 <= device < count:
            raise RuntimeError(
                f"cufft_plan_cache: expected 0 <= device index < {count}, but got index {device}"
            )
        return PlanCache(device)
