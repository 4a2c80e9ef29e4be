# SPDX-License-Identifier: BSD-3-Clause
"""Blocked and batched matrices from dense tensors and coordinates, and back."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor

from ._blocks import BlockPattern
from ._pattern import Pattern
from ._tensor import SparseTensor, make, refuse


def add_up(values: Tensor, groups: Tensor, count: int) -> Tensor:
    """Returns the sums of the values of each group; of bools, whether any is set."""
    if values.dtype == cograd.bool:
        return add_up(values.to(cograd.uint8), groups, count) != 0
    zeros = values.new_zeros((count, *values.shape[1:]))
    return zeros.index_add(0, groups, values)


def tiles(x: Tensor, pattern: BlockPattern) -> Tensor:
    """Returns all blocks of a dense tensor, of shape (n, height, width)."""
    count, rows, cols, height, width = pattern.grid
    parts = x.reshape(count, rows, height, cols, width).permute(0, 1, 3, 2, 4)
    return parts.reshape(count * rows * cols, height, width)


def blocks_to_dense(s: SparseTensor) -> Tensor:
    """Returns the dense tensor of a blocked or batched one."""
    pattern: Any = s._pattern
    count, rows, cols, height, width = pattern.grid
    values = s._v.reshape(count * pattern.nnz, height, width)
    all_tiles = add_up(values, pattern.places(), count * rows * cols)
    parts = all_tiles.reshape(count, rows, cols, height, width).permute(0, 1, 3, 2, 4)
    return parts.reshape(s.shape)


def to_coordinates(s: SparseTensor) -> SparseTensor:
    """Returns the tensor with coordinates, in the order of the blocks' elements."""
    pattern: Any = s._pattern
    _, rows, cols, height, width = pattern.grid
    row, col = pattern.elements().indices()
    deep, wide = rows * height, cols * width
    at = [row % deep if deep else row, col % wide if wide else col]
    which = row // deep if deep else row
    for size in reversed(pattern.batch):
        at.insert(0, which % size)
        which = which // size
    coo = Pattern(cograd.sparse_coo, pattern.shape, (cograd.stack(at),))
    return make(coo, s._v.reshape(-1))


def _built(
    pattern: BlockPattern, name: str, which: Tensor, line: Tensor, other: Tensor, values: Tensor
) -> SparseTensor:
    """Returns the tensor from matrix, line and other index of each block, in ascending order."""
    count, rows, cols, height, width = pattern.grid
    lines = rows if pattern.by_rows else cols
    each = cograd.bincount(which, minlength=count)
    if count and bool((each != each[0]).any()):
        raise RuntimeError(
            f"{name}(): Expect the same number of specified elements per batch, got {each.tolist()}"
            if count < 20
            else f"{name}(): Expect the same number of specified elements per batch"
        )
    nnz = int(each[0]) if count else 0
    counts = cograd.bincount(which * lines + line, minlength=count * lines)
    ends = counts.reshape(count, lines).cumsum(1)
    start = cograd.cat((ends.new_zeros((count, 1)), ends), 1).reshape(*pattern.batch, lines + 1)
    parts = (start, other.reshape(*pattern.batch, nnz))
    shape = (*pattern.batch, nnz, *(() if pattern.block is None else (height, width)))
    return make(pattern.with_parts(parts), values.reshape(shape))


def pack(x: Any, layout: Any, block: Any, name: str) -> SparseTensor:
    """Returns a dense tensor, or one with coordinates, in blocks or as a batch of matrices."""
    sparse = isinstance(x, SparseTensor)
    if x.dim() < 2 or (sparse and x._v.dim() > 1):
        dense = x._v.dim() - 1 if sparse else 0
        refuse(name, f" for a tensor of {x.dim()} dims ({dense} dense): expected matrices")
    height, width = block or (1, 1)
    if x.shape[-2] % height or x.shape[-1] % width:
        raise RuntimeError(
            f"{name}(): tensor sparse size ({x.shape[-2]},{x.shape[-1]}) must be divisible by "
            f"given blocksize ({height},{width})"
        )
    empty = cograd.empty(0, dtype=cograd.int64, device=x.device)
    pattern = BlockPattern(layout, tuple(x.shape), (empty, empty), block)
    return (_from_coordinates if sparse else _from_dense)(x, pattern, name)


def _from_dense(x: Tensor, pattern: BlockPattern, name: str) -> SparseTensor:
    count, rows, cols, _, _ = pattern.grid
    parts = tiles(x, pattern)
    mask = (parts.detach() != 0).flatten(1).any(1).reshape(count, rows, cols)
    found: Any = (mask if pattern.by_rows else mask.transpose(1, 2)).nonzero()
    which, line, other = found.unbind(1)
    row, col = (line, other) if pattern.by_rows else (other, line)
    values = parts[(which * rows + row) * cols + col]
    return _built(pattern, name, which, line, other, values)


def _from_coordinates(s: SparseTensor, pattern: BlockPattern, name: str) -> SparseTensor:
    _, rows, cols, height, width = pattern.grid
    at = s._pattern.indices()
    which = at.new_zeros(at.shape[1], dtype=cograd.int64)
    for size, index in zip(pattern.batch, at, strict=False):
        which = which * size + index
    row, col = at[-2] // height, at[-1] // width
    inside = at[-2] % height * width + at[-1] % width
    lines, others = (rows, cols) if pattern.by_rows else (cols, rows)
    line, other = (row, col) if pattern.by_rows else (col, row)
    keys, where = cograd.unique((which * lines + line) * others + other, return_inverse=True)
    size = height * width
    values = add_up(s._v, where * size + inside, len(keys) * size)
    if len(keys) == 0:
        return _built(pattern, name, keys, keys, keys, values)
    line = keys // others
    return _built(pattern, name, line // lines, line % lines, keys % others, values)


def joined(s: SparseTensor) -> SparseTensor:
    """Returns the tensor with its blocks in order and repeated ones added."""
    pattern: Any = s._pattern
    return pack(to_coordinates(s), pattern.layout, pattern.block, "coalesce")


def no_blocks(like: SparseTensor, shape: tuple[int, ...], dtype: Any) -> SparseTensor:
    """Returns a tensor of zeros, in the layout and blocks of ``like``."""
    pattern: Any = like._pattern
    height, width = pattern.block or (1, 1)
    if len(shape) < 2 or shape[-2] % height or shape[-1] % width:
        refuse("new_zeros", f" of layout {pattern.kind}, blocks {pattern.block} and shape {shape}")
    batch = shape[:-2]
    lines = shape[-2] // height if pattern.by_rows else shape[-1] // width
    parts = [pattern.parts[0].new_zeros((*batch, n)) for n in (lines + 1, 0)]
    values = like._v.new_empty((*batch, 0, *(pattern.block or ())), dtype=dtype or like.dtype)
    out = BlockPattern(pattern.layout, tuple(shape), (parts[0], parts[1]), pattern.block)
    return make(out, values)


def part_of_batch(s: SparseTensor, d: int, index: int) -> SparseTensor:
    """Returns the matrices at ``index`` along dim ``d`` of the batch."""
    pattern: Any = s._pattern
    shape = (*pattern.shape[:d], *pattern.shape[d + 1 :])
    parts = tuple(part.select(d, index) for part in pattern.parts)
    values = s._v.select(d, index)
    if len(shape) == 2 and pattern.block is None:
        return make(Pattern(pattern.layout, shape, parts), values)
    return make(BlockPattern(pattern.layout, shape, parts, pattern.block), values)
