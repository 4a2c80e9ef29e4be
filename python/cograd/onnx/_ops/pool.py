# SPDX-License-Identifier: BSD-3-Clause
"""Pooling."""

from __future__ import annotations

import math
from typing import Any

import cograd
from cograd.onnx._ops._table import OPS, refuse
from cograd.onnx._ops.conv import batched, per_dim, unbatched
from cograd.onnx._writer import Value, Writer


def _end_pads(
    w: Writer, x: Value, kernel: list[int], stride: list[int], pad: list[int], spread: list[int]
) -> list[int]:
    """Returns the padding after the input with which the last window of ceil mode fits.

    ONNX's own ceil_mode has windows that start in the padding; torch drops those.
    """
    ends = []
    for i, (k, s, p, d) in enumerate(zip(kernel, stride, pad, spread, strict=True)):
        n = x.dims[i - len(kernel)]
        if n is None:
            raise refuse("ceil_mode of a pool over a size that varies")
        span = d * (k - 1) + 1
        out = -((n + 2 * p - span) // -s) + 1
        if (out - 1) * s >= n + p:
            out -= 1
        ends.append(max((out - 1) * s + span - n - p, 0))
    return ends


def _max(dims: int, indices: bool) -> Any:
    def convert(
        w: Writer,
        input: Value,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        kernel, pad = per_dim(kernel_size, dims), per_dim(padding, dims)
        step = per_dim(kernel if stride in (None, (), []) else stride, dims)
        spread = per_dim(dilation, dims)
        ends = _end_pads(w, input, kernel, step, pad, spread) if ceil_mode else pad
        x, added = batched(w, input, dims)
        options: dict[str, Any] = {"kernel_shape": kernel, "strides": step, "pads": pad + ends}
        options["dilations"] = spread
        if not indices or not w.second_used:
            found = unbatched(w, w.emit("MaxPool", x, **options), added)
            return [found, None] if indices else found
        values, places = w.emit("MaxPool", x, outputs=2, **options)
        # ONNX counts through the batch and channels, torch within an image.
        image = w.emit("Gather", w.emit("Shape", x), w.const(list(range(2, dims + 2))))
        places = w.emit("Mod", places, w.emit("ReduceProd", image, keepdims=0))
        return [unbatched(w, values, added), unbatched(w, places, added)]

    return convert


def _average(dims: int) -> Any:
    def convert(
        w: Writer,
        input: Value,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: Any = None,
    ) -> Any:
        kernel, pad = per_dim(kernel_size, dims), per_dim(padding, dims)
        step = per_dim(kernel if stride in (None, (), []) else stride, dims)
        ends = _end_pads(w, input, kernel, step, pad, [1] * dims) if ceil_mode else pad
        x, added = batched(w, input, dims)
        if ends == pad and divisor_override is None:
            found = w.emit(
                "AveragePool",
                x,
                kernel_shape=kernel,
                strides=step,
                pads=pad + ends,
                count_include_pad=int(count_include_pad),
            )
            return unbatched(w, found, added)
        volume = math.prod(kernel)
        total = _sums(w, x, kernel, step, pad, ends, volume)
        if divisor_override is not None:
            return unbatched(w, w.emit("Div", total, w.to(divisor_override)), added)
        # The windows' counts: padding counts if count_include_pad says so, what ceil_mode adds not.
        own = w.emit("Expand", w.to(1), w.emit("Shape", x))
        inner, outer = pad, [e - p for e, p in zip(ends, pad, strict=True)]
        if count_include_pad:
            outer = [max(n, 0) for n in outer]
            axes = w.const(list(range(2, dims + 2)))
            kept = [e - n for e, n in zip(ends, outer, strict=True)]
            own = w.emit("Pad", own, w.const([*inner, *kept]), w.to(1), axes)
            count = _sums(w, own, kernel, step, [0] * dims, outer, volume)
        else:
            count = _sums(w, own, kernel, step, pad, ends, volume)
        return unbatched(w, w.emit("Div", total, count), added)

    return convert


def _sums(
    w: Writer, x: str, kernel: list[int], step: list[int], pad: list[int], ends: list[int], n: int
) -> str:
    means = w.emit(
        "AveragePool", x, kernel_shape=kernel, strides=step, pads=pad + ends, count_include_pad=1
    )
    return str(w.emit("Mul", means, w.to(n)))


def _matrix(w: Writer, size: int, out: int) -> Any:
    rows = cograd.zeros(out, size, dtype=cograd.float64)
    for i in range(out):
        start, end = i * size // out, -((i + 1) * size // -out)
        rows[i, start:end] = 1 / (end - start)
    return w.const(rows.T.to(w.dtype), None)


def _adaptive(dims: int, kind: str) -> Any:
    def convert(w: Writer, input: Value, output_size: Any, return_indices: bool = False) -> Any:
        sizes: list[Any] = per_dim(output_size, dims)
        own: list[Any] = list(input.dims[-dims:])
        same = [_is_same(n, s) for n, s in zip(sizes, own, strict=True)]
        if all(n == 1 for n in sizes):
            axes = w.const(list(range(-dims, 0)))
            if kind == "Average":
                return w.emit("ReduceMean", input, axes, keepdims=1)
            if not w.second_used:
                return [w.emit("ReduceMax", input, axes, keepdims=1), None]
        if None in [n for n, s in zip(own, same, strict=True) if not s]:
            raise refuse("adaptive pooling of a size that varies to more than one element")
        outs: list[Any] = [
            n if s else w.static(o, "an output size")
            for n, o, s in zip(own, sizes, same, strict=True)
        ]
        if not any(same) and all(n % o == 0 for n, o in zip(own, outs, strict=True)):
            kernel = [n // o for n, o in zip(own, outs, strict=True)]
            pool = _average(dims) if kind == "Average" else _max(dims, True)
            return pool(w, input, kernel)
        if kind == "Max":
            return _adaptive_max(w, input, own, outs, dims)
        # A mean along each dim is a product with a matrix of weights.
        x = input.name
        for i, (n, o, s) in enumerate(zip(own, outs, same, strict=True)):
            if s or n == o:
                continue
            order = list(range(input.rank))
            at = input.rank - dims + i
            order[at], order[-1] = order[-1], order[at]
            x = w.emit("Transpose", x, perm=order)
            x = w.emit("Transpose", w.emit("MatMul", x, _matrix(w, n, o)), perm=order)
        return w.emit("Identity", x) if x == input.name else x

    return convert


def _is_same(size: Any, own: Any) -> bool:
    """Returns whether an output size is the input's: None, or read from the input."""
    return size is None or isinstance(size, Value) or size == own


def _adaptive_max(w: Writer, x: Value, own: Any, outs: Any, dims: int) -> Any:
    if w.second_used:
        raise refuse("adaptive max pooling with indices into windows of unequal sizes")
    name = x.name
    for i, (n, o) in enumerate(zip(own, outs, strict=True)):
        if n == o:
            continue
        at, parts = x.rank - dims + i, []
        axis = w.const([at])
        for k in range(o):
            limits = w.const([k * n // o]), w.const([-((k + 1) * n // -o)])
            parts.append(
                w.emit("ReduceMax", w.emit("Slice", name, *limits, axis), axis, keepdims=1)
            )
        name = w.emit("Concat", *parts, axis=at)
    return [w.emit("Identity", name) if name == x.name else name, None]


for _n in (1, 2, 3):
    OPS[f"max_pool{_n}d_with_indices"] = _max(_n, True)
    OPS[f"max_pool{_n}d"] = _max(_n, False)
    OPS[f"avg_pool{_n}d"] = _average(_n)
    OPS[f"adaptive_avg_pool{_n}d"] = _adaptive(_n, "Average")
    OPS[f"adaptive_max_pool{_n}d"] = _adaptive(_n, "Max")
