# SPDX-License-Identifier: BSD-3-Clause
"""Normalisation functions."""

from __future__ import annotations

import math

import cograd
from cograd import Tensor

__all__ = [
    "batch_norm",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "local_response_norm",
    "normalize",
    "rms_norm",
]

group_norm = cograd.group_norm
layer_norm = cograd.layer_norm
rms_norm = cograd.rms_norm


def normalize(
    input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """Divides ``input`` by its p-norm along ``dim``, or by ``eps`` if that is larger."""
    result = input / input.norm(p, dim, keepdim=True).clamp(min=eps).expand_as(input)
    return result if out is None else out.copy_(result)


def _check_size(input: Tensor) -> None:
    if input.shape[0] * math.prod(input.shape[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {input.shape}"
        )


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalises each channel of (N, C, *) to mean 0 and variance 1, then scales and shifts it.

    ``weight`` and ``bias`` are (C). With ``training``, the statistics are computed from the batch,
    and the running ones move towards them by ``momentum``; else the running ones are used.
    """
    if training:
        _check_size(input)
    return cograd.batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps, False
    )


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalises each channel of each sample of (N, C, *) to mean 0 and variance 1."""
    if use_input_stats and math.prod(input.shape[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 spatial element when training, got input size {input.shape}"
        )
    return cograd.instance_norm(
        input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, False
    )


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """Returns input / (k + alpha * mean of squares of ``size`` neighbouring channels) ** beta."""
    if input.dim() < 3:
        raise ValueError(
            "Expected 3D or higher dimensionality                          input (got "
            f"{input.dim()} dimensions)"
        )
    if input.numel() == 0:
        return input
    squares = input.mul(input)
    batch, channels = input.shape[:2]
    rows = squares.reshape(batch, 1, channels, -1)
    padded = cograd._C._nn.pad(rows, (0, 0, size // 2, (size - 1) // 2))
    means = cograd._C._nn.avg_pool2d(padded, (size, 1), 1).reshape(input.shape)
    return input / means.mul(alpha).add(k).pow(beta)
