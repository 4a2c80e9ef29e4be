# SPDX-License-Identifier: BSD-3-Clause
"""Activations and softmax."""

from __future__ import annotations

import math
from typing import Any

import cograd
from cograd.onnx._ops._table import OPS, op, refuse
from cograd.onnx._writer import Value, Writer


def _choose(w: Writer, test: str, x: Any, limit: Any, first: Any, second: Any) -> Any:
    return w.emit("Where", w.emit(test, x, w.to(limit)), first, second)


@op("relu")
def relu(w: Writer, input: Value) -> Any:
    return w.emit("Relu", input) if input.dtype.is_floating_point else w.emit("Max", input, w.to(0))


@op("hardtanh")
def hardtanh(w: Writer, input: Value, min_val: Any = -1.0, max_val: Any = 1.0) -> Any:
    return w.emit("Min", w.emit("Max", input, w.to(min_val)), w.to(max_val))


OPS["relu6"] = lambda w, input: hardtanh(w, input, 0.0, 6.0)


@op("leaky_relu")
def leaky_relu(w: Writer, input: Value, negative_slope: float = 0.01) -> Any:
    return w.emit("LeakyRelu", input, alpha=float(negative_slope))


@op("elu", "celu")
def elu(
    w: Writer, input: Value, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0
) -> Any:
    x = input.name
    low = w.emit("Min", x, w.to(0))
    curve = w.emit("Sub", w.emit("Exp", w.emit("Mul", low, w.to(input_scale))), w.to(1))
    curve = w.emit("Mul", curve, w.to(alpha))
    found = _choose(w, "Greater", x, 0, x, curve)
    return found if scale == 1 else w.emit("Mul", found, w.to(scale))


OPS["celu"] = lambda w, input, alpha=1.0: elu(w, input, alpha, 1.0, 1.0 / alpha)
OPS["selu"] = lambda w, input: elu(w, input, 1.6732632423543772, 1.0507009873554805)


@op("gelu")
def gelu(w: Writer, input: Value, *, approximate: str = "none") -> Any:
    x, half = input.name, w.to(0.5)
    if approximate == "none":
        inner = w.emit("Erf", w.emit("Mul", x, w.to(math.sqrt(0.5))))
    else:
        cube = w.emit("Mul", w.emit("Mul", w.emit("Mul", x, x), x), w.to(0.044715))
        inner = w.emit("Mul", w.emit("Add", x, cube), w.to(math.sqrt(2 / math.pi)))
        inner = w.emit("Tanh", inner)
    return w.emit("Mul", w.emit("Mul", x, half), w.emit("Add", inner, w.to(1)))


@op("silu")
def silu(w: Writer, input: Value) -> Any:
    return w.emit("Mul", input, w.emit("Sigmoid", input))


@op("softplus")
def softplus(w: Writer, input: Value, beta: Any = 1, threshold: Any = 20) -> Any:
    x = w.emit("Mul", input, w.to(beta))
    small = w.emit("Min", x, w.to(threshold))
    # log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)), without overflow.
    tail = w.emit("Exp", w.emit("Neg", w.emit("Abs", small)))
    curve = w.emit("Log", w.emit("Add", w.to(1), tail))
    curve = w.emit("Add", w.emit("Max", small, w.to(0)), curve)
    return _choose(w, "Greater", x, threshold, input, w.emit("Div", curve, w.to(beta)))


@op("mish")
def mish(w: Writer, input: Value) -> Any:
    return w.emit("Mul", input, w.emit("Tanh", softplus(w, input)))


@op("logsigmoid", "log_sigmoid")
def logsigmoid(w: Writer, input: Value) -> Any:
    minus = Value(w.emit("Neg", input), input.dtype, input.dims)
    return w.emit("Neg", softplus(w, minus, 1, math.inf))


@op("hardsigmoid")
def hardsigmoid(w: Writer, input: Value) -> Any:
    up = w.emit("Add", input, w.to(3))
    return w.emit("Div", w.emit("Min", w.emit("Max", up, w.to(0)), w.to(6)), w.to(6))


@op("hardswish")
def hardswish(w: Writer, input: Value) -> Any:
    return w.emit("Mul", input, hardsigmoid(w, input))


@op("tanhshrink")
def tanhshrink(w: Writer, input: Value) -> Any:
    return w.emit("Sub", input, w.emit("Tanh", input))


@op("softshrink")
def softshrink(w: Writer, input: Value, lambd: float = 0.5) -> Any:
    size = w.emit("Max", w.emit("Sub", w.emit("Abs", input), w.to(lambd)), w.to(0))
    return w.emit("Mul", w.emit("Sign", input), size)


@op("hardshrink")
def hardshrink(w: Writer, input: Value, lambd: float = 0.5) -> Any:
    size = w.emit("Abs", input)
    return _choose(w, "LessOrEqual", size, lambd, w.to(0), input)


@op("threshold")
def threshold(w: Writer, input: Value, threshold: Any, value: Any) -> Any:
    return _choose(w, "Greater", input, threshold, input, w.to(value))


@op("prelu")
def prelu(w: Writer, input: Value, weight: Value) -> Any:
    slope = weight.name if input.rank else w.reshape(weight, [])
    if weight.dims != [1] and input.rank > 1:
        slope = w.reshape(weight, [-1] + [1] * (input.rank - 2))
    return _choose(w, "Greater", input, 0, input, w.emit("Mul", input, slope))


@op("rrelu")
def rrelu(
    w: Writer,
    input: Value,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    *rest: Any,
) -> Any:
    if training:
        raise refuse("rrelu() in training")
    return leaky_relu(w, input, (lower + upper) / 2)


@op("glu")
def glu(w: Writer, input: Value, dim: int = -1) -> Any:
    a, b = w.emit("Split", input, outputs=2, axis=dim, num_outputs=2)
    return w.emit("Mul", a, w.emit("Sigmoid", b))


@op("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout")
def dropout(w: Writer, input: Value, p: float = 0.5, training: bool = True, *rest: Any) -> Any:
    if training and p:
        raise refuse("dropout() in training")
    return w.emit("Identity", input)


@op("softmax", "log_softmax", "softmin")
def softmax(
    w: Writer, input: Value, dim: int, *rest: Any, onnx: str = "Softmax", **other: Any
) -> Any:
    x = w.to(input)
    if not input.rank:
        return w.emit("Reshape", w.emit(onnx, w.reshape(x, [1]), axis=0), w.const([], cograd.int64))
    return w.emit(onnx, x, axis=dim)


OPS["log_softmax"] = lambda w, input, dim, *rest, **other: softmax(w, input, dim, onnx="LogSoftmax")
OPS["softmin"] = lambda w, input, dim, *rest, **other: softmax(
    w, Value(w.emit("Neg", input), input.dtype, input.dims), dim
)
