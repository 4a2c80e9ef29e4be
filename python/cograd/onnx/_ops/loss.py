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
        w: Writer,
        input: Value,
        target: Value,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
        weight: Any = None,
    ) -> Any:
        if size_average is not None or reduce is not None:
            raise refuse("size_average and reduce of a loss")
        apart = w.emit("Sub", w.to(input), w.to(target))
        losses = formula(w, apart)
        if weight is not None:
            if reduction == "mean":
                raise refuse("a mean loss with weights")
            losses = w.emit("Mul", losses, w.to(weight))
        return _reduced(w, losses, reduction)

    return convert


OPS["mse_loss"] = _pointwise(lambda w, d: w.emit("Mul", d, d))
OPS["l1_loss"] = _pointwise(lambda w, d: w.emit("Abs", d))


@op("binary_cross_entropy")
def binary_cross_entropy(
    w: Writer,
    input: Value,
    target: Value,
    weight: Any = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
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
    w: Writer,
    input: Value,
    target: Value,
    weight: Any = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> Any:
    x, y, one = w.to(input), w.to(target), w.to(1)
    # -log(sigmoid(x)) = max(-x, 0) + log(1 + exp(-|x|)).
    tail = w.emit("Exp", w.emit("Neg", w.emit("Abs", x)))
    soft = w.emit(
        "Add", w.emit("Max", w.emit("Neg", x), w.to(0)), w.emit("Log", w.emit("Add", one, tail))
    )
    if pos_weight is not None:
        more = w.emit("Mul", w.emit("Sub", w.to(pos_weight), one), y)
        soft = w.emit("Mul", w.emit("Add", one, more), soft)
    losses = w.emit("Add", w.emit("Mul", w.emit("Sub", one, y), x), soft)
    if weight is not None:
        losses = w.emit("Mul", losses, w.to(weight))
    return _reduced(w, losses, reduction)


@op("nll_loss", "nll_loss_nd")
def nll_loss(
    w: Writer,
    input: Value,
    target: Value,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    weight = None if weight is None else w.to(weight)
    x, classes = w.to(input), w.cast(target, cograd.int64)
    if input.rank == 1:
        x, classes = w.emit("Unsqueeze", x, w.const([0])), w.reshape(classes, [1])
    found = w.emit(
        "NegativeLogLikelihoodLoss",
        x,
        classes,
        weight,
        reduction=reduction,
        ignore_index=ignore_index,
    )
    if input.rank == 1 and reduction == "none":
        return w.reshape(found, [])
    return found


@op("cross_entropy", "cross_entropy_loss")
def cross_entropy(
    w: Writer,
    input: Value,
    target: Value,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    logs = w.emit("LogSoftmax", w.to(input), axis=min(1, input.rank - 1))
    if target.dtype.is_floating_point and not label_smoothing:
        return _of_probabilities(w, logs, input, target, weight, reduction)
    if label_smoothing:
        raise refuse("cross_entropy() with label_smoothing")
    return nll_loss(
        w, Value(logs, input.dtype, input.dims), target, weight, None, ignore_index, None, reduction
    )


def _of_probabilities(
    w: Writer, logs: str, input: Value, target: Value, weight: Any, reduction: str
) -> Any:
    axis = min(1, input.rank - 1)
    losses = w.emit("Mul", logs, w.to(target))
    if weight is not None:
        losses = w.emit(
            "Mul", losses, w.reshape(w.to(weight), [-1] + [1] * (input.rank - 1 - axis))
        )
    losses = w.emit("Neg", w.emit("ReduceSum", losses, w.const([axis]), keepdims=0))
    if reduction != "mean" or input.rank == 1:
        return _reduced(w, losses, "sum" if reduction == "mean" else reduction)
    count = w.emit("Size", losses) if input.rank > 1 else w.const(1)
    total = w.emit("ReduceSum", losses, keepdims=0)
    return w.emit("Div", total, w.cast(count, w.dtype, cograd.int64))
