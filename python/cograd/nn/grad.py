# SPDX-License-Identifier: BSD-3-Clause
"""Gradients of convolutions as separate, differentiable functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import cograd
from cograd import Tensor

from . import functional as F

__all__ = [
    "conv1d_input",
    "conv1d_weight",
    "conv2d_input",
    "conv2d_weight",
    "conv3d_input",
    "conv3d_weight",
]


def _pull(
    op: str, conv: Callable[[Tensor], Tensor], size: Any, other: Tensor, grad_output: Tensor
) -> Tensor:
    if grad_output.dtype != other.dtype:
        kind = "weight" if op.endswith("input") else "input"
        raise RuntimeError(
            f"{op}(): expected grad_output of the dtype of {kind}, {other.dtype}, "
            f"got {grad_output.dtype}"
        )
    # Convolution is linear in each argument, so its gradient is the same at every point.
    at = cograd.zeros(tuple(size), dtype=other.dtype, device=other.device)
    (grad,) = cograd.func.vjp(conv, at)[1](grad_output)
    return cast(Tensor, grad)


def _of_input(
    conv: Callable[..., Tensor], size: Any, weight: Tensor, grad_output: Tensor, options: Any
) -> Tensor:
    op = conv.__name__ + "_input"
    return _pull(op, lambda x: conv(x, weight, None, *options), size, weight, grad_output)


def _of_weight(
    conv: Callable[..., Tensor], size: Any, input: Tensor, grad_output: Tensor, options: Any
) -> Tensor:
    op = conv.__name__ + "_weight"
    return _pull(op, lambda w: conv(input, w, None, *options), size, input, grad_output)


def conv1d_input(
    input_size: Any, weight: Tensor, grad_output: Tensor,
    stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Returns the gradient of ``conv1d`` with respect to its input."""
    return _of_input(F.conv1d, input_size, weight, grad_output, (stride, padding, dilation, groups))


def conv1d_weight(
    input: Tensor, weight_size: Any, grad_output: Tensor,
    stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Returns the gradient of ``conv1d`` with respect to its weight."""
    return _of_weight(
        F.conv1d, weight_size, input, grad_output, (stride, padding, dilation, groups)
    )


def conv2d_input(
    input_size: Any, weight: Tensor, grad_output: Tensor,
    stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Returns the gradient of ``conv2d`` with respect to its input."""
    return _of_input(F.conv2d, input_size, weight, grad_output, (stride, padding, dilation, groups))


def conv2d_weight(
    input: Tensor, weight_size: Any, grad_output: Tensor,
    stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Returns the gradient of ``conv2d`` with respect to its weight."""
    return _of_weight(
        F.conv2d, weight_size, input, grad_output, (stride, padding, dilation, groups)
    )


def conv3d_input(
    input_size: Any, weight: Tensor, grad_output: Tensor,
    stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Returns the gradient of ``conv3d`` with respect to its input."""
    return _of_input(F.conv3d, input_size, weight, grad_output, (stride, padding, dilation, groups))


def conv3d_weight(
    input: Tensor, weight_size: Any, grad_output: Tensor,
    stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Returns the gradient of ``conv3d`` with respect to its weight."""
    return _of_weight(
        F.conv3d, weight_size, input, grad_output, (stride, padding, dilation, groups)
    )
