# SPDX-License-Identifier: BSD-3-Clause
"""Views, joining, splitting and conversions of dtype."""

from __future__ import annotations

from typing import Any

import cograd
from cograd.onnx._ops._table import OPS, op, refuse
from cograd.onnx._writer import Value, Writer


def sizes_of(args: Any) -> list[Any]:
    """Returns sizes that were passed one by one or as a list."""
    return list(args[0]) if len(args) == 1 and isinstance(args[0], (list, tuple)) else list(args)


@op("view", "reshape", "_unsafe_view")
def reshape(w: Writer, input: Value, *shape: Any, **named: Any) -> Any:
    sizes = sizes_of(shape) if shape else list(next(iter(named.values())))
    if sizes and isinstance(sizes[0], cograd.dtype):
        raise refuse("view() as another dtype")
    if -1 in sizes and 0 in sizes:
        sizes = [w.size(Value("", w.dtype, w.dims), i) for i in range(len(sizes))]
    return w.reshape(input, sizes)


@op("view_as", "reshape_as")
def view_as(w: Writer, input: Value, other: Value) -> Any:
    return w.emit("Reshape", input, w.emit("Shape", other), allowzero=1)


@op("flatten", "ravel")
def flatten(w: Writer, input: Value, start_dim: int = 0, end_dim: int = -1) -> Any:
    rank = max(input.rank, 1)
    first, last = start_dim % rank, end_dim % rank
    sizes = w.sizes(input)
    if first == 0 and last == rank - 1:
        return w.reshape(input, [-1])
    if 0 in input.dims:
        return w.reshape(input, list(w.dims))
    return w.reshape(input, [*sizes[:first], -1, *sizes[last + 1 :]])


@op("unflatten")
def unflatten(w: Writer, input: Value, dim: int, sizes: Any) -> Any:
    dim %= input.rank
    around = w.sizes(input)
    return w.reshape(input, [*around[:dim], *sizes, *around[dim + 1 :]])


@op("squeeze")
def squeeze(w: Writer, input: Value, dim: Any = None) -> Any:
    if dim is None:
        dims = [i for i, n in enumerate(input.dims) if n == 1]
    else:
        given = [dim] if isinstance(dim, int) else list(dim)
        dims = [i % input.rank for i in given if input.rank and input.dims[i] == 1]
    return w.emit("Squeeze", input, w.const(dims)) if dims else w.emit("Identity", input)


@op("unsqueeze")
def unsqueeze(w: Writer, input: Value, dim: int) -> Any:
    return w.emit("Unsqueeze", input, w.const([dim]))


def permuted(w: Writer, x: Value, dims: Any) -> Any:
    """Permutes dims; they may be negative."""
    return (
        w.emit("Transpose", x, perm=[d % x.rank for d in dims]) if x.rank else w.emit("Identity", x)
    )


@op("transpose", "swapaxes", "swapdims", "transpose_copy")
def transpose(w: Writer, input: Value, dim0: int, dim1: int) -> Any:
    order = list(range(input.rank))
    if order:
        order[dim0], order[dim1] = order[dim1], order[dim0]
    return permuted(w, input, order)


@op("permute")
def permute(w: Writer, input: Value, *dims: Any, **named: Any) -> Any:
    return permuted(w, input, sizes_of(dims) if dims else named["dims"])


@op("movedim", "moveaxis")
def movedim(w: Writer, input: Value, source: Any, destination: Any) -> Any:
    rank = input.rank
    first = [d % rank for d in ([source] if isinstance(source, int) else source)]
    last = [d % rank for d in ([destination] if isinstance(destination, int) else destination)]
    rest = iter([d for d in range(rank) if d not in first])
    placed = dict(zip(last, first, strict=True))
    return permuted(w, input, [placed[d] if d in placed else next(rest) for d in range(rank)])


OPS["t"] = OPS["T"] = lambda w, input: permuted(w, input, range(input.rank)[::-1])
OPS["mT"] = OPS["H"] = OPS["mH"] = OPS["adjoint"] = lambda w, input: transpose(w, input, -2, -1)


@op(
    "contiguous",
    "clone",
    "detach",
    "real",
    "alias",
    "lift_fresh",
    "positive",
    "conj",
    "resolve_conj",
    "resolve_neg",
    "conj_physical",
    "requires_grad_",
    "cpu",
)
def identity(w: Writer, input: Value, *rest: Any, **other: Any) -> Any:
    return w.emit("Identity", input)


@op(
    "to",
    "type",
    "type_as",
    "float",
    "double",
    "half",
    "bfloat16",
    "int",
    "long",
    "short",
    "char",
    "byte",
    "bool",
)
def to(w: Writer, input: Value, *rest: Any, **other: Any) -> Any:
    if input.dtype is w.dtype:
        return w.emit("Identity", input)
    return w.cast(input, w.dtype)


@op("expand", "broadcast_to")
def expand(w: Writer, input: Value, *sizes: Any, **named: Any) -> Any:
    wanted = sizes_of(sizes) if sizes else list(next(iter(named.values())))
    new = len(wanted) - input.rank
    own = [None] * new + w.sizes(input)
    # ONNX takes the larger of both sizes, torch that of ``wanted``; both agree where it is valid.
    return w.emit(
        "Expand", input, w.shape([o if n == -1 else n for n, o in zip(wanted, own, strict=True)])
    )


@op("expand_as")
def expand_as(w: Writer, input: Value, other: Value) -> Any:
    return w.emit("Expand", input, w.emit("Shape", other))


@op("broadcast_tensors")
def broadcast_tensors(w: Writer, *tensors: Any) -> Any:
    values = sizes_of(tensors)
    shape = broadcast_shape(w, values)
    return [w.emit("Expand", x, shape) for x in values]


def broadcast_shape(w: Writer, values: Any) -> str:
    """Returns the common shape of values."""
    total: Any = None
    for x in values:
        zero = w.emit("Expand", w.const(0), w.emit("Shape", x))
        total = zero if total is None else w.emit("Add", total, zero)
    return str(w.emit("Shape", total))


@op("repeat", "tile")
def repeat(w: Writer, input: Value, *sizes: Any, **named: Any) -> Any:
    times = sizes_of(sizes) if sizes else list(next(iter(named.values())))
    times = [1] * (input.rank - len(times)) + times
    x: Any = input
    if len(times) > input.rank:
        x = w.emit("Unsqueeze", input, w.const(list(range(len(times) - input.rank))))
    return w.emit("Tile", x, w.shape(times))


@op("repeat_interleave")
def repeat_interleave(w: Writer, input: Value, repeats: Any, dim: Any = None, **other: Any) -> Any:
    if isinstance(repeats, Value) and not repeats.is_number:
        raise refuse("repeat_interleave() with a tensor of repeats")
    sizes = [-1] if dim is None else w.sizes(input)
    dim = 0 if dim is None else dim % input.rank
    x = w.reshape(input, [*sizes[: dim + 1], 1, *sizes[dim + 1 :]])
    times: list[Any] = [1] * (len(sizes) + 1)
    times[dim + 1] = repeats
    sizes[dim] = -1
    return w.reshape(w.emit("Tile", x, w.shape(times)), sizes)


@op("cat", "concat", "concatenate")
def cat(w: Writer, tensors: Any, dim: int = 0) -> Any:
    parts = [w.to(x) for x in tensors if not (x.dims == [0] and len(w.dims) > 1)]
    return w.emit("Concat", *parts, axis=dim)


@op("stack")
def stack(w: Writer, tensors: Any, dim: int = 0) -> Any:
    axis = w.const([dim])
    return w.emit("Concat", *(w.emit("Unsqueeze", w.to(x), axis) for x in tensors), axis=dim)


@op("atleast_1d")
def atleast_1d(w: Writer, input: Value) -> Any:
    return w.emit("Identity", input) if input.rank else w.reshape(input, [1])


@op("vstack", "row_stack")
def vstack(w: Writer, tensors: Any) -> Any:
    parts = [w.reshape(w.to(x), [1, -1]) if x.rank < 2 else w.to(x) for x in tensors]
    return w.emit("Concat", *parts, axis=0)


@op("column_stack")
def column_stack(w: Writer, tensors: Any) -> Any:
    parts = [w.reshape(w.to(x), [-1, 1]) if x.rank < 2 else w.to(x) for x in tensors]
    return w.emit("Concat", *parts, axis=1)


@op("hstack")
def hstack(w: Writer, tensors: Any) -> Any:
    parts = [w.to(x) if x.rank else w.emit("Unsqueeze", w.to(x), w.const([0])) for x in tensors]
    return w.emit("Concat", *parts, axis=min(1, len(w.dims) - 1))


def _parts(w: Writer, x: Value, dim: int, sizes: Any, names: int) -> list[str]:
    found = w.emit("Split", x, w.shape(sizes), outputs=names, axis=dim)
    return [found] if names == 1 else list(found)


@op("split", "split_with_sizes", "chunk", "tensor_split", "unsafe_split", "unsafe_chunk")
def split(w: Writer, input: Value, *rest: Any, **other: Any) -> Any:
    dim = other.get("dim", rest[1] if len(rest) > 1 else 0)
    sizes = [out[dim] for out in w.outs]
    if None in sizes:
        given = rest[0] if rest else next(iter(other.values()))
        if not isinstance(given, (list, tuple)):
            raise refuse("split() or chunk() of a dim whose size varies into a number of parts")
        sizes = list(given)
    return _parts(w, input, dim, sizes, len(w.outs))


@op("unbind")
def unbind(w: Writer, input: Value, dim: int = 0) -> Any:
    if input.dims[dim] is None:
        raise refuse("unbind() of a dim whose size varies")
    return [w.emit("Gather", input, w.const(i), axis=dim) for i in range(len(w.outs))]


@op("select")
def select(w: Writer, input: Value, dim: int, index: Any) -> Any:
    return w.emit("Gather", input, w.number(index), axis=dim)


@op("narrow")
def narrow(w: Writer, input: Value, dim: int, start: Any, length: Any) -> Any:
    first = w.shape([start])
    if isinstance(start, int) and start < 0:
        first = w.emit("Add", first, w.shape([w.size(input, dim)]))
    end = w.emit("Add", first, w.shape([length]))
    return w.emit("Slice", input, first, end, w.const([dim]))


@op("flip")
def flip(w: Writer, input: Value, *dims: Any) -> Any:
    axes = sizes_of(dims)
    if not axes or not input.rank:
        return w.emit("Identity", input)
    n = len(axes)
    return w.emit(
        "Slice", input, w.const([-1] * n), w.const([-(2**62)] * n), w.const(axes), w.const([-1] * n)
    )


OPS["fliplr"] = lambda w, input: flip(w, input, 1)
OPS["flipud"] = lambda w, input: flip(w, input, 0)


@op("roll")
def roll(w: Writer, input: Value, shifts: Any, dims: Any = None) -> Any:
    x: Any = input
    if dims is None or (isinstance(dims, (list, tuple)) and not dims):
        x = w.reshape(input, [-1])
        dims, shifts = [0], [shifts] if not isinstance(shifts, (list, tuple)) else shifts
    dims = [dims] if isinstance(dims, int) else list(dims)
    shifts = list(shifts) if isinstance(shifts, (list, tuple)) else [shifts]
    for shift, dim in zip(shifts, dims, strict=True):
        count = w.emit("Shape", x)
        count = w.emit("Gather", count, w.const([dim]))
        shift = w.emit("Mod", w.shape([shift]), w.emit("Max", count, w.const([1])))
        cut, axis = w.emit("Sub", count, shift), w.const([dim])
        tail = w.emit("Slice", x, cut, w.const([2**62]), axis)
        x = w.emit("Concat", tail, w.emit("Slice", x, w.const([0]), cut, axis), axis=dim)
    return w.emit("Reshape", x, w.emit("Shape", input), allowzero=1)


@op("size")
def size(w: Writer, input: Value, dim: int) -> Any:
    return w.number(w.size(input, dim))


@op("pixel_shuffle")
def pixel_shuffle(w: Writer, input: Value, upscale_factor: int) -> Any:
    r = upscale_factor
    *batch, c, h, x = w.sizes(input)
    channels = w.static(c, "the number of channels")
    split = w.reshape(input, [-1, channels // r**2, r, r, h, x])
    moved = w.emit("Transpose", split, perm=[0, 1, 4, 2, 5, 3])
    # The sizes of the result, as far as they vary, are products of the image's.
    high, wide = (_times(w, n, r) for n in (h, x))
    return w.reshape(moved, [*batch, channels // r**2, high, wide])


def _times(w: Writer, n: Any, factor: int) -> Any:
    if isinstance(n, int):
        return n * factor
    return Value(w.emit("Mul", n, w.const([factor])), cograd.int64, [1])


@op("pixel_unshuffle")
def pixel_unshuffle(w: Writer, input: Value, downscale_factor: int) -> Any:
    r = downscale_factor
    *batch, c, _, _ = w.sizes(input)
    high, wide = (
        n // r if isinstance(n, int) else Value(w.emit("Div", n, w.const([r])), cograd.int64, [1])
        for n in w.sizes(input)[-2:]
    )
    channels = w.static(c, "the number of channels")
    split = w.reshape(input, [-1, channels, high, r, wide, r])
    moved = w.emit("Transpose", split, perm=[0, 1, 3, 5, 2, 4])
    return w.reshape(moved, [*batch, channels * r * r, high, wide])


@op("channel_shuffle", "native_channel_shuffle")
def channel_shuffle(w: Writer, input: Value, groups: int) -> Any:
    n, c, *rest = w.sizes(input)
    channels = w.static(c, "the number of channels")
    split = w.reshape(input, [n, groups, channels // groups, *rest])
    order = [0, 2, 1, *range(3, input.rank + 1)]
    return w.reshape(w.emit("Transpose", split, perm=order), [n, channels, *rest])


@op("tril", "triu")
def tril(w: Writer, input: Value, diagonal: int = 0, upper: int = 0) -> Any:
    x = w.cast(input, cograd.int32) if input.dtype is cograd.bool else input.name
    found = w.emit("Trilu", x, w.const(diagonal), upper=upper)
    return w.cast(found, w.dtype, cograd.int32 if input.dtype is cograd.bool else w.dtype)


OPS["triu"] = lambda w, input, diagonal=0: tril(w, input, diagonal, 1)


@op("meshgrid")
def meshgrid(w: Writer, *tensors: Any, indexing: str | None = None) -> Any:
    values = sizes_of(tensors)
    if indexing == "xy" and len(values) > 1:
        values[0], values[1] = values[1], values[0]
    rank = len(values)
    shaped = [
        Value(
            w.reshape(x, [1] * i + [-1] + [1] * (rank - 1 - i)),
            x.dtype,
            [1] * i + [x.dims[0] if x.rank else 1] + [1] * (rank - 1 - i),
        )
        for i, x in enumerate(values)
    ]
    shape = broadcast_shape(w, shaped)
    found = [w.emit("Expand", x, shape) for x in shaped]
    if indexing == "xy" and rank > 1:
        order = [1, 0, *range(2, rank)]
        found = [w.emit("Transpose", x, perm=order) for x in found]
        found[0], found[1] = found[1], found[0]
    return found
