# SPDX-License-Identifier: BSD-3-Clause
"""Ops that also return what their backward saves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import cograd
from cograd import Tensor

__all__ = [
    "native_dropout",
    "native_layer_norm",
]


def _softmax(input: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """Computes ``softmax``. Raises RuntimeError for ``half_to_float``, unsupported on CPUs."""
    if half_to_float:
        raise RuntimeError("softmax with half to float conversion is not supported on CPU")
    return cograd.softmax(input, dim)


def _log_softmax(input: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """Computes ``log_softmax``. Raises RuntimeError for ``half_to_float``, unsupported on CPUs."""
    if half_to_float:
        raise RuntimeError("softmax with half to float conversion is not supported on CPU")
    return cograd.log_softmax(input, dim)


def _check_dtype(grad_output: Tensor, input_dtype: Any) -> None:
    if grad_output.dtype != input_dtype:
        raise RuntimeError(f"expected scalar type {grad_output.dtype} but found {input_dtype}")


def _softmax_backward_data(
    grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any
) -> Tensor:
    """Returns the gradient with respect to the input of ``softmax``; its result was ``output``."""
    _check_dtype(grad_output, input_dtype)
    weighted = grad_output * output
    return weighted - output * weighted.sum(dim, keepdim=True)


def _log_softmax_backward_data(
    grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any
) -> Tensor:
    """Returns the gradient for the input of ``log_softmax`` whose result was ``output``."""
    _check_dtype(grad_output, input_dtype)
    return grad_output - output.exp() * grad_output.sum(dim, keepdim=True)


def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Returns (input * mask / (1 - p), mask); without ``train`` a copy of the input and ones.

    Raises:
        RuntimeError: ``p`` is not in [0, 1].
    """
    if not 0 <= p <= 1:
        raise RuntimeError(f"native_dropout(): p must be in [0, 1], but got {p}")
    if train is False:
        return input.clone(), cograd.ones_like(input, dtype=cograd.bool)
    mask = cograd.empty_like(input, dtype=cograd.bool).bernoulli_(1 - p)
    scale = 0.0 if p == 1 else 1 / (1 - p)
    return input * mask * scale, mask


def native_layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns ``layer_norm``, the means, and the reciprocal standard deviations.

    Shapes: input (*, *normalized_shape); means and reciprocal deviations (*, 1, ...).
    """
    shape = tuple(normalized_shape)
    out = cograd.nn.functional.layer_norm(input, shape, weight, bias, eps)
    dims = tuple(range(-len(shape), 0))
    half = input.dtype in (cograd.float16, cograd.bfloat16)
    mixed = weight is not None and weight.dtype != input.dtype
    wide = input.float() if half else input
    if wide.numel() == 0 and 0 in shape:  # torch's mean of nothing
        mean = wide.new_zeros(*input.shape[: -len(shape)], *(1 for _ in shape))
        return out, mean, mean + math.nan
    var, mean = cograd.var_mean(wide, dims, correction=0, keepdim=True)
    rstd = cograd.rsqrt(var + eps)
    if half and not mixed:  # computed in float32, rounded once
        return out, mean.to(input.dtype), rstd.to(input.dtype)
    return out, mean, rstd
