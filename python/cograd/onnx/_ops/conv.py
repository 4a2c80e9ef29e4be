# SPDX-License-Identifier: BSD-3-Clause
"""Convolutions and padding."""

from __future__ import annotations

from typing import Any

import cograd
from cograd.onnx._ops._table import OPS, op, refuse
from cograd.onnx._writer import Value, Writer


def per_dim(value: Any, dims: int) -> list[int]:
    """Returns a number for each of the dims."""
    found = list(value) if isinstance(value, (list, tuple)) else [value]
    return found * dims if len(found) == 1 else found


def batched(w: Writer, x: Value, dims: int) -> tuple[str, bool]:
    """Returns an input (N, C, *) with ``dims`` further dims, and whether N was added."""
    added = x.rank == dims + 1
    return (w.emit("Unsqueeze", x, w.const([0])) if added else x.name), added


def unbatched(w: Writer, x: str, added: bool) -> Any:
    """Removes the dim that ``batched`` added."""
    return w.emit("Squeeze", x, w.const([0])) if added else x


def _kernel(w: Writer, weight: Value) -> list[int]:
    return [w.static(k, "the size of the kernel") for k in w.sizes(weight)[2:]]


def _conv(dims: int) -> Any:
    def convert(
        w: Writer,
        input: Value,
        weight: Value,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Any:
        x, added = batched(w, input, dims)
        spread = per_dim(dilation, dims)
        kernel = _kernel(w, weight)
        if padding == "valid":
            padding = 0
        if padding == "same":
            total = [d * (k - 1) for d, k in zip(spread, kernel, strict=True)]
            pads = [n // 2 for n in total] + [n - n // 2 for n in total]
        else:
            pads = per_dim(padding, dims) * 2
        found = w.emit(
            "Conv",
            x,
            w.to(weight, input.dtype),
            None if bias is None else w.to(bias, input.dtype),
            kernel_shape=kernel,
            strides=per_dim(stride, dims),
            pads=pads,
            dilations=spread,
            group=groups,
        )
        return unbatched(w, found, added)

    return convert


def _transposed(dims: int) -> Any:
    def convert(
        w: Writer,
        input: Value,
        weight: Value,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Any:
        x, added = batched(w, input, dims)
        pads, more = per_dim(padding, dims), per_dim(output_padding, dims)
        if all(n <= p for n, p in zip(more, pads, strict=True)):
            # Less padding cut off at the end is the same, also where it exceeds the stride.
            ends, more = [p - n for n, p in zip(more, pads, strict=True)], [0] * dims
        else:
            ends = pads
        found = w.emit(
            "ConvTranspose",
            x,
            weight,
            bias,
            kernel_shape=_kernel(w, weight),
            strides=per_dim(stride, dims),
            pads=pads + ends,
            output_padding=more,
            dilations=per_dim(dilation, dims),
            group=groups,
        )
        return unbatched(w, found, added)

    return convert


for _n in (1, 2, 3):
    OPS[f"conv{_n}d"], OPS[f"conv_transpose{_n}d"] = _conv(_n), _transposed(_n)


@op("convolution")
def convolution(
    w: Writer,
    input: Value,
    weight: Value,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Any:
    dims = weight.rank - 2
    if transposed:
        return _transposed(dims)(
            w, input, weight, bias, stride, padding, output_padding, groups, dilation
        )
    return _conv(dims)(w, input, weight, bias, stride, padding, dilation, groups)


def padded(w: Writer, x: Any, rank: int, pad: Any, mode: str, value: str | None) -> Any:
    """Pads the last dims by pairs of numbers that start with the last dim."""
    dims = len(pad) // 2
    before, after = list(pad[0::2])[::-1], list(pad[1::2])[::-1]
    axes = w.const(list(range(rank - dims, rank)))
    return w.emit("Pad", x, w.shape([*before, *after]), value, axes, mode=mode)


@op("pad")
def pad(w: Writer, input: Value, pad: Any, mode: str = "constant", value: Any = None) -> Any:
    if not pad:
        return w.emit("Identity", input)
    negative = any(isinstance(n, int) and n < 0 for n in pad)
    if mode == "constant":
        fill = w.to(0 if value is None else value)
        if input.dtype is cograd.bool:
            x = w.cast(input, cograd.int32)
            found = padded(w, x, input.rank, pad, mode, w.const(int(bool(value)), cograd.int32))
            return w.cast(found, cograd.bool, cograd.int32)
        return padded(w, input, input.rank, pad, mode, fill)
    if negative:
        raise refuse(f"pad() with negative numbers in mode {mode!r}")
    if mode == "circular":
        return _circular(w, input, pad)
    return padded(w, input, input.rank, pad, {"replicate": "edge"}.get(mode, mode), None)


def _circular(w: Writer, input: Value, pad: Any) -> Any:
    x: Any = input
    for i in range(len(pad) // 2):
        axis, before, after = input.rank - 1 - i, pad[2 * i], pad[2 * i + 1]
        dim = w.const([axis])
        parts = [x]
        if before:
            parts.insert(0, w.emit("Slice", x, w.const([-before]), w.const([2**62]), dim))
        if after:
            parts.append(w.emit("Slice", x, w.const([0]), w.const([after]), dim))
        x = w.emit("Concat", *parts, axis=axis)
    return x


OPS["constant_pad_nd"] = lambda w, input, pad_by, value=0: pad(w, input, pad_by, "constant", value)
