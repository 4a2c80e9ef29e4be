# SPDX-License-Identifier: BSD-3-Clause
"""Conversions between layouts and dense tensors, and the operations that they need."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor

from ._blocks import BlockPattern
from ._pattern import Pattern
from ._tensor import SparseTensor, handles, make, refuse
from ._tiles import (
    add_up,
    blocks_to_dense,
    joined,
    no_blocks,
    pack,
    tiles,
    to_coordinates,
)

BLOCKED = (cograd.sparse_bsr, cograd.sparse_bsc)
LAYOUTS = (cograd.sparse_coo, cograd.sparse_csr, cograd.sparse_csc, *BLOCKED)


def same_places(a: SparseTensor, b: SparseTensor) -> bool:
    """Returns whether the values of two tensors are known to have the same positions."""
    if isinstance(a._pattern, BlockPattern):
        return a._pattern.same_places(b._pattern)
    return a._pattern is b._pattern


def laid_out_like(s: SparseTensor, like: Pattern, name: str = "to_sparse") -> Any:
    """Returns the tensor in the layout of a pattern, with blocks of the same sizes."""
    return to_layout(s, like.layout, name=name, block=getattr(like, "block", None))


def from_dense(x: Tensor, sparse_dim: int | None = None) -> SparseTensor:
    """Returns the elements of a dense tensor that are not zero; with dense dims, slices."""
    dims = x.dim() if sparse_dim is None else int(sparse_dim)
    if dims == 0 and x.dim() > 0:
        raise RuntimeError("dense_to_sparse: sparse_dim argument must be in >0 when self.dim()>0")
    if not 0 <= dims <= x.dim():
        raise RuntimeError(
            f"dense_to_sparse: sparse_dim argument must be in [0,{x.dim()}] range, but {dims} is "
            "given"
        )
    mask = x.detach() != 0
    if dims < x.dim():
        mask = mask.flatten(dims).any(-1)
    if dims == 0:
        keep = int(mask)
        at = cograd.empty((0, keep), dtype=cograd.int64, device=x.device)
        pattern = Pattern(cograd.sparse_coo, (), (at,), True)
        return make(pattern, x.reshape(1)[:keep])
    found: Any = mask.nonzero()
    at = found.t().contiguous()
    pattern = Pattern(cograd.sparse_coo, x.shape[:dims], (at,), True)
    return make(pattern, x[tuple(at)])


def to_layout(
    x: Any, layout: Any, sparse_dim: Any = None, name: str = "to_sparse", block: Any = None
) -> Any:
    """Returns ``x``, dense or sparse, in a sparse layout; ``block``: the size of blocks."""
    if layout not in LAYOUTS:
        refuse(name, f" of layout {layout}")
    kept = isinstance(x, SparseTensor) and x._pattern.layout == layout
    if kept and block in (None, getattr(x._pattern, "block", None)):
        return x
    if isinstance(x, SparseTensor) and isinstance(x._pattern, BlockPattern):
        x = to_coordinates(x)
    if layout != cograd.sparse_coo and (block is not None or x.dim() > 2):
        return pack(x, layout, block, name)
    s = x if isinstance(x, SparseTensor) else from_dense(x, sparse_dim)
    pattern = s._pattern
    if layout == cograd.sparse_coo:
        if pattern.is_coo:
            return s
        coo = Pattern(layout, pattern.shape, (pattern.indices(),), pattern.coalesced)
        return make(coo, s._v)
    if len(pattern.shape) != 2 or s._v.dim() != 1:
        refuse(name, f" for a tensor of {s.dim()} dims ({s._v.dim() - 1} dense): expected a matrix")
    if pattern.is_coo and not pattern.coalesced:
        s = coalesce(s)
        pattern = s._pattern
    rows = layout == cograd.sparse_csr
    start, other, place = pattern.rows() if rows else pattern.columns()
    values = s._v if place is None else s._v[place]
    return make(Pattern(layout, pattern.shape, (start, other)), values)


def coalesce(s: SparseTensor) -> SparseTensor:
    """Returns the tensor with its positions in order, each once; values at one position added."""
    pattern = s._pattern
    if pattern.coalesced:
        return s
    if isinstance(pattern, BlockPattern):
        return joined(s)
    linear, values = pattern.linear(), s._v
    unique, where = cograd.unique(linear, return_inverse=True)
    values = add_up(values, where, unique.shape[0])
    out = Pattern(cograd.sparse_coo, pattern.shape, (pattern.unraveled(unique),), True)
    out._cache["linear"] = unique
    result = make(out, values)
    return result if pattern.is_coo else to_layout(result, pattern.layout)


@handles("to_dense")
def to_dense(s: Any, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """Returns the tensor with all its elements."""
    if not isinstance(s, SparseTensor):
        plain: Tensor = s if dtype is None else s.to(dtype)
        return plain
    pattern = s._pattern
    if isinstance(pattern, BlockPattern):
        out = blocks_to_dense(s)
        return out if dtype is None else out.to(dtype)
    out = add_up(s._v, pattern.linear(), pattern.size).reshape(s.shape)
    return out if dtype is None else out.to(dtype)


@handles("to_sparse", "to_sparse_coo")
def to_sparse(
    x: Any,
    sparse_dim: Any = None,
    *,
    layout: Any = None,
    blocksize: Any = None,
    dense_dim: Any = None,
) -> Tensor:
    """Returns the tensor in a sparse layout, default ``sparse_coo``."""
    if isinstance(sparse_dim, cograd.layout):
        layout, sparse_dim = sparse_dim, None
    if blocksize is not None or layout in BLOCKED:
        if layout not in BLOCKED:
            raise RuntimeError(
                f"to_sparse(): layout {layout} has no blocks: blocksize is for "
                "sparse_bsr and sparse_bsc"
            )
        return _to_blocks("to_sparse", x, layout, blocksize, dense_dim)
    if dense_dim:
        if layout not in (None, cograd.sparse_coo):
            refuse("to_sparse", f" of layout {layout} with dense dims")
        sparse_dim = x.dim() - dense_dim
    wanted: Tensor = to_layout(x, cograd.sparse_coo if layout is None else layout, sparse_dim)
    return wanted


@handles("to_sparse_csr")
def to_sparse_csr(x: Any, dense_dim: Any = None) -> Tensor:
    """Returns the matrix in compressed rows."""
    if dense_dim:
        refuse("to_sparse_csr", " with dense dims")
    wanted: Tensor = to_layout(x, cograd.sparse_csr, name="to_sparse_csr")
    return wanted


@handles("to_sparse_csc")
def to_sparse_csc(x: Any, dense_dim: Any = None) -> Tensor:
    """Returns the matrix in compressed columns."""
    if dense_dim:
        refuse("to_sparse_csc", " with dense dims")
    wanted: Tensor = to_layout(x, cograd.sparse_csc, name="to_sparse_csc")
    return wanted


def _to_blocks(name: str, x: Any, layout: Any, blocksize: Any, dense_dim: Any) -> Tensor:
    if dense_dim:
        refuse(name, " with dense dims")
    if blocksize is None and isinstance(x, SparseTensor):
        blocksize = getattr(x._pattern, "block", None)
    if blocksize is None:
        raise RuntimeError(f"{name}(): layout {layout} needs blocksize, a pair of sizes")
    sizes = (blocksize, blocksize) if isinstance(blocksize, int) else tuple(map(int, blocksize))
    if len(sizes) != 2 or min(sizes) < 1:
        raise RuntimeError(f"{name}(): expected blocksize to be 2 positive sizes, got {blocksize}")
    wanted: Tensor = to_layout(x, layout, name=name, block=sizes)
    return wanted


@handles("to_sparse_bsr")
def to_sparse_bsr(x: Any, blocksize: Any = None, dense_dim: Any = None) -> Tensor:
    """Returns the blocks of a matrix, or of a batch, that have elements, in compressed rows."""
    return _to_blocks("to_sparse_bsr", x, cograd.sparse_bsr, blocksize, dense_dim)


@handles("to_sparse_bsc")
def to_sparse_bsc(x: Any, blocksize: Any = None, dense_dim: Any = None) -> Tensor:
    """Returns the blocks of a matrix, or of a batch, that have elements, in compressed columns."""
    return _to_blocks("to_sparse_bsc", x, cograd.sparse_bsc, blocksize, dense_dim)


@handles("sparse_mask")
def sparse_mask(x: Any, mask: Any) -> Tensor:
    """Returns the elements of ``x`` at the positions of ``mask``, with its layout."""
    if not isinstance(mask, SparseTensor):
        raise RuntimeError("sparse_mask(): mask must be sparse: call to_sparse() on it")
    if x.shape != mask.shape:
        raise RuntimeError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(x.shape)} but "
            f"mask has size {list(mask.shape)}"
        )
    if not isinstance(x, SparseTensor):
        return make(mask._pattern, elements(x, mask))
    if same_places(x, mask):
        return make(mask._pattern, x._v)
    return make(mask._pattern, values_at(x, mask))


def elements(x: Tensor, s: SparseTensor) -> Tensor:
    """Returns the elements of a dense tensor of the shape of ``s`` where ``s`` has values."""
    if isinstance(s._pattern, BlockPattern):
        return tiles(x, s._pattern)[s._pattern.places()].reshape(s._v.shape)
    dims = len(s._pattern.shape)
    if dims == 0:
        return x[None].expand(s._pattern.nnz, *x.shape)
    return x[tuple(s._pattern.indices())]


def values_at(x: SparseTensor, places: SparseTensor) -> Tensor:
    """Returns the values of ``x`` where ``places`` has values; 0 where it has none."""
    if isinstance(x._pattern, BlockPattern):
        x = to_coordinates(x)
    pattern = places._pattern
    if isinstance(pattern, BlockPattern):
        linear = to_coordinates(places)._pattern.linear()
        return found_at(coalesce(x), linear).reshape(places._v.shape)
    return found_at(coalesce(x), pattern.linear())


def found_at(s: SparseTensor, linear: Tensor) -> Tensor:
    """Returns the values of a coalesced tensor at positions; 0 where it has none."""
    there = s._pattern.linear()
    if there.shape[0] == 0:
        return s._v.new_zeros((linear.shape[0], *s._v.shape[1:]))
    at = cograd.searchsorted(there, linear).clamp(max=there.shape[0] - 1)
    hit = there[at] == linear
    values = s._v[at]
    hit = hit.reshape(-1, *(1,) * (values.dim() - 1))
    return cograd.where(hit, values, values.new_zeros(()))


def sizes_of(size: Any) -> tuple[int, ...]:
    sizes = tuple(int(n) for n in size)
    if any(n < 0 for n in sizes):
        raise RuntimeError(f"size is invalid: it has a negative number, got {sizes}")
    return sizes


def nothing(shape: tuple[int, ...], coalesced: bool = False, device: Any = None) -> Pattern:
    at = cograd.empty((len(shape), 0), dtype=cograd.int64, device=device)
    return Pattern(cograd.sparse_coo, shape, (at,), coalesced)


def no_elements(like: Any, shape: Any = None, dtype: Any = None) -> SparseTensor:
    """Returns a tensor of zeros, in the layout of ``like``."""
    pattern = like._pattern
    sizes = tuple(like.shape if shape is None else shape)
    if isinstance(pattern, BlockPattern):
        return no_blocks(like, sizes, dtype)
    dense = like._v.dim() - 1 if shape is None else 0
    sparse = sizes[: len(sizes) - dense]
    where = like.device
    values = cograd.empty(
        (0, *sizes[len(sizes) - dense :]), dtype=dtype or like.dtype, device=where
    )
    if pattern.is_coo or len(sizes) != 2:
        return make(nothing(sparse, True, where), values)
    lines = sizes[0 if pattern.layout == cograd.sparse_csr else 1]
    parts = [cograd.zeros(n, dtype=pattern.index_dtype, device=where) for n in (lines + 1, 0)]
    return make(Pattern(pattern.layout, sizes, (parts[0], parts[1])), values)
