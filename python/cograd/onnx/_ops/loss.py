# SPDX-License-Identifier: BSD-3-Clause
"""Losses that are ops of their own; others consist of elementwise ops and reductions."""

from __future__ import annotations

from typing import Any

import cograd
from cograd.onnx._ops._table import OPS, op, refuse
from cograd.onnx._writer import Value, Writer


def _reduced(w: Writer, losses: str, reduction: str) -> Any:
    if reduction == "none":
        return losses
    onnx = {"mean": "ReduceMean", "sum": "ReduceSum"}[reduction]
    return w.emit(onnx, losses, keepdims=0)


def _pointwise(formula: Any) -> Any:
    def convert(
        w: Writer, input: Value, target: Value, size_average: Any = None, reduce: Any = None,
        reduction: str = "mean", **options: Any,
    ) -> Any:
        if size_average is not None or reduce is not None:
            raise refuse("size_average and reduce of a loss")
        apart = w.emit("Sub", w.to(input), w.to(target))
        return _reduced(w, formula(w, apart, **options), reduction)

    return convert


OPS["mse_loss"] = _pointwise(lambda w, d: w.emit("Mul", d, d))
OPS["l1_loss"] = _pointwise(lambda w, d: w.emit("Abs", d))


@op("binary_cross_entropy")
def binary_cross_entropy(
    w: Writer, input: Value, target: Value, weight: Any = None, size_average: Any = None,
    reduce: Any = None, reduction: str = "mean",
) -> Any:
    x, y, low = w.to(input), w.to(target), w.to(-100)
    one = w.to(1)
    yes = w.emit("Mul", y, w.emit("Max", w.emit("Log", x), low))
    rest = w.emit("Max", w.emit("Log", w.emit("Sub", one, x)), low)
    no = w.emit("Mul", w.emit("Sub", one, y), rest)
    losses = w.emit("Neg", w.emit("Add", yes, no))
    if weight is not None:
        losses = w.emit("Mul", losses, w.to(weight))
    return _reduced(w, losses, reduction)


@op("binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(
    w: Writer, input: Value, target: Value, weight: Any = None, size_average: Any = None,
    reduce: Any = None, reduction: str = "mean", pos_weight: Any = None,
) -> Any:
    x, y, one = w.to(input), w.to(target), w.to(1)
    # -log(sigmoid(x)) = max(-x, 0) + log(1 + exp(-|x|)).
    tail = w.emit("Exp", w.emit("Neg", w.emit("Abs", x)))
    soft = w.emit("Add", w.emit("Max", w.emit("Neg", x), w.to(0)), w.emit("Log", w.emit("Add", one, tail)))
    if pos_weight is not None:
        more = w.emit("Mul", w.emit("Sub", w.to(pos_weight), one), y)
        soft = w.emit("Mul", w.emit("Add", one, more), soft)
    losses = w.emit("Add", w.emit("Mul", w.emit("Sub", one, y), x), soft)
    if weight is not None:
        losses = w.emit("Mul", losses, w.to(weight))
    return _reduced(w, losses, reduction)


@op("nll_loss", "nll_loss_nd")
def nll_loss(
    w: Writer, input: Value, target: Value, weight: Any = None, size_average: Any = None,
    ignore_index: int = -100, reduce: Any = None, reduction: str = "mean",
) -> Any:
    weight = None if weight is None else w.to(weight)
    x, classes = w.to(input), w.cast(target, cograd.int64)
    if input.rank == 1:
        x, classes = w.emit("Unsqueeze", x, w.const([0])), w.reshape(classes, [1])
    found = w.emit(
        "NegativeLogLikelihoodLoss", x, classes, weight, reduction=reduction,
        ignore_index=ignore_index,
    )
    if input.rank == 1 and reduction == "none":
        return w.reshape(found, [])
    return found


@op("cross_entropy", "cross_entropy_loss")
def cross_entropy(
    w: Writer, input: Value, target: Value, weight: Any = None, size_average: Any = None,
    ignore_index: int = -100, reduce: Any = None, reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    if label_smoothing or target.dtype.is_floating_point:
        raise refuse("cross_entropy() with label_smoothing or probabilities")
    logs = w.emit("LogSoftmax", input, axis=min(1, input.rank - 1))
    return nll_loss(
        w, Value(logs, input.dtype, input.dims), target, weight, None, ignore_index, None, reduction
    )
