# SPDX-License-Identifier: BSD-3-Clause
"""The addresses of a tensor's elements in memory."""

from __future__ import annotations

from cograd._C import Tensor


def memory_range(tensor: Tensor) -> tuple[int, int]:
    """Returns the first address a tensor uses and the first one after its last element."""
    start = tensor.data_ptr()
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return start, start + (last + 1) * tensor.element_size()


def overlap(a: Tensor, b: Tensor) -> bool:
    """Returns whether the memory ranges of two tensors overlap."""
    if a.numel() == 0 or b.numel() == 0:
        return False
    (a0, a1), (b0, b1) = memory_range(a), memory_range(b)
    return a0 < b1 and b0 < a1
