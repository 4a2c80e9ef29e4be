# SPDX-License-Identifier: BSD-3-Clause
"""Pooling: means, maxima and norms of windows over the last dims of (N, C, *) or (C, *)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import cograd
from cograd import Tensor

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
]

_ops = cograd._C._ops
Sizes = int | Sequence[int]

avg_pool1d = cograd.avg_pool1d
avg_pool2d = cograd._C._nn.avg_pool2d
avg_pool3d = cograd._C._nn.avg_pool3d
adaptive_avg_pool1d = cograd.adaptive_avg_pool1d


def _sized(input: Tensor, output_size: Any, n: int) -> Any:
    """Returns ``output_size`` with the input's size in place of None."""
    if isinstance(output_size, int) or output_size is None:
        output_size = (output_size,) * n
    if input.dim() < len(output_size):
        return output_size
    last = input.shape[len(input.shape) - len(output_size) :]
    return tuple(
        have if want is None else want for want, have in zip(output_size, last, strict=True)
    )


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Averages windows so that the result has ``output_size`` (H, W); None keeps a size."""
    return cograd._C._nn.adaptive_avg_pool2d(input, _sized(input, output_size, 2))


def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Averages windows so that the result has ``output_size`` (D, H, W); None keeps a size."""
    return cograd._C._nn.adaptive_avg_pool3d(input, _sized(input, output_size, 3))


def _max_pool(n: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    op = getattr(_ops, f"max_pool{n}d_with_indices")

    def with_indices(
        input: Tensor,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> tuple[Tensor, Tensor]:
        return tuple(op(input, kernel_size, stride, padding, dilation, ceil_mode))

    def pool(
        input: Tensor,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        found = op(input, kernel_size, stride, padding, dilation, ceil_mode)
        return tuple(found) if return_indices else found[0]

    with_indices.__name__ = with_indices.__qualname__ = f"max_pool{n}d_with_indices"
    with_indices.__doc__ = "Returns the largest elements of windows and their flat indices."
    pool.__name__ = pool.__qualname__ = f"max_pool{n}d"
    pool.__doc__ = "Returns the largest elements of windows and, on request, their indices."
    return with_indices, pool


max_pool1d_with_indices, max_pool1d = _max_pool(1)
max_pool2d_with_indices, max_pool2d = _max_pool(2)
max_pool3d_with_indices, max_pool3d = _max_pool(3)


def _adaptive_max(n: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    op = getattr(_ops, f"adaptive_max_pool{n}d")

    def with_indices(
        input: Tensor, output_size: Any, return_indices: bool = False
    ) -> tuple[Tensor, Tensor]:
        return tuple(op(input, _sized(input, output_size, n)))

    def pool(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        found = op(input, _sized(input, output_size, n))
        return tuple(found) if return_indices else found[0]

    with_indices.__name__ = with_indices.__qualname__ = f"adaptive_max_pool{n}d_with_indices"
    with_indices.__doc__ = "Max-pools to ``output_size``; returns the indices, too."
    pool.__name__ = pool.__qualname__ = f"adaptive_max_pool{n}d"
    pool.__doc__ = "Max-pools to ``output_size``; with ``return_indices`` returns the indices too."
    return with_indices, pool


adaptive_max_pool1d_with_indices, adaptive_max_pool1d = _adaptive_max(1)
adaptive_max_pool2d_with_indices, adaptive_max_pool2d = _adaptive_max(2)
adaptive_max_pool3d_with_indices, adaptive_max_pool3d = _adaptive_max(3)


def _fractional(n: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    op = getattr(_ops, f"fractional_max_pool{n}d")
    name = f"fractional_max_pool{n}d"

    def with_indices(
        input: Tensor,
        kernel_size: Sizes,
        output_size: Sizes | None = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
        if output_size is None:
            ratios = output_ratio
            if not isinstance(ratios, (tuple, list)):
                ratios = (ratios,) * n
            if len(ratios) > n:
                raise ValueError(
                    f"{name} requires output_ratio to either be a single Int or tuple of Ints."
                )
            last = input.shape[len(input.shape) - n :]
            output_size = [int(size * ratio) for size, ratio in zip(last, ratios, strict=True)]
        if _random_samples is None:
            batch = 1 if input.dim() == n + 1 else input.shape[0]
            channels = input.shape[-n - 1]
            _random_samples = cograd.rand(
                batch, channels, n, dtype=input.dtype, device=input.device
            )
        return tuple(op(input, kernel_size, output_size, _random_samples))

    def pool(
        input: Tensor,
        kernel_size: Sizes,
        output_size: Sizes | None = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> Any:
        found = with_indices(
            input, kernel_size, output_size, output_ratio, return_indices, _random_samples
        )
        return found if return_indices else found[0]

    with_indices.__name__ = with_indices.__qualname__ = f"{name}_with_indices"
    with_indices.__doc__ = "Max-pools windows at random positions; returns the indices, too."
    pool.__name__ = pool.__qualname__ = name
    pool.__doc__ = "Max-pools windows at random positions (Graham 2014)."
    return with_indices, pool


fractional_max_pool2d_with_indices, fractional_max_pool2d = _fractional(2)
fractional_max_pool3d_with_indices, fractional_max_pool3d = _fractional(3)


def _each(value: Sizes, n: int) -> tuple[int, ...]:
    if isinstance(value, int):
        return (value,) * n
    return tuple(value) if len(value) == n else (value[0],) * n


def _unpool_size(
    input: Tensor,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    output_size: Any,
) -> list[int]:
    n = len(kernel)
    last = input.shape[len(input.shape) - n :]
    default = [
        (size - 1) * s + k - 2 * p
        for size, s, k, p in zip(last, stride, kernel, padding, strict=True)
    ]
    if output_size is None:
        return default
    wanted: list[int] = list(output_size)
    if len(wanted) == n + 2:
        wanted = wanted[2:]
    if len(wanted) != n:
        raise ValueError(
            "output_size should be a sequence containing "
            f"{n} or {n + 2} elements, but it has a length of '{len(wanted)}'"
        )
    for i in range(n):
        low, high = default[i] - stride[i], default[i] + stride[i]
        if not low < wanted[i] < high:
            raise ValueError(
                f'invalid output_size "{wanted}" (dim {i} must be between {low} and {high})'
            )
    return wanted


def _unpool(n: int) -> Callable[..., Tensor]:
    op = getattr(_ops, f"max_unpool{n}d")

    def unpool(
        input: Tensor,
        indices: Tensor,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        output_size: Any = None,
    ) -> Tensor:
        kernel = _each(kernel_size, n)
        steps = kernel if stride is None else _each(stride, n)
        size = _unpool_size(input, kernel, steps, _each(padding, n), output_size)
        found: Tensor = op(input, indices, size)
        return found

    unpool.__name__ = unpool.__qualname__ = f"max_unpool{n}d"
    unpool.__doc__ = "Writes the input into zeros at the indices that a max_pool returned."
    return unpool


max_unpool1d = _unpool(1)
max_unpool2d = _unpool(2)
max_unpool3d = _unpool(3)


def _lp_pool(n: int) -> Callable[..., Tensor]:
    mean = (avg_pool1d, avg_pool2d, avg_pool3d)[n - 1]

    def pool(
        input: Tensor,
        norm_type: float,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        ceil_mode: bool = False,
    ) -> Tensor:
        count = math.prod(_each(kernel_size, n))
        means = mean(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
        return (means.sign() * means.abs().relu()).mul(count).pow(1.0 / norm_type)

    pool.__name__ = pool.__qualname__ = f"lp_pool{n}d"
    pool.__doc__ = "Returns (sum of input ** norm_type) ** (1 / norm_type) of each window."
    return pool


lp_pool1d = _lp_pool(1)
lp_pool2d = _lp_pool(2)
lp_pool3d = _lp_pool(3)
