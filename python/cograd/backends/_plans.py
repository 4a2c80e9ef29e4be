# SPDX-License-Identifier: BSD-3-Clause
"""The plans that NVIDIA's libraries have made for GPUs and that are kept."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import _C

__all__ = ["CONVOLUTION", "FFT", "PlanCache", "PlanCaches"]

FFT, CONVOLUTION = 0, 1  # PlanKind of csrc/tensor/backend.h


class PlanCache:
    """The plans of one GPU, or of the current one. The one that was used last is freed last.

    Without a GPU the cache is empty and has no room.
    """

    _kind: int
    _name: str  # stands in messages
    _index: int  # -1 is the current GPU

    def __init__(self, kind: int, name: str, index: int = -1) -> None:
        for key, value in (("_kind", kind), ("_name", name), ("_index", index)):
            object.__setattr__(self, key, value)

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
            raise TypeError(f"{self._name}.max_size: expected an int, but got {type(n).__name__}")
        if n < 0:
            raise RuntimeError(f"{self._name}.max_size must be at least 0, but got {n}")
        if _C._cuda_count():
            _C._cuda_limit_plans(self._kind, self._index, n)

    def clear(self) -> None:
        """Frees all plans."""
        if _C._cuda_started():
            _C._cuda_clear_plans(self._kind, self._index)

    def _numbers(self) -> tuple[int, int]:
        numbers: tuple[int, int] = _C._cuda_plans(self._kind, self._index)
        return numbers

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "size":
            raise RuntimeError(
                f"{self._name}.size is read-only: it is the number of plans that are kept. "
                f"{self._name}.max_size limits it"
            )
        object.__setattr__(self, name, value)


class PlanCaches(PlanCache):
    """The plans of the current GPU; an index chooses another."""

    def __getitem__(self, device: Any) -> PlanCache:
        if isinstance(device, str):
            device = cograd.device(device)
        if isinstance(device, cograd.device):
            if device.type != "cuda":
                raise ValueError(f"{self._name}: expected a cuda device, but got: {device}")
            device = -1 if device.index is None else device.index
            if device < 0:
                return self
        if isinstance(device, bool) or not isinstance(device, int):
            raise TypeError(
                f"{self._name}: expected a cuda device or its index, but got: "
                f"{type(device).__name__}"
            )
        count = _C._cuda_count()
        if not 0 <= device < count:
            raise RuntimeError(
                f"{self._name}: expected 0 <= device index < {count}, but got index {device}"
            )
        return PlanCache(self._kind, self._name, device)
