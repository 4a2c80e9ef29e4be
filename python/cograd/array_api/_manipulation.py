# SPDX-License-Identifier: BSD-3-Clause
"""Functions of the standard that move, join, index, sort and search elements."""

from __future__ import annotations

from typing import Any, NamedTuple

import cograd
from cograd import Tensor

from ._dtypes import result_type
from ._elementwise import promoted

__all__ = [
    "argmax",
    "argmin",
    "argsort",
    "broadcast_arrays",
    "broadcast_to",
    "concat",
    "count_nonzero",
    "diff",
    "expand_dims",
    "flip",
    "moveaxis",
    "nonzero",
    "permute_dims",
    "repeat",
    "reshape",
    "roll",
    "searchsorted",
    "sort",
    "squeeze",
    "stack",
    "take",
    "take_along_axis",
    "tile",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "unstack",
    "where",
]


# Shapes.


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """Returns the arrays as views of one shape."""
    return list(cograd.broadcast_tensors(list(arrays)))


def broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Tensor:
    """Returns a view of another shape."""
    return cograd.broadcast_to(x, shape)


def concat(arrays: Any, /, *, axis: int | None = 0) -> Tensor:
    """Concatenates arrays along an axis; None flattens them first."""
    arrays = list(arrays)
    if axis is None:
        arrays, axis = [x.reshape(-1) for x in arrays], 0
    dtype = result_type(*arrays)
    return cograd.cat([x.to(dtype) for x in arrays], axis)


def stack(arrays: Any, /, *, axis: int = 0) -> Tensor:
    """Stacks arrays along a new axis."""
    arrays = list(arrays)
    dtype = result_type(*arrays)
    return cograd.stack([x.to(dtype) for x in arrays], axis)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Returns the slices along an axis."""
    return tuple(cograd.unbind(x, axis))


def expand_dims(x: Tensor, /, *, axis: int = 0) -> Tensor:
    """Adds an axis of size 1."""
    if not -x.ndim - 1 <= axis <= x.ndim:
        raise IndexError(f"expand_dims(): axis {axis} is out of range for {x.ndim} dims")
    return cograd.unsqueeze(x, axis)


def squeeze(x: Tensor, /, axis: int | tuple[int, ...]) -> Tensor:
    """Removes axes of size 1.

    Raises:
        ValueError: an axis has another size.
    """
    axes = axis if isinstance(axis, tuple) else (axis,)
    for one in axes:
        if x.shape[one] != 1:
            raise ValueError(f"squeeze(): axis {one} has size {x.shape[one]}, not 1")
    return cograd.squeeze(x, axes)


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """Permutes the axes."""
    return cograd.permute(x, axes)


def moveaxis(x: Tensor, source: Any, destination: Any, /) -> Tensor:
    """Moves axes to other positions."""
    return cograd.moveaxis(x, source, destination)


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """Changes the shape; ``copy=False`` raises if the elements must be copied."""
    if copy is False:
        return x.view(shape)
    return cograd.reshape(x.clone() if copy else x, shape)


def _axes(x: Tensor, axis: Any) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(x.ndim))
    return axis if isinstance(axis, tuple) else (axis,)


def flip(x: Tensor, /, *, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """Reverses the order along axes."""
    return cograd.flip(x, _axes(x, axis))


def roll(x: Tensor, /, shift: Any, *, axis: Any = None) -> Tensor:
    """Rolls elements along axes; elements pushed off one end reappear at the other."""
    if axis is None:
        return cograd.roll(x.reshape(-1), shift, 0).reshape(x.shape)
    if isinstance(axis, tuple) and not isinstance(shift, tuple):
        shift = (shift,) * len(axis)
    return cograd.roll(x, shift, axis)


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """Repeats the array several times along each axis."""
    return cograd.tile(x, repetitions)


def repeat(x: Tensor, repeats: Any, /, *, axis: int | None = None) -> Tensor:
    """Repeats each element several times, along an axis or of the flattened array."""
    return cograd.repeat_interleave(x, repeats, axis)


# Indexing.


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """Selects slices of an axis by index; only a vector needs no axis."""
    if axis is None:
        if x.ndim != 1:
            raise ValueError("take(): an axis must be given unless the array is a vector")
        axis = 0
    flat = cograd.index_select(x, axis, indices.reshape(-1))
    axis %= x.ndim
    return flat.reshape(x.shape[:axis] + indices.shape + x.shape[axis + 1 :])


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """Selects elements along an axis by indices of the other axes' shape."""
    return cograd.take_along_dim(x, indices, axis)


# Searching and sorting.


def _searched(name: str, x: Tensor, axis: int | None, keepdims: bool) -> Tensor:
    op = getattr(cograd, name)
    if axis is None:
        result: Tensor = op(x)
        return result.reshape((1,) * x.ndim) if keepdims else result
    return op(x, axis, keepdim=keepdims)  # type: ignore[no-any-return]


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Returns the index of the largest element, the first of several."""
    return _searched("argmax", x, axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Returns the index of the smallest element, the first of several."""
    return _searched("argmin", x, axis, keepdims)


def count_nonzero(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Counts elements that are not zero."""
    counted = (x != 0).to(cograd.int64)
    axes = _axes(x, axis)
    return counted.sum(axes, keepdim=keepdims) if axes else counted


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """Returns the coordinates of the elements that are not zero, one array per axis."""
    if x.ndim == 0:
        raise ValueError("nonzero(): expected an array with at least one axis")
    return tuple(cograd.nonzero(x, as_tuple=True))


def searchsorted(
    x1: Tensor, x2: Any, /, *, side: str = "left", sorter: Tensor | None = None
) -> Tensor:
    """Returns where elements of ``x2`` must be inserted into the sorted vector ``x1``."""
    if sorter is not None:
        x1 = take(x1, sorter)
    x1, x2 = promoted(x1, x2)
    return cograd.searchsorted(x1.contiguous(), x2.contiguous(), right=side == "right")


def where(condition: Tensor, x1: Any, x2: Any, /) -> Tensor:
    """Selects elements of ``x1`` where the condition is true, of ``x2`` elsewhere."""
    if isinstance(x1, Tensor) or isinstance(x2, Tensor):
        x1, x2 = promoted(x1, x2)
    return cograd.where(condition, x1, x2)


def argsort(
    x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> Tensor:
    """Returns the indices that sort along an axis; equal elements keep their order."""
    return cograd.sort(x, dim=axis, descending=descending, stable=True).indices


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Sorts along an axis."""
    return cograd.sort(x, dim=axis, descending=descending, stable=True).values


# Sets.


class UniqueAll(NamedTuple):
    """The result of ``unique_all``."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """The result of ``unique_counts``."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """The result of ``unique_inverse``."""

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Tensor, /) -> UniqueAll:
    """Returns sorted values, their first indices, the index of each element's value, and counts."""
    flat = x.reshape(-1)
    if flat.numel() == 0:
        none = cograd.empty(0, dtype=cograd.int64)
        return UniqueAll(flat.clone(), none, none.reshape(x.shape), none)
    order = _order(flat)
    ordered = flat[order]
    starts = cograd.ones(flat.numel(), dtype=cograd.bool)
    starts[1:] = ordered[1:] != ordered[:-1]  # a nan differs from any other
    (first,) = cograd.nonzero(starts, as_tuple=True)
    number = cograd.cumsum(starts.to(cograd.int64), 0) - 1
    inverse = cograd.empty_like(order)
    inverse[order] = number
    ends = cograd.cat([first[1:], cograd.tensor([flat.numel()])])
    return UniqueAll(ordered[first], order[first], inverse.reshape(x.shape), ends - first)


def _order(flat: Tensor) -> Tensor:
    """Returns a stable order in which equal elements are adjacent."""
    if not flat.is_complex():
        return cograd.sort(flat, stable=True).indices
    order = cograd.sort(flat.imag.contiguous(), stable=True).indices
    return order[cograd.sort(flat.real[order], stable=True).indices]


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """Returns the values, and how often each occurs."""
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """Returns the values, and the index of each element's value."""
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Tensor, /) -> Tensor:
    """Returns the values, sorted."""
    return unique_all(x).values


def diff(
    x: Tensor,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """Computes differences of neighbours along an axis, ``n`` times."""
    parts = [part for part in (prepend, x, append) if part is not None]
    x = concat(parts, axis=axis) if len(parts) > 1 else x
    for _ in range(n):
        size = x.shape[axis]
        if size == 0:
            return x
        after, before = x.narrow(axis, 1, size - 1), x.narrow(axis, 0, size - 1)
        x = after != before if x.dtype == cograd.bool else after - before
    return x
