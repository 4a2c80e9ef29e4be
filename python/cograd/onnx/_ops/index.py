# SPDX-License-Identifier: BSD-3-Clause
"""Indexing, gather, scatter and embeddings."""

from __future__ import annotations

from typing import Any

import cograd
from cograd.onnx._ops._table import OPS, op, refuse
from cograd.onnx._ops.shape import broadcast_shape
from cograd.onnx._writer import Value, Writer

_END = 2**62


def _sliced(w: Writer, x: Value, index: Any) -> tuple[Value, list[Any]]:
    """Applies numbers, slices, None and ...; returns the rest and the tensors left, per dim."""
    items = list(index) if isinstance(index, tuple) else [index]
    items = [_as_value(w, i) for i in items]
    used = sum(_dims_of(i) for i in items)
    if not any(i is Ellipsis for i in items):
        items.append(Ellipsis)
    at = next(k for k, i in enumerate(items) if i is Ellipsis)
    items[at : at + 1] = [slice(None)] * (x.rank - used)
    starts, ends, axes, steps, taken, added = [], [], [], [], [], []
    tensors: list[Any] = []
    dim = 0
    for i in items:
        if i is None or isinstance(i, bool):
            added.append(len(tensors))
            tensors.append(None)
            if i is False:
                raise refuse("an index False")
            continue
        if isinstance(i, slice):
            if (i.start, i.stop, i.step) != (None, None, None):
                starts.append(0 if i.start is None else i.start)
                ends.append(_END if i.stop is None else i.stop)
                axes.append(dim)
                steps.append(1 if i.step is None else w.static(i.step, "the step of a slice"))
            tensors.append(None)
        elif isinstance(i, Value) and not i.is_number:
            tensors.append(i)
            dim += _dims_of(i) - 1
        else:
            taken.append((dim, i))
        dim += 1
    name = x.name
    if axes:
        sliced = [w.shape(starts), w.shape(ends), w.const(axes), w.const(steps)]
        name = w.emit("Slice", name, *sliced)
    for d, i in reversed(taken):
        name = w.emit("Gather", name, w.number(i), axis=d)
    if added:
        # A mask over several dims stands for that many.
        places, d = [], 0
        for k, t in enumerate(tensors):
            if k in added:
                places.append(d)
            d += 1 if t is None else _dims_of(t)
        name = w.emit("Unsqueeze", name, w.const(places))
    return Value(name, x.dtype, x.dims), tensors


def _as_value(w: Writer, i: Any) -> Any:
    if isinstance(i, (list, range)):
        return Value(w.const(list(i)), cograd.int64, [len(i)])
    return i


def _dims_of(i: Any) -> int:
    """Returns how many dims an index stands for."""
    if i is None or i is Ellipsis or isinstance(i, bool):
        return 0
    if isinstance(i, Value) and i.dtype in (cograd.bool, cograd.uint8):
        return i.rank
    return 1


@op("getitem", "__getitem__")
def getitem(w: Writer, input: Value, index: Any) -> Any:
    x, items = _sliced(w, input, index)
    if not any(isinstance(i, Value) for i in items):
        return w.emit("Identity", x) if x.name == input.name else x.name
    positions, tensors, dim = [], [], 0
    for i in items:
        if isinstance(i, Value) and i.dtype is cograd.bool:
            if not i.rank:
                raise refuse("an index that is a bool without dims")
            rows = w.emit("Transpose", w.emit("NonZero", i), perm=[1, 0])
            for column in range(i.rank):
                flat = w.emit("Gather", rows, w.const(column), axis=1)
                tensors.append(Value(flat, cograd.int64, [None]))
                positions.append(dim + column)
            dim += i.rank
            continue
        if isinstance(i, Value):
            positions.append(dim)
            tensors.append(Value(w.cast(i, cograd.int64), cograd.int64, i.dims))
        dim += 1
    if len(tensors) == 1:
        return w.emit("Gather", x, tensors[0], axis=positions[0])
    return _gathered(w, x.name, dim, positions, tensors, items)


def _gathered(
    w: Writer, x: str, rank: int, positions: list[int], tensors: list[Value], items: Any
) -> Any:
    """Indexes several dims by tensors."""
    rest = [d for d in range(rank) if d not in positions]
    moved = w.emit("Transpose", x, perm=[*positions, *rest])
    shape = broadcast_shape(w, tensors)
    wide = max(t.rank for t in tensors)
    parts = [w.emit("Unsqueeze", w.emit("Expand", t, shape), w.const([-1])) for t in tensors]
    found = w.emit("GatherND", moved, w.emit("Concat", *parts, axis=-1))
    # Indices side by side put their dims where they stood, others put them first.
    if positions[-1] - positions[0] == len(positions) - 1 and positions[0]:
        first = positions[0]
        order = [*range(wide, wide + first), *range(wide), *range(wide + first, wide + len(rest))]
        found = w.emit("Transpose", found, perm=order)
    return found


def _scatter_at(w: Writer, x: Value, places: Any, src: str, reduction: str | None = None) -> Any:
    """Writes elements at flat places."""
    flat = w.emit("Reshape", x, w.const([-1]))
    found = w.emit(
        "ScatterElements",
        flat,
        w.emit("Reshape", places, w.const([-1])),
        w.emit("Reshape", w.emit("Expand", src, w.emit("Shape", places)), w.const([-1])),
        axis=0,
        reduction=reduction,
    )
    return w.emit("Reshape", found, w.emit("Shape", x), allowzero=1)


def _fitted(w: Writer, src: Any, x: Value, places_rank: int) -> str:
    """Returns what is written, without leading dims of size 1 that the place lacks."""
    name = w.to(src, x.dtype)
    if isinstance(src, Value) and src.rank > places_rank:
        name = w.emit("Squeeze", name, w.const(list(range(src.rank - places_rank))))
    return name


@op("setitem", "__setitem__")
def setitem(w: Writer, input: Value, index: Any, value: Any) -> Any:
    grid = w.places(input)
    dtypes, w.dtypes = w.dtypes, [cograd.int64]
    places = getitem(w, grid, index)
    w.dtypes = dtypes
    if isinstance(value, Value) and value.rank > 1:
        masks = index if isinstance(index, tuple) else (index,)
        leading = next((k for k, n in enumerate(value.dims) if n != 1), value.rank)
        if leading and not any(isinstance(i, Value) for i in masks):
            value = Value(
                w.emit("Squeeze", value, w.const(list(range(leading)))),
                value.dtype,
                value.dims[leading:],
            )
    return _scatter_at(w, input, places, w.to(value, input.dtype))


@op("index_put")
def index_put(w: Writer, input: Value, indices: Any, values: Any, accumulate: bool = False) -> Any:
    places = getitem(w, w.places(input), tuple(slice(None) if i is None else i for i in indices))
    added = "add" if accumulate else None
    return _scatter_at(w, input, places, w.to(values, input.dtype), added)


@op("index_select")
def index_select(w: Writer, input: Value, dim: int, index: Value) -> Any:
    x = input.name if input.rank else w.reshape(input, [1])
    found = w.emit("Gather", x, index, axis=dim)
    return found if input.rank else w.emit("Reshape", found, w.const([], cograd.int64))


@op("gather")
def gather(w: Writer, input: Value, dim: int, index: Value, **other: Any) -> Any:
    if not input.rank:
        return w.emit("Identity", input)
    # ONNX reads where the index is; torch allows it to be smaller than the input.
    return w.emit("GatherElements", _cut(w, input, dim, index), index, axis=dim)


def _cut(w: Writer, x: Value, dim: int, index: Value) -> Any:
    dims = [
        d
        for d in range(x.rank)
        if d != dim % x.rank and (x.dims[d] != index.dims[d] or x.dims[d] is None)
    ]
    if not dims:
        return x
    ends = w.emit("Gather", w.emit("Shape", index), w.const(dims))
    return w.emit("Slice", x, w.const([0] * len(dims)), ends, w.const(dims))


@op("take_along_dim")
def take_along_dim(w: Writer, input: Value, indices: Value, dim: Any = None) -> Any:
    if dim is None:
        return w.emit("GatherElements", w.reshape(input, [-1]), w.reshape(indices, [-1]), axis=0)
    if input.dims != indices.dims and any(
        a != b
        for d, (a, b) in enumerate(zip(input.dims, indices.dims, strict=True))
        if d != dim % input.rank
    ):
        raise refuse("take_along_dim() that broadcasts")
    return w.emit("GatherElements", input, indices, axis=dim)


@op("scatter")
def scatter(
    w: Writer,
    input: Value,
    dim: int,
    index: Value,
    src: Any = None,
    *,
    value: Any = None,
    reduce: str | None = None,
) -> Any:
    given = value if src is None else src
    if isinstance(given, Value) and given.rank:
        given = Value(_smaller(w, given, index), given.dtype, index.dims)
        name = w.to(given, input.dtype)
    else:
        name = w.emit("Expand", w.to(given, input.dtype), w.emit("Shape", index))
    how = {"add": "add", "multiply": "mul", None: None}[reduce]
    return w.emit("ScatterElements", input, index, name, axis=dim, reduction=how)


def _smaller(w: Writer, src: Value, index: Value) -> str:
    """Returns the part of ``src`` that the index refers to."""
    if src.dims == index.dims and None not in src.dims:
        return src.name
    zeros = w.const([0] * src.rank)
    return str(w.emit("Slice", src, zeros, w.emit("Shape", index), w.const(list(range(src.rank)))))


@op("scatter_add")
def scatter_add(w: Writer, input: Value, dim: int, index: Value, src: Value) -> Any:
    return scatter(w, input, dim, index, src, reduce="add")


@op("masked_select")
def masked_select(w: Writer, input: Value, mask: Value) -> Any:
    shape = broadcast_shape(w, [input, mask])
    x, chosen = w.emit("Expand", input, shape), w.emit("Expand", mask, shape)
    flat = [w.emit("Reshape", v, w.const([-1])) for v in (x, chosen)]
    return w.emit("Compress", *flat, axis=0)


@op("nonzero", "argwhere")
def nonzero(w: Writer, input: Value, **other: Any) -> Any:
    if other.get("as_tuple"):
        raise refuse("nonzero() as a tuple")
    return w.emit("Transpose", w.emit("NonZero", input), perm=[1, 0])


@op("_one_hot", "one_hot")
def one_hot(w: Writer, input: Value, num_classes: Any = -1) -> Any:
    if num_classes == -1:
        raise refuse("one_hot() without num_classes")
    depth = w.shape([num_classes])
    return w.emit("OneHot", input, depth, w.const([0, 1]), axis=-1)


@op("embedding")
def embedding(w: Writer, input: Value, weight: Value, *rest: Any, **other: Any) -> Any:
    if isinstance(weight, Value) and not input.dtype.is_floating_point:
        max_norm = other.get("max_norm", rest[1] if len(rest) > 1 else None)
        if max_norm is not None:
            raise refuse("embedding() with max_norm")
        return w.emit("Gather", weight, w.cast(input, cograd.int64), axis=0)
    raise refuse("embedding() with these arguments")


@op("bucketize")
def bucketize(
    w: Writer, input: Value, boundaries: Value, *, right: bool = False, **other: Any
) -> Any:
    if not isinstance(input, Value):
        raise refuse("bucketize() of a number")
    x = w.emit("Unsqueeze", input, w.const([-1]))
    test = "GreaterOrEqual" if right else "Greater"
    above = w.emit(
        "Cast", w.emit(test, x, w.to(boundaries, input.dtype)), to=w.type_of(cograd.int64)
    )
    return w.cast(w.emit("ReduceSum", above, w.const([-1]), keepdims=0), w.dtype, cograd.int64)


OPS["index_add"] = lambda w, input, dim, index, source, *, alpha=1: _index_add(
    w, input, dim, index, source, alpha
)


def _index_add(w: Writer, x: Value, dim: int, index: Value, source: Value, alpha: Any) -> Any:
    shape: list[int] = [1] * x.rank
    shape[dim] = -1
    rows = w.emit("Expand", w.reshape(index, shape), w.emit("Shape", source))
    src = w.to(source, x.dtype)
    src = src if alpha == 1 else w.emit("Mul", src, w.to(alpha, x.dtype))
    return w.emit("ScatterElements", x, rows, src, axis=dim, reduction="add")


def _rows(w: Writer, x: Value, dim: int, index: Value, source: Any) -> str:
    """Returns an index of whole rows as an index of elements; ``source`` has their sizes."""
    shape: list[int] = [1] * x.rank
    shape[dim] = -1
    return str(w.emit("Expand", w.reshape(index, shape), w.emit("Shape", source)))


@op("index_copy")
def index_copy(w: Writer, input: Value, dim: int, index: Value, source: Value) -> Any:
    if not input.rank:
        return w.emit("Identity", source)
    rows = _rows(w, input, dim, index, source)
    return w.emit("ScatterElements", input, rows, w.to(source), axis=dim)


@op("index_fill")
def index_fill(w: Writer, input: Value, dim: int, index: Value, value: Any) -> Any:
    if not input.rank:
        return w.to(value, input.dtype)
    part = Value(w.emit("Gather", input, w.reshape(index, [-1]), axis=dim), input.dtype, input.dims)
    rows = _rows(w, input, dim, index, part)
    filled = w.emit("Expand", w.to(value, input.dtype), w.emit("Shape", part))
    return w.emit("ScatterElements", input, rows, filled, axis=dim)


@op("take")
def take(w: Writer, input: Value, index: Value) -> Any:
    return w.emit("Gather", w.reshape(input, [-1]), index, axis=0)


def diagonal(w: Writer, input: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """Takes the diagonal of two dims, which becomes the last dim."""
    first, second = dim1 % input.rank, dim2 % input.rank
    rows = w.static(w.size(input, first), "the size of a diagonal's dim")
    columns = w.static(w.size(input, second), "the size of a diagonal's dim")
    count = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    at = [[i - min(offset, 0), i + max(offset, 0)] for i in range(count)]
    rest = [d for d in range(input.rank) if d not in (first, second)]
    moved = w.emit("Transpose", input, perm=[first, second, *rest])
    places = w.const(cograd.tensor(at, dtype=cograd.int64).view(count, 2), None)
    found = w.emit("GatherND", moved, places)
    return w.emit("Transpose", found, perm=[*range(1, len(rest) + 1), 0])


op("diagonal")(diagonal)
