# SPDX-License-Identifier: BSD-3-Clause
"""The pooling functions of the package's top level, which lack ``return_indices``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cograd import Tensor

from . import pool

Sizes = int | Sequence[int]


def _found(
    n: int,
    input: Tensor,
    kernel_size: Sizes,
    stride: Any,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool,
) -> tuple[Tensor, Tensor]:
    op = (
        pool.max_pool1d_with_indices,
        pool.max_pool2d_with_indices,
        pool.max_pool3d_with_indices,
    )[n - 1]
    first, second = op(input, kernel_size, stride, padding, dilation, ceil_mode)
    return first, second


def max_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes = (),
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """Returns the largest element of each window of (N, C, L)."""
    return _found(1, input, kernel_size, stride, padding, dilation, ceil_mode)[0]


def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes = (),
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:
    """Returns the largest element of each window of (N, C, L), and their indices."""
    return _found(1, input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes = (),
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """Returns the largest element of each window of (N, C, H, W)."""
    return _found(2, input, kernel_size, stride, padding, dilation, ceil_mode)[0]


def max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes = (),
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """Returns the largest element of each window of (N, C, D, H, W)."""
    return _found(3, input, kernel_size, stride, padding, dilation, ceil_mode)[0]


def adaptive_max_pool1d(input: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
    """Pools to ``output_size`` windows; returns the largest elements and their indices."""
    first, second = pool.adaptive_max_pool1d_with_indices(input, output_size)
    return first, second
