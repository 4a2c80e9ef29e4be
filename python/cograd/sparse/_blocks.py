# SPDX-License-Identifier: BSD-3-Clause
"""Stores where the blocks of a blocked matrix, or of a batch of compressed matrices, are."""

from __future__ import annotations

import math
from typing import Any, NoReturn

import cograd
from cograd import Tensor

from ._pattern import Arrays, Pattern


class UnsupportedLayoutError(NotImplementedError):
    """A function asked a blocked or batched pattern for what it lacks."""


class BlockPattern(Pattern):
    """The blocks of BSR and BSC matrices; or elements of a batch of CSR, CSC, BSR or BSC matrices.

    Functions compute on ``elements``, the pattern of one large matrix that has the matrices of the
    batch on its diagonal. What asks for coordinates of values, as of a plain pattern, raises.

    Attributes:
        shape: all sizes, those of the batch first.
        block: the sizes of a block; None if values are elements.
    """

    __slots__ = ("block",)

    def __init__(
        self,
        layout: Any,
        shape: tuple[int, ...],
        parts: tuple[Tensor, ...],
        block: tuple[int, int] | None,
    ) -> None:
        super().__init__(layout, shape, parts)
        self.block = block

    def with_parts(self, parts: tuple[Tensor, ...]) -> Pattern:
        return BlockPattern(self.layout, self.shape, parts, self.block)

    def full_shape(self, values: Tensor) -> tuple[int, ...]:
        return self.shape

    def dense_dims(self, values: Tensor) -> int:
        return 0

    @property
    def batch(self) -> tuple[int, ...]:
        """The sizes of the batch."""
        return self.shape[:-2]

    @property
    def by_rows(self) -> bool:
        """True if rows are compressed, not columns."""
        return self.layout in (cograd.sparse_csr, cograd.sparse_bsr)

    @property
    def grid(self) -> tuple[int, int, int, int, int]:
        """The numbers of matrices, rows and columns of blocks, and the sizes of a block."""
        height, width = self.block or (1, 1)
        rows, cols = self.shape[-2] // height, self.shape[-1] // width
        return math.prod(self.batch), rows, cols, height, width

    def _upto(self, n: int) -> Tensor:
        """Returns 0, 1, ..., n - 1 on the device of the indices."""
        return cograd.arange(n, device=self.parts[0].device)

    def _expand(self) -> Tensor:
        """Returns row and column of each block in the large matrix, of shape (2, blocks)."""
        count, rows, cols, _, _ = self.grid
        lines, others = (rows, cols) if self.by_rows else (cols, rows)
        start = self.parts[0].reshape(count, lines + 1).to(cograd.int64)
        other = self.parts[1].reshape(count, self.nnz).to(cograd.int64)
        steps = start.diff(dim=1)
        fits = (start[:, 0] == 0).all() & (start[:, -1] == self.nnz).all() & (steps >= 0).all()
        if not bool(fits & ((other >= 0) & (other < others)).all()):
            raise IndexError("the compressed indices of a sparse tensor are out of range")
        line = cograd.repeat_interleave(self._upto(count * lines), steps.reshape(-1))
        across = (other + others * self._upto(count)[:, None]).reshape(-1)
        return cograd.stack((line, across) if self.by_rows else (across, line))

    def blocks(self) -> Tensor:
        """Returns row and column of each block in the large matrix."""
        found: Tensor = self._cached("blocks", self._expand)
        return found

    def places(self) -> Tensor:
        """Returns the position of each block among those of all matrices, row by row."""
        cols = self.grid[2]
        row, col = self.blocks()
        return row * cols + (col % cols if cols else col)

    @property
    def coalesced(self) -> bool:
        """True if blocks are in order and each position occurs once."""
        found: bool = self._cached("sorted", self._blocks_ascend)
        return found

    def _blocks_ascend(self) -> bool:
        row, col = self.blocks() if self.by_rows else self.blocks().flip(0)
        line, other = row.diff(), col.diff()
        return bool(((line > 0) | ((line == 0) & (other > 0))).all())

    def elements(self) -> Pattern:
        """Returns the pattern of the large matrix, for values flattened."""
        found: Pattern = self._cached("elements", self._elements)
        return found

    def _elements(self) -> Pattern:
        count, rows, cols, height, width = self.grid
        row, col = self.blocks()
        shape = (len(row), height, width)
        down, right = self._upto(height)[:, None], self._upto(width)
        at = cograd.stack(
            [
                (row[:, None, None] * height + down).expand(shape).reshape(-1),
                (col[:, None, None] * width + right).expand(shape).reshape(-1),
            ]
        )
        out = Pattern(cograd.sparse_coo, (count * rows * height, count * cols * width), (at,))
        out._cache["rows" if self.by_rows else "columns"] = self._compressed(at)
        return out

    def _compressed(self, at: Tensor) -> Arrays:
        """Returns starts, the other index and places of the large matrix, without sorting."""
        _, _, _, height, width = self.grid
        along, across, deep, wide = 0, 1, height, width
        step, other_step = self._upto(height)[:, None], self._upto(width)
        if not self.by_rows:
            along, across, deep, wide = 1, 0, width, height
            step, other_step = other_step, step
        line = self.blocks()[along]
        count, lines, others, _, _ = self.grid
        if not self.by_rows:
            lines, others = others, lines
        lines, other_lines = count * lines, count * others
        counts = cograd.bincount(line, minlength=lines)
        begins = counts.cumsum(0) - counts
        size = height * width
        start = begins[:, None] * size + counts[:, None] * wide * self._upto(deep)
        start = cograd.cat((start.reshape(-1), start.new_full((1,), len(line) * size)))
        narrow = max(at.shape[1], deep * lines, wide * other_lines) < 2**31
        kind = cograd.int32 if narrow else cograd.int64
        if size == 1:
            return start.to(kind), at[across].to(kind), None
        first, here = begins[line], counts[line]
        rank = self._upto(len(line)) - first
        to = (first * size + rank * wide)[:, None, None] + other_step
        to = (to + here[:, None, None] * wide * step).reshape(-1)
        place = cograd.empty_like(to).index_put_((to,), self._upto(len(to)))
        return start.to(kind), at[across][place].to(kind), place.to(kind)

    def transposed(self) -> BlockPattern:
        """Returns the pattern of the transposed matrices; the blocks are transposed, too."""
        turned = {
            cograd.sparse_csr: cograd.sparse_csc,
            cograd.sparse_csc: cograd.sparse_csr,
            cograd.sparse_bsr: cograd.sparse_bsc,
            cograd.sparse_bsc: cograd.sparse_bsr,
        }
        shape = (*self.batch, self.shape[-1], self.shape[-2])
        block = None if self.block is None else (self.block[1], self.block[0])
        return BlockPattern(turned[self.layout], shape, self.parts, block)

    def same_places(self, other: Pattern) -> bool:
        """Returns whether another pattern has its blocks at the same positions in this order."""
        if self is other:
            return True
        return (
            isinstance(other, BlockPattern)
            and (self.layout, self.shape, self.block) == (other.layout, other.shape, other.block)
            and all(map(cograd.equal, self.parts, other.parts))
        )

    @property
    def kind(self) -> str:
        """The layout in words."""
        return f"{self.layout}" + (" with batch dims" if self.batch else "")

    def _lacks(self, *args: Any) -> NoReturn:
        raise UnsupportedLayoutError(self.kind)

    indices: Any = _lacks
    linear: Any = _lacks
    rows: Any = _lacks
    columns: Any = _lacks
    unraveled: Any = _lacks
