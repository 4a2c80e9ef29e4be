# SPDX-License-Identifier: BSD-3-Clause
"""Functions that return a property of one tensor, or compare two tensors."""

from __future__ import annotations

from cograd._C import Tensor

__all__ = ["get_device", "is_conj", "is_distributed", "is_neg", "is_same_size", "is_signed"]


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Returns whether both tensors have the same shape."""
    return bool(input.shape == other.shape)


def is_signed(input: Tensor) -> bool:
    """Returns whether ``input``'s dtype can represent negative numbers."""
    return input.is_signed()


def is_conj(input: Tensor) -> bool:
    """Returns False: conjugates are computed eagerly."""
    return False


def is_neg(input: Tensor) -> bool:
    """Returns False: negatives are computed eagerly."""
    return False


def is_distributed(input: Tensor) -> bool:
    """Returns False: no tensor is distributed."""
    return False


def get_device(input: Tensor) -> int:
    """Returns the index of the GPU that ``input`` is on, or -1 on the CPU."""
    return int(input.get_device())
