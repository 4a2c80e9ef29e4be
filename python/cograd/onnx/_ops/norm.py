# SPDX-License-Identifier: BSD-3-Clause
"""Normalisation."""

from __future__ import annotations

from typing import Any

import cograd
from cograd.onnx._ops._table import op
from cograd.onnx._writer import Value, Writer


def _normalized(w: Writer, x: str, axes: str, eps: float) -> str:
    away = w.emit("Sub", x, w.emit("ReduceMean", x, axes, keepdims=1))
    variance = w.emit("ReduceMean", w.emit("Mul", away, away), axes, keepdims=1)
    return str(w.emit("Div", away, w.emit("Sqrt", w.emit("Add", variance, w.to(eps)))))


def _affine(w: Writer, x: str, weight: Any, bias: Any, rank: int) -> str:
    """Scales and shifts channels, which are dim 1."""
    for onnx, value in (("Mul", weight), ("Add", bias)):
        if value is not None:
            shaped = w.reshape(w.to(value), [-1] + [1] * (rank - 2))
            x = str(w.emit(onnx, x, shaped))
    return x


@op("batch_norm")
def batch_norm(
    w: Writer,
    input: Value,
    weight: Any = None,
    bias: Any = None,
    running_mean: Any = None,
    running_var: Any = None,
    training: bool = False,
    momentum: Any = 0.1,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Any:
    if training or running_mean is None:
        axes = w.const([d for d in range(input.rank) if d != 1])
        return _affine(w, _normalized(w, input.name, axes, eps), weight, bias, input.rank)
    channels = w.emit("Shape", running_mean)
    one, zero = (w.emit("Expand", w.to(n), channels) for n in (1, 0))
    return w.emit(
        "BatchNormalization",
        input,
        weight or one,
        bias or zero,
        running_mean,
        running_var,
        epsilon=float(eps),
    )


@op("instance_norm")
def instance_norm(
    w: Writer,
    input: Value,
    weight: Any = None,
    bias: Any = None,
    running_mean: Any = None,
    running_var: Any = None,
    use_input_stats: bool = True,
    momentum: Any = 0.1,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Any:
    if not use_input_stats:
        return batch_norm(w, input, weight, bias, running_mean, running_var, False, 0, eps)
    axes = w.const(list(range(2, input.rank)))
    return _affine(w, _normalized(w, input.name, axes, eps), weight, bias, input.rank)


@op("group_norm")
def group_norm(
    w: Writer,
    input: Value,
    num_groups: int,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Any:
    grouped = w.reshape(input, [w.size(input, 0), num_groups, -1])
    found = _normalized(w, grouped, w.const([2]), eps)
    found = w.emit("Reshape", found, w.emit("Shape", input))
    return _affine(w, found, weight, bias, input.rank)


@op("layer_norm")
def layer_norm(
    w: Writer,
    input: Value,
    normalized_shape: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Any:
    n = len(normalized_shape) if isinstance(normalized_shape, (list, tuple)) else 1
    if weight is None:
        shape = w.emit("Shape", input, start=input.rank - n)
        weight = w.emit("Expand", w.to(1), shape)
    else:
        weight = w.to(weight)
    bias = None if bias is None else w.to(bias)
    return w.emit("LayerNormalization", input, weight, bias, axis=-n, epsilon=float(eps))


@op("rms_norm")
def rms_norm(
    w: Writer, input: Value, normalized_shape: Any, weight: Any = None, eps: Any = None
) -> Any:
    n = len(normalized_shape) if isinstance(normalized_shape, (list, tuple)) else 1
    eps = cograd.finfo(input.dtype).eps if eps is None else eps
    squares = w.emit("Mul", input, input)
    mean = w.emit("ReduceMean", squares, w.const(list(range(-n, 0))), keepdims=1)
    found = w.emit("Div", input, w.emit("Sqrt", w.emit("Add", mean, w.to(eps))))
    return found if weight is None else w.emit("Mul", found, w.to(weight))


@op("normalize")
def normalize(w: Writer, input: Value, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Any:
    from cograd.onnx._ops.reduce import norm

    return w.emit("Div", input, w.emit("Max", norm(w, input, p, dim, True), w.to(eps)))
