# SPDX-License-Identifier: BSD-3-Clause
"""Gradients of convolutions as functions of their own; they can be differentiated again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


def _pull(conv: Callable[[Tensor], Tensor], at: Tensor, grad_output: Tensor) -> Tensor:
    again = cograd.is_grad_enabled()
    with cograd.enable_grad():
        (grad,) = cograd.autograd.grad(conv(at), at, grad_output, create_graph=again)
    return grad


def _of_input(
    conv: Callable[..., Tensor], size: Any, weight: Tensor, grad_output: Tensor, options: Any
) -> Tensor:
    # Convolution is linear: its gradient is the same at every input.
    at = cograd.zeros(tuple(size), dtype=weight.dtype, requires_grad=True)
    return _pull(lambda x: conv(x, weight, None, *options), at, grad_output)


def _of_weight(
    conv: Callable[..., Tensor], size: Any, input: Tensor, grad_output: Tensor, options: Any
) -> Tensor:
    at = cograd.zeros(tuple(size), dtype=input.dtype, requires_grad=True)
    return _pull(lambda w: conv(input, w, None, *options), at, grad_output)


def conv1d_input(
    input_size: Any, weight: Tensor, grad_output: Tensor,
    stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """The gradient of ``conv1d`` for its input."""
    return _of_input(F.conv1d, input_size, weight, grad_output, (stride, padding, dilation, groups))


def conv1d_weight(
    input: Tensor, weight_size: Any, grad_output: Tensor,
    stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """The gradient of ``conv1d`` for its weight."""
    return _of_weight(
        F.conv1d, weight_size, input, grad_output, (stride, padding, dilation, groups)
    )


def conv2d_input(
    input_size: Any, weight: Tensor, grad_output: Tensor,
    stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """The gradient of ``conv2d`` for its input."""
    return _of_input(F.conv2d, input_size, weight, grad_output, (stride, padding, dilation, groups))


def conv2d_weight(
    input: Tensor, weight_size: Any, grad_output: Tensor,
    stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """The gradient of ``conv2d`` for its weight."""
    return _of_weight(
        F.conv2d, weight_size, input, grad_output, (stride, padding, dilation, groups)
    )


def conv3d_input(
    input_size: Any, weight: Tensor, grad_output: Tensor,
    stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """The gradient of ``conv3d`` for its input."""
    return _of_input(F.conv3d, input_size, weight, grad_output, (stride, padding, dilation, groups))


def conv3d_weight(
    input: Tensor, weight_size: Any, grad_output: Tensor,
    stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """The gradient of ``conv3d`` for its weight."""
    return _of_weight(
        F.conv3d, weight_size, input, grad_output, (stride, padding, dilation, groups)
    )
