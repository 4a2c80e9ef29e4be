# SPDX-License-Identifier: BSD-3-Clause
"""Reductions over dims and running sums."""

from __future__ import annotations

import math
from typing import Any

import cograd
from cograd.onnx._ops._table import OPS, op, refuse
from cograd.onnx._ops.elementwise import minimum
from cograd.onnx._writer import Value, Writer


def axes(w: Writer, x: Value, dim: Any) -> str | None:
    """Returns dims as a tensor; None stands for all."""
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return None
    return w.const([dim] if isinstance(dim, int) else list(dim))


def reduce(w: Writer, onnx: str, x: Value, dim: Any, keepdim: bool, name: Any = None) -> Any:
    """Adds a reduction of ``x``, or of ``name``, which has its sizes."""
    source = x.name if name is None else name
    if not x.rank:
        kept = w.reshape(source, [1])
        return w.emit(onnx, kept, w.const([0]), keepdims=0)
    return w.emit(onnx, source, axes(w, x, dim), keepdims=int(keepdim))


def _plain(onnx: str) -> Any:
    def convert(
        w: Writer, input: Value, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
    ) -> Any:
        return reduce(w, onnx, input, dim, keepdim, w.to(input))

    return convert


op("sum")(_plain("ReduceSum"))
op("mean")(_plain("ReduceMean"))
op("prod")(_plain("ReduceProd"))


@op("amax", "amin")
def amax(
    w: Writer, input: Value, dim: Any = (), keepdim: bool = False, onnx: str = "ReduceMax"
) -> Any:
    if input.dtype is cograd.bool:
        found = reduce(w, onnx, input, dim, keepdim, w.cast(input, cograd.int32))
        return w.cast(found, cograd.bool, cograd.int32)
    return reduce(w, onnx, input, dim, keepdim)


OPS["amin"] = lambda w, input, dim=(), keepdim=False: amax(w, input, dim, keepdim, "ReduceMin")


def _extreme(onnx: str) -> Any:
    def convert(
        w: Writer, input: Value, dim: Any = None, keepdim: bool = False, **other: Any
    ) -> Any:
        if isinstance(dim, Value) or "other" in other:
            return minimum(w, input, other.get("other", dim), onnx)
        if dim is None:
            return amax(w, input, (), False, f"Reduce{onnx}")
        values = amax(w, input, dim, keepdim, f"Reduce{onnx}")
        return [values, argmax(w, input, dim, keepdim, f"Arg{onnx}")]

    return convert


op("max")(_extreme("Max"))
op("min")(_extreme("Min"))


@op("argmax", "argmin")
def argmax(
    w: Writer, input: Value, dim: Any = None, keepdim: bool = False, onnx: str = "ArgMax"
) -> Any:
    x = input.name
    if input.dtype is cograd.bool or input.dtype in (cograd.int16, cograd.uint8):
        x = w.cast(input, cograd.int32)
    if dim is None or not input.rank:
        found = w.emit(onnx, w.emit("Reshape", x, w.const([-1])), axis=0, keepdims=0)
        return w.reshape(found, [1] * input.rank) if keepdim else found
    return w.emit(onnx, x, axis=dim, keepdims=int(keepdim))


OPS["argmin"] = lambda w, input, dim=None, keepdim=False: argmax(w, input, dim, keepdim, "ArgMin")


@op("all", "any")
def all(
    w: Writer, input: Value, dim: Any = None, keepdim: bool = False, onnx: str = "ReduceMin"
) -> Any:
    x = w.cast(w.cast(input, cograd.bool), cograd.int32, cograd.bool)
    return w.cast(reduce(w, onnx, input, dim, keepdim, x), w.dtype, cograd.int32)


OPS["any"] = lambda w, input, dim=None, keepdim=False: all(w, input, dim, keepdim, "ReduceMax")


@op("count_nonzero")
def count_nonzero(w: Writer, input: Value, dim: Any = None) -> Any:
    x = w.cast(w.cast(input, cograd.bool), cograd.int64, cograd.bool)
    return reduce(w, "ReduceSum", input, dim, False, x)


@op("logsumexp", "special_logsumexp")
def logsumexp(w: Writer, input: Value, dim: Any, keepdim: bool = False) -> Any:
    x = w.to(input)
    top = reduce(w, "ReduceMax", input, dim, True, x)
    # Where all are -inf, or one is inf, the maximum itself is the result.
    finite = w.emit("Less", w.emit("Abs", top), w.to(math.inf))
    safe = w.emit("Where", finite, top, w.to(0))
    total = reduce(w, "ReduceSum", input, dim, True, w.emit("Exp", w.emit("Sub", x, safe)))
    found = w.emit("Add", w.emit("Log", total), safe)
    if keepdim or not input.rank:
        return w.emit("Reshape", found, w.const([], cograd.int64)) if not input.rank else found
    return w.emit("Squeeze", found, axes(w, input, dim))


def moments(w: Writer, x: Value, dim: Any, keepdim: bool, correction: Any) -> tuple[str, str]:
    """Returns variance and mean, the latter with kept dims."""
    name = w.to(x)
    mean = reduce(w, "ReduceMean", x, dim, True, name) if x.rank else name
    away = w.emit("Sub", name, mean)
    total = reduce(w, "ReduceSum", x, dim, keepdim, w.emit("Mul", away, away))
    which = axes(w, x, dim)
    shape = w.emit("Shape", x)
    count = w.emit("ReduceProd", w.emit("Gather", shape, which) if which else shape, keepdims=0)
    count = w.emit(
        "Max", w.emit("Sub", w.cast(count, w.dtype, cograd.int64), w.to(correction)), w.to(0)
    )
    return w.emit("Div", total, count), mean


def _options(dim: Any, unbiased: Any, keepdim: bool, correction: Any) -> tuple[Any, bool, Any]:
    if isinstance(dim, bool):  # var(input, unbiased)
        dim, unbiased = None, dim
    if correction is None:
        correction = 0 if unbiased is False else 1
    return dim, keepdim, correction


@op("var_mean")
def var_mean(
    w: Writer,
    input: Value,
    dim: Any = None,
    unbiased: Any = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
) -> Any:
    dim, keepdim, correction = _options(dim, unbiased, keepdim, correction)
    found, _ = moments(w, input, dim, keepdim, correction)
    return [found, reduce(w, "ReduceMean", input, dim, keepdim)]


@op("std_mean")
def std_mean(w: Writer, *args: Any, **kwargs: Any) -> Any:
    found, mean = var_mean(w, *args, **kwargs)
    return [w.emit("Sqrt", found), mean]


# The writer drops the node of a mean that nobody uses.
OPS["var"] = lambda w, *args, **kwargs: var_mean(w, *args, **kwargs)[0]
OPS["std"] = lambda w, *args, **kwargs: std_mean(w, *args, **kwargs)[0]


@op("norm", "linalg_vector_norm", "vector_norm")
def norm(
    w: Writer,
    input: Value,
    p: Any = 2,
    dim: Any = None,
    keepdim: bool = False,
    dtype: Any = None,
    ord: Any = None,
) -> Any:
    p = 2 if p in (None, "fro") else p
    p = p if ord is None else ord
    if isinstance(p, str):
        raise refuse(f"norm() with p={p!r}")
    x = w.to(input)
    size = w.emit("Abs", x)
    if p in (math.inf, -math.inf):
        return reduce(w, "ReduceMax" if p > 0 else "ReduceMin", input, dim, keepdim, size)
    if p == 0:
        some = w.cast(w.emit("Not", w.emit("Equal", x, w.to(0))), w.dtype, cograd.bool)
        return reduce(w, "ReduceSum", input, dim, keepdim, some)
    if p == 1:
        return reduce(w, "ReduceSum", input, dim, keepdim, size)
    if p == 2:
        squares = w.emit("Mul", x, x)
        return w.emit("Sqrt", reduce(w, "ReduceSum", input, dim, keepdim, squares))
    total = reduce(w, "ReduceSum", input, dim, keepdim, w.emit("Pow", size, w.to(p)))
    return w.emit("Pow", total, w.to(1 / p))


@op("cumsum")
def cumsum(w: Writer, input: Value, dim: int, *, dtype: Any = None) -> Any:
    if not input.rank:
        return w.to(input)
    return w.emit("CumSum", w.to(input), w.const(dim))
