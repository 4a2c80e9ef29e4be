# SPDX-License-Identifier: BSD-3-Clause
"""Stores where the elements of a sparse tensor are."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import cograd
from cograd import _C, Tensor

Arrays: TypeAlias = "tuple[Tensor, Tensor, Tensor | None]"


class Pattern:
    """The sparse sizes and the indices of the elements; shared by tensors that differ in values.

    Attributes:
        layout: ``sparse_coo``, ``sparse_csr`` or ``sparse_csc``.
        shape: the sizes of the sparse dims.
        claimed: whether a program says that the tensor is coalesced; functions do not rely on it.
        parts: (indices,) of shape (dims, nnz); or the compressed starts and the other index.
    """

    __slots__ = ("_cache", "_coalesced", "_versions", "claimed", "layout", "parts", "shape")

    def __init__(
        self, layout: Any, shape: tuple[int, ...], parts: tuple[Tensor, ...], coalesced: Any = None
    ) -> None:
        self.layout, self.shape, self.parts = layout, tuple(map(int, shape)), parts
        self._coalesced: bool | None = coalesced
        self.claimed = False
        self._cache: dict[str, Any] = {}
        self._versions = self._now()

    def _now(self) -> tuple[int, ...]:
        return tuple(0 if p.is_inference() else p._version for p in self.parts)

    def _cached(self, name: str, make: Any) -> Any:
        """Returns what ``make`` returned before, unless a program has written the indices since."""
        now = self._now()
        if now != self._versions:
            self._cache, self._versions = {}, now
        if name not in self._cache:
            with cograd.no_grad():
                self._cache[name] = make()
        return self._cache[name]

    def copy(self) -> Pattern:
        """Returns the pattern with index tensors of its own."""
        parts = tuple(part.clone() for part in self.parts)
        out = self.with_parts(parts)
        out.claimed = self.claimed
        return out

    def with_parts(self, parts: tuple[Tensor, ...]) -> Pattern:
        """Returns the pattern with other index tensors of the same contents."""
        return Pattern(self.layout, self.shape, parts, self._coalesced)

    def full_shape(self, values: Tensor) -> tuple[int, ...]:
        """Returns the sizes of the tensor with these values."""
        return (*self.shape, *values.shape[1:])

    def dense_dims(self, values: Tensor) -> int:
        """Returns the number of dense dims of the tensor with these values."""
        return values.dim() - 1

    def on(self, device: Any) -> Pattern:
        """Returns the pattern with its index tensors on a device; itself if they are there."""
        if self.parts[0].device == device:
            return self
        out = self.with_parts(tuple(part.to(device) for part in self.parts))
        out.claimed = self.claimed
        return out

    @property
    def nnz(self) -> int:
        """The number of elements that are stored."""
        return int(self.parts[-1].shape[-1])

    @property
    def is_coo(self) -> bool:
        """True if the elements have coordinates."""
        return len(self.parts) == 1

    @property
    def index_dtype(self) -> Any:
        """The dtype of the indices."""
        return self.parts[-1].dtype

    def indices(self) -> Tensor:
        """Returns the coordinates, of shape (dims, nnz), int64."""
        if self.is_coo:
            return self.parts[0]
        result: Tensor = self._cached("indices", self._expand)
        return result

    def _expand(self) -> Tensor:
        start, other = (part.to(cograd.int64) for part in self.parts)
        lines = cograd.arange(start.shape[0] - 1, device=start.device)
        along = cograd.repeat_interleave(lines, start.diff())
        if along.shape != other.shape:
            raise IndexError("the compressed indices of a sparse tensor are out of range")
        csr = self.layout == cograd.sparse_csr
        return cograd.stack((along, other) if csr else (other, along))

    def linear(self) -> Tensor:
        """Returns the position of each element among all elements of the sparse dims."""
        result: Tensor = self._cached("linear", self._linear)
        return result

    def _linear(self) -> Tensor:
        out = cograd.zeros(self.nnz, dtype=cograd.int64, device=self.parts[0].device)
        for size, at in zip(self.shape, self.indices(), strict=True):
            out = out * size + at
        return out

    @property
    def coalesced(self) -> bool:
        """True if the elements are in order and each position occurs once."""
        if self.is_coo and not self.claimed:
            return bool(self._coalesced) or self.nnz < 2
        found: bool = self._cached("sorted", self._is_sorted)
        return found

    def _is_sorted(self) -> bool:
        at = self.linear()
        return bool((at[1:] > at[:-1]).all())

    def rows(self) -> Arrays:
        """Returns the starts of the rows, the columns, and the places of their values or None."""
        if self.layout == cograd.sparse_csr:
            return (*self.parts, None)  # type: ignore[return-value]
        result: Arrays = self._cached("rows", self._rows)
        return result

    def _rows(self) -> Arrays:
        if not self.is_coo:
            start, row = self.parts
            turned: Any = _C._csr_transpose(start, row, self.shape[0], None)
            return turned  # type: ignore[no-any-return]
        row, col = self.parts[0]
        place = None
        if not self.coalesced:
            row, place = row.sort(stable=True)
            col = col[place]
        counts = cograd.bincount(row, minlength=self.shape[0])
        start = cograd.cat((counts.new_zeros(1), counts.cumsum(0)))
        return start, col.contiguous(), place

    def columns(self) -> Arrays:
        """Returns what ``rows`` returns, of the transposed matrix."""
        if self.layout == cograd.sparse_csc:
            return (*self.parts, None)  # type: ignore[return-value]
        result: Arrays = self._cached("columns", self._columns)
        return result

    def _columns(self) -> Arrays:
        start, col, place = self.rows()
        turned: Any = _C._csr_transpose(start, col, self.shape[1], place)
        return turned  # type: ignore[no-any-return]

    def transposed(self) -> Pattern:
        """Returns the pattern of the transposed matrix, whose values are in the same places."""
        shape = (self.shape[1], self.shape[0])
        if self.is_coo:
            out = Pattern(self.layout, shape, (self.parts[0].flip(0),))
        else:
            csr = self.layout == cograd.sparse_csr
            layout = cograd.sparse_csc if csr else cograd.sparse_csr
            out = Pattern(layout, shape, self.parts)
        if self._now() == self._versions:
            self._hand_over(out)
        return out

    def _hand_over(self, to: Pattern) -> None:
        turned = {"rows": "columns", "columns": "rows"}
        to._cache.update({turned[k]: v for k, v in self._cache.items() if k in turned})

    def unraveled(self, linear: Tensor) -> Tensor:
        """Returns the coordinates of positions among the elements of the sparse dims."""
        rest, out = linear, []
        for size in reversed(self.shape):
            out.append(rest % size if size else rest)
            rest = rest // size if size else rest
        if not out:
            return linear.new_zeros((0, linear.shape[0]))
        return cograd.stack(out[::-1])

    @property
    def size(self) -> int:
        """The number of positions."""
        return math.prod(self.shape)
