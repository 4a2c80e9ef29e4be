# SPDX-License-Identifier: BSD-3-Clause
"""Ops that also return what their backward saves, and tensors mapped from files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import cograd
from cograd import Tensor

__all__ = ["from_file", "native_dropout", "native_layer_norm"]


def _assert_async(input: Tensor, assert_msg: str | None = None) -> None:
    """Raises RuntimeError if ``input`` is zero.

    Raises:
        RuntimeError: the element is zero (with ``assert_msg`` if given), or there are several.
    """
    if not input:
        raise RuntimeError(assert_msg or "Expected Tensor with single nonzero value, but got zero")


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
    var, mean = cograd.var_mean(input, dims, correction=0, keepdim=True)
    return out, mean, cograd.rsqrt(var + eps)


def from_file(
    filename: str | os.PathLike[str],
    shared: bool | None = None,
    size: int | None = 0,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Returns a vector over the first ``size`` elements of a file, mapped into memory.

    Args:
        filename: the file; with ``shared`` it is created or extended if it is too short.
        shared: True writes changes to the file; otherwise they stay in this process.
        dtype: the dtype of the elements in the file; the default dtype if None.

    Raises:
        RuntimeError: the file is missing or too short.
    """
    import numpy

    kind = cograd.get_default_dtype() if dtype is None else dtype
    if device is not None and cograd.device(device).type != "cpu":
        raise RuntimeError(f"from_file(): device must be 'cpu', got {device!r}")
    if layout is not None and str(layout).rpartition(".")[2] != "strided":
        raise RuntimeError(f"from_file(): layout must be strided, got {layout}")
    count = int(size or 0)
    if count < 0:
        raise RuntimeError(f"from_file(): size must not be negative, got {count}")
    path, needed = os.fspath(filename), count * kind.itemsize
    if shared:
        with open(path, "ab") as file:
            if file.tell() < needed:
                file.truncate(needed)
    found = os.path.getsize(path) if os.path.exists(path) else -1
    if found < needed:
        seen = "does not exist" if found < 0 else f"has {found} bytes"
        raise RuntimeError(f"from_file(): {path!r} {seen}, expected at least {needed} bytes")
    if count == 0:
        return cograd.empty(0, dtype=kind, requires_grad=requires_grad)
    raw = numpy.memmap(path, numpy.uint8, "r+" if shared else "c", 0, (needed,))
    result = cograd.from_numpy(raw).view(kind)
    return result.requires_grad_() if requires_grad else result
