# SPDX-License-Identifier: BSD-3-Clause
"""Rearrangements, joins and parts of sparse tensors."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor

from ._blocks import BlockPattern
from ._convert import to_layout
from ._pattern import Pattern
from ._tensor import SparseTensor, handles, make, refuse
from ._tiles import add_up, part_of_batch


def positive_dim(d: int, dims: int) -> int:
    """Returns a dim made non-negative; raises IndexError if it is out of range."""
    if not -max(dims, 1) <= d < max(dims, 1):
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-dims}, {dims - 1}], but got "
            f"{d})"
        )
    return d % dims if dims else 0


@handles("permute")
def _permute(input: Any, *dims: Any) -> Any:
    given = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
    order = [positive_dim(d, input.dim()) for d in given]
    if sorted(order) != list(range(input.dim())):
        raise RuntimeError(f"permute(): {given} is no permutation of {input.dim()} dims")
    pattern = input._pattern
    n = len(pattern.shape)
    if order == list(range(input.dim())):
        return input
    if isinstance(pattern, BlockPattern):
        d = input.dim() - 2
        if order != [*range(d), d + 1, d]:
            refuse("permute", f" of layout {pattern.kind} but of rows and columns")
        values = input._v if pattern.block is None else input._v.transpose(-1, -2)
        return make(pattern.transposed(), values)
    if not pattern.is_coo:
        return make(pattern.transposed(), input._v)
    if any(d >= n for d in order[:n]):
        refuse("permute", " between sparse and dense dims")
    values = input._v.permute(0, *(d - n + 1 for d in order[n:]))
    if order[:n] == [1, 0]:
        return make(pattern.transposed(), values)
    shape = tuple(pattern.shape[d] for d in order[:n])
    coalesced = pattern.coalesced and order[:n] == list(range(n))
    at = pattern.indices()[order[:n]] if n else pattern.indices()
    return make(Pattern(pattern.layout, shape, (at,), coalesced), values)


@handles("transpose", "swapaxes", "swapdims")
def _transpose(input: Any, dim0: int, dim1: int) -> Any:
    order = list(range(input.dim()))
    a, b = positive_dim(dim0, input.dim()), positive_dim(dim1, input.dim())
    order[a], order[b] = order[b], order[a]
    return _permute(input, order)


@handles("t")
def _t(input: Any) -> Any:
    """Returns the transposed matrix."""
    if input.dim() > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.dim()}D")
    return input if input.dim() < 2 else _transpose(input, 0, 1)


@handles("T")
def _reversed(self: Any) -> Any:
    return _t(self)


@handles("mT")
def _matrices(self: Any) -> Any:
    return _transpose(self, -2, -1)


@handles("unsqueeze")
def _unsqueeze(input: Any, dim: int) -> Any:
    s, d = to_layout(input, cograd.sparse_coo), positive_dim(dim, input.dim() + 1)
    pattern = s._pattern
    n = len(pattern.shape)
    if d > n:
        return make(pattern, s._v.unsqueeze(d - n + 1))
    at = pattern.indices()
    at = cograd.cat((at[:d], at.new_zeros((1, at.shape[1])), at[d:]))
    shape = (*pattern.shape[:d], 1, *pattern.shape[d:])
    return make(Pattern(cograd.sparse_coo, shape, (at,), pattern.coalesced), s._v)


@handles("cat", "concat", "concatenate")
def _cat(tensors: Any, dim: int = 0, *, out: Any = None) -> Any:
    parts = list(tensors)
    if out is not None or not all(isinstance(p, SparseTensor) for p in parts):
        refuse("cat", " together with dense tensors, or with out=")
    parts = [to_layout(p, cograd.sparse_coo) for p in parts]
    first, d = parts[0], positive_dim(dim, parts[0].dim())
    n = len(first._pattern.shape)
    for p in parts:
        if (
            p.dim() != first.dim()
            or len(p._pattern.shape) != n
            or any(
                i != d and a != b for i, (a, b) in enumerate(zip(p.shape, first.shape, strict=True))
            )
        ):
            raise RuntimeError(
                f"cat(): sizes of tensors must match except in dimension {d}, got "
                f"{tuple(p.shape)} and {tuple(first.shape)}"
            )
    if d >= n:
        refuse("cat", " along a dense dim")
    offset, columns = 0, []
    for p in parts:
        at = p._pattern.indices().clone()
        at[d] += offset
        offset += p.shape[d]
        columns.append(at)
    shape = (*first._pattern.shape[:d], offset, *first._pattern.shape[d + 1 :])
    ordered = d == 0 and all(p._pattern.coalesced for p in parts)
    pattern = Pattern(cograd.sparse_coo, shape, (cograd.cat(columns, 1),), ordered)
    return make(pattern, cograd.cat([p._v for p in parts]))


@handles("stack")
def _stack(tensors: Any, dim: int = 0, *, out: Any = None) -> Any:
    parts = list(tensors)
    if not all(isinstance(p, SparseTensor) for p in parts):
        refuse("stack", " together with dense tensors")
    return _cat([_unsqueeze(p, dim) for p in parts], positive_dim(dim, parts[0].dim() + 1), out=out)


@handles("index_select")
def _index_select(input: Any, dim: int, index: Tensor, *, out: Any = None) -> Any:
    if out is not None:
        refuse("index_select", " with out=")
    s, d = to_layout(input, cograd.sparse_coo), positive_dim(dim, input.dim())
    pattern = s._pattern
    n = len(pattern.shape)
    if d >= n:
        return make(pattern, s._v.index_select(d - n + 1, index))
    wanted = index.reshape(-1).to(cograd.int64)
    size = pattern.shape[d]
    if wanted.numel() and not bool(((wanted >= -size) & (wanted < size)).all()):
        raise IndexError(f"index_select(): index out of range for dimension {d} with size {size}")
    wanted = cograd.where(wanted < 0, wanted + size, wanted)
    at = pattern.indices()
    order = at[d].argsort(stable=True)
    counts = cograd.bincount(at[d], minlength=size)
    first = counts.cumsum(0) - counts
    each = counts[wanted]
    rank = cograd.repeat_interleave(cograd.arange(wanted.shape[0], device=at.device), each)
    places = cograd.arange(rank.shape[0], device=at.device)
    entry = order[places - (each.cumsum(0) - each)[rank] + first[wanted][rank]]
    new = at[:, entry].clone()
    new[d] = rank
    shape = (*pattern.shape[:d], wanted.shape[0], *pattern.shape[d + 1 :])
    ordered = d == 0 and pattern.coalesced
    out_pattern = Pattern(cograd.sparse_coo, shape, (new,), ordered)
    return make(out_pattern, s._v[entry])


@handles("select")
def _select(input: Any, dim: int, index: int) -> Any:
    s, d = input, positive_dim(dim, input.dim())
    size = s.shape[d]
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(s.shape)} at dimension "
            f"{d}"
        )
    if isinstance(s._pattern, BlockPattern) and d < len(s._pattern.batch):
        return part_of_batch(s, d, index % size)
    s = to_layout(s, cograd.sparse_coo)
    pattern = s._pattern
    n = len(pattern.shape)
    if d >= n:
        return make(pattern, s._v.select(d - n + 1, index))
    keep = (pattern.indices()[d] == index % size).nonzero()[:, 0]
    values = s._v[keep]
    if n == 1:
        return add_up(values, cograd.zeros_like(keep), 1).squeeze(0)
    at = pattern.indices()[:, keep]
    at = cograd.cat((at[:d], at[d + 1 :]))
    shape = (*pattern.shape[:d], *pattern.shape[d + 1 :])
    return make(Pattern(cograd.sparse_coo, shape, (at,), pattern.coalesced), values)


@handles("__getitem__")
def _getitem(self: Any, index: Any) -> Any:
    items = index if isinstance(index, tuple) else (index,)
    if not all(isinstance(i, int) and not isinstance(i, bool) for i in items):
        refuse("indexing", " but by integers; index_select takes indices")
    out = self
    for i in items:
        if out.dim() == 0:
            raise IndexError("too many indices for a sparse tensor")
        out = _select(out, 0, i) if isinstance(out, SparseTensor) else out[i]
    return out


@handles("unbind")
def _unbind(input: Any, dim: int = 0) -> tuple[Any, ...]:
    if input.dim() == 0:
        raise TypeError("iteration over a 0-d tensor")
    return tuple(_select(input, dim, i) for i in range(input.shape[positive_dim(dim, input.dim())]))
