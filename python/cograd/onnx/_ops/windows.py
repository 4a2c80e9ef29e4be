# SPDX-License-Identifier: BSD-3-Clause
"""Windows as columns, and the inverse of pools; sizes of images are constants."""

from __future__ import annotations

from typing import Any

import cograd
from cograd.onnx._ops._table import OPS, op, refuse
from cograd.onnx._ops.conv import batched, per_dim, unbatched
from cograd.onnx._writer import Value, Writer


def _places(image: Any, kernel: Any, spread: Any, pad: Any, step: Any) -> Any:
    """Returns which elements of a padded image each column has, and the padded sizes."""
    wide = [n + 2 * p for n, p in zip(image, pad, strict=True)]
    grid = cograd.arange(wide[0] * wide[1]).view(1, 1, *wide).double()
    columns = cograd.nn.functional.unfold(grid, kernel, spread, 0, step)
    return columns[0].long(), wide


@op("im2col")
def unfold(
    w: Writer, input: Value, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Any:
    kernel, spread, pad, step = (per_dim(v, 2) for v in (kernel_size, dilation, padding, stride))
    image = [w.static(n, "an image size") for n in w.sizes(input)[-2:]]
    places, wide = _places(image, kernel, spread, pad, step)
    x, added = batched(w, input, 2)
    channels = w.static(w.size(input, input.rank - 3), "the number of channels")
    x = w.emit("Pad", x, w.const(pad * 2), w.to(0), w.const([2, 3]))
    flat = w.reshape(x, [-1, channels, wide[0] * wide[1]])
    columns = w.emit("Gather", flat, w.const(places, None), axis=2)
    found = w.reshape(columns, [-1, channels * places.shape[0], places.shape[1]])
    return unbatched(w, found, added)


@op("unfold")
def either_unfold(w: Writer, input: Value, *args: Any, **kwargs: Any) -> Any:
    if len(args) + len(kwargs) == 3:  # Tensor.unfold(dim, size, step)
        return _sliding(w, input, *args, **kwargs)
    return unfold(w, input, *args, **kwargs)


def _sliding(w: Writer, x: Value, dimension: int, size: int, step: int) -> Any:
    if not x.rank:
        raise refuse("unfold() of a tensor without dims")
    dim = dimension % x.rank
    count = w.static(w.size(x, dim), "the unfolded size")
    starts = cograd.arange(0, count - size + 1, step)
    rows = starts[:, None] + cograd.arange(size)
    found = w.emit("Gather", x, w.const(rows, None), axis=dim)
    order = [d for d in range(x.rank + 1) if d != dim + 1]
    return w.emit("Transpose", found, perm=[*order, dim + 1])


@op("fold", "col2im")
def fold(
    w: Writer,
    input: Value,
    output_size: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Any:
    image = [w.static(n, "an output size") for n in per_dim(output_size, 2)]
    kernel, spread, pad, step = (per_dim(v, 2) for v in (kernel_size, dilation, padding, stride))
    x, added = batched(w, input, 1)
    found = w.emit(
        "Col2Im", x, w.const(image), w.const(kernel), dilations=spread, pads=pad * 2, strides=step
    )
    return unbatched(w, found, added)


def _unpool(dims: int) -> Any:
    def convert(w: Writer, input: Value, indices: Value, output_size: Any, *rest: Any) -> Any:
        sizes = [w.static(n, "an output size") for n in output_size][-dims:]
        total = 1
        for n in sizes:
            total *= n
        leading = w.sizes(input)[: input.rank - dims]
        zeros = w.emit("Expand", w.to(0), w.shape([*leading, total]))
        flat = [w.reshape(v, [*leading, -1]) for v in (indices, input)]
        found = w.emit("ScatterElements", zeros, *flat, axis=-1)
        return w.reshape(found, [*leading, *sizes])

    return convert


for _n in (1, 2, 3):
    OPS[f"max_unpool{_n}d"] = _unpool(_n)
