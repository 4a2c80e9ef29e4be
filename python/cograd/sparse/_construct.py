# SPDX-License-Identifier: BSD-3-Clause
"""Creation of sparse tensors from indices and values, from dense tensors, and of parts of them."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor

from ._blocks import BlockPattern
from ._convert import BLOCKED, LAYOUTS, nothing, sizes_of
from ._pattern import Pattern
from ._tensor import SparseTensor, make, refuse

__all__ = [
    "sparse_bsc_tensor",
    "sparse_bsr_tensor",
    "sparse_compressed_tensor",
    "sparse_coo_tensor",
    "sparse_csc_tensor",
    "sparse_csr_tensor",
]


def _index(data: Any, keep32: bool = False) -> Tensor:
    t: Tensor = data if isinstance(data, Tensor) else cograd.as_tensor(data)
    if keep32 and t.dtype == cograd.int32:
        return t.detach()
    if t.dtype == cograd.bool or t.dtype.is_complex:
        raise TypeError(f"indices must be integers, got {t.dtype}")
    return t.detach().to(cograd.int64)


def _values_of(data: Any, dtype: Any, device: Any) -> Tensor:
    if not isinstance(data, Tensor):
        return cograd.tensor(data, dtype=dtype, device=device)
    if isinstance(data, SparseTensor):
        raise RuntimeError("the values of a sparse tensor must be dense, got a sparse tensor")
    values: Tensor = data if device is None else data.to(device)
    return values if dtype is None else values.to(dtype)


def _finish(pattern: Pattern, values: Tensor, requires_grad: bool) -> SparseTensor:
    if requires_grad:
        values = values.detach()
    return make(pattern, values, requires_grad)


def sparse_coo_tensor(
    indices: Any = None,
    values: Any = None,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Tensor:
    """Returns a sparse tensor from coordinates; values at the same position are added.

    Args:
        indices: ints of shape (sparse dims, n). They are always checked.
        values: of shape (n, ...); the dims after the first are dense dims. Gradients flow to it.
        size: the shape; default: the smallest that the indices fit in.
        is_coalesced: states that positions are in order and occur once; ``values`` and ``indices``
            rely on it, functions check it.

    Raises:
        RuntimeError: an index is out of range, or shapes do not fit together.
    """
    if indices is not None and values is None and size is None:
        indices, size = None, indices
    if indices is None:
        if size is None:
            raise TypeError("sparse_coo_tensor(): expected indices and values, or a size")
        return _finish(
            nothing(sizes_of(size), device=device),
            cograd.empty(0, dtype=dtype, device=device),
            requires_grad,
        )
    v = _values_of(values, dtype, device)
    at = _index(indices).to(v.device)
    if at.dim() == 1 and at.numel() == 0:
        at = at.reshape(1, 0)
    if at.dim() != 2:
        raise RuntimeError(
            f"indices must be sparse_dim x nnz, but got: {list(at.shape)} (dim {at.dim()})"
        )
    if v.dim() == 0:
        v = v.expand(at.shape[1])
    dims, nnz = at.shape
    if v.shape[0] != nnz:
        raise RuntimeError(
            f"indices and values must have same nnz, but got nnz from indices: {nnz}, nnz from "
            f"values: {v.shape[0]}"
        )
    if size is None:
        sparse = tuple(int(n) + 1 for n in at.max(1).values) if nnz else (0,) * dims
        shape = (*sparse, *v.shape[1:])
    else:
        shape = sizes_of(size)
    if len(shape) != dims + v.dim() - 1:
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(shape)}, "
            f"sparse_dim = {dims}, dense_dim = {v.dim() - 1}"
        )
    if tuple(v.shape[1:]) != shape[dims:]:
        raise RuntimeError(
            f"values has incorrect size, expected {[nnz, *shape[dims:]]}, got {list(v.shape)}"
        )
    _check_range(at, shape[:dims])
    pattern = Pattern(cograd.sparse_coo, shape[:dims], (at,))
    pattern.claimed = bool(is_coalesced)
    return _finish(pattern, v, requires_grad)


def _check_range(at: Tensor, shape: tuple[int, ...]) -> None:
    if at.numel() == 0:
        return
    low, high = at.min(1).values.tolist(), at.max(1).values.tolist()
    for d, size in enumerate(shape):
        if low[d] < 0:
            raise RuntimeError(f"found negative index {low[d]} for dim {d}")
        if high[d] >= size:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {d}, size is {size} but found index "
                f"{high[d]}"
            )


_ROWS = (cograd.sparse_csr, cograd.sparse_bsr)


def _compressed(
    layout: Any,
    start: Any,
    other: Any,
    values: Any,
    size: Any,
    dtype: Any,
    device: Any,
    requires_grad: bool,
) -> Tensor:
    name = f"{str(layout).rpartition('.')[2]}_tensor"
    v = _values_of(values, dtype, device)
    begins, across = _index(start, True).to(v.device), _index(other, True).to(v.device)
    if begins.dtype != across.dtype:
        begins, across = begins.to(cograd.int64), across.to(cograd.int64)
    batch = begins.dim() - 1
    if batch < 0 or across.dim() != batch + 1:
        raise RuntimeError(
            f"{name}(): compressed indices and other indices must have the same number of dims, at "
            f"least 1, got {begins.dim()} and {across.dim()}"
        )
    if v.dim() > batch + 1 + 2 * (layout in BLOCKED):
        refuse(name, " with dense dims")
    if v.dim() != batch + 1 + 2 * (layout in BLOCKED):
        raise RuntimeError(
            f"{name}(): values must have {batch + 1 + 2 * (layout in BLOCKED)} dims for indices of "
            f"{batch + 1}, got {v.dim()}"
        )
    if begins.shape[-1] == 0:
        raise RuntimeError(f"{name}(): the compressed indices must have at least one entry")
    if not begins.shape[:-1] == across.shape[:-1] == v.shape[:batch]:
        raise RuntimeError(
            f"{name}(): batch dims differ: {tuple(begins.shape[:-1])}, {tuple(across.shape[:-1])} "
            f"and {tuple(v.shape[:batch])}"
        )
    nnz = across.shape[-1]
    if v.shape[batch] != nnz:
        raise RuntimeError(
            f"{name}(): number of indices ({nnz}) and number of values ({v.shape[batch]}) differ"
        )
    block: Any = tuple(map(int, v.shape[batch + 1 :])) or None
    shape = _compressed_shape(name, layout, begins, across, block, size)
    steps = begins.diff(dim=-1)
    ends = ((begins[..., 0] == 0) & (begins[..., -1] == nnz)).all()
    if not bool(ends) or bool((steps < 0).any()):
        raise RuntimeError(
            f"{name}(): compressed indices must ascend from 0 to nnz = {nnz}, got {begins.tolist()}"
            if begins.numel() < 20
            else f"{name}(): compressed indices must ascend from 0 to nnz = {nnz}"
        )
    along = -2 if layout in _ROWS else -1
    width = shape[-3 - along] // (block[-3 - along] if block else 1)
    _check_range(across.reshape(1, -1), (width,))
    parts = (begins, across)
    if batch or block:
        return _finish(BlockPattern(layout, shape, parts, block), v, requires_grad)
    return _finish(Pattern(layout, shape, parts), v, requires_grad)


def _compressed_shape(
    name: str, layout: Any, begins: Tensor, across: Tensor, block: Any, size: Any
) -> tuple[int, ...]:
    """Returns ``size`` after checks, or the smallest that the indices fit in."""
    batch = tuple(map(int, begins.shape[:-1]))
    lines = begins.shape[-1] - 1
    high, wide = block or (1, 1)
    if 0 in (high, wide):
        raise RuntimeError(f"{name}(): blocks must not be empty, got blocks of {high}x{wide}")
    if size is None:
        width = int(across.max()) + 1 if across.numel() else 0
        rows, cols = (lines, width) if layout in _ROWS else (width, lines)
        return (*batch, rows * high, cols * wide)
    shape = sizes_of(size)
    if len(shape) != len(batch) + 2:
        if len(shape) > len(batch) + 2:
            refuse(name, f" of {len(shape)} dims: expected {len(batch) + 2} sizes, got {shape}")
        raise RuntimeError(f"{name}(): expected {len(batch) + 2} sizes, got {shape}")
    if shape[:-2] != batch:
        raise RuntimeError(f"{name}(): size {shape} does not begin with the batch dims {batch}")
    if shape[-2] % high or shape[-1] % wide:
        raise RuntimeError(
            f"{name}(): size {shape} must be divisible by the blocks, which are {high}x{wide}"
        )
    found = shape[-2] // high if layout in _ROWS else shape[-1] // wide
    if found != lines:
        raise RuntimeError(
            f"{name}(): {lines + 1} compressed indices do not fit size {shape}: expected "
            f"{found + 1}"
        )
    return shape


def sparse_csr_tensor(
    crow_indices: Any,
    col_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """Returns a sparse matrix in compressed rows: the starts of the rows, columns, values.

    If the arguments have more dims, those before the last are a batch: each matrix has as many
    values.

    Indices of dtype int32 stay int32. They are always checked.
    """
    return _compressed(
        cograd.sparse_csr, crow_indices, col_indices, values, size, dtype, device, requires_grad
    )


def sparse_csc_tensor(
    ccol_indices: Any,
    row_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """Returns a sparse matrix in compressed columns: the starts of the columns, rows, values."""
    return _compressed(
        cograd.sparse_csc, ccol_indices, row_indices, values, size, dtype, device, requires_grad
    )


def sparse_bsr_tensor(
    crow_indices: Any,
    col_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """Returns a matrix of blocks in compressed rows; ``values``: (n, height, width).

    Indices count blocks. Dims before these are a batch.
    """
    return _compressed(
        cograd.sparse_bsr, crow_indices, col_indices, values, size, dtype, device, requires_grad
    )


def sparse_bsc_tensor(
    ccol_indices: Any,
    row_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """Returns a matrix of blocks in compressed columns; ``values``: (n, height, width).

    Indices count blocks. Dims before these are a batch.
    """
    return _compressed(
        cograd.sparse_bsc, ccol_indices, row_indices, values, size, dtype, device, requires_grad
    )


def sparse_compressed_tensor(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """Returns a sparse matrix of any compressed layout."""
    if layout not in LAYOUTS or layout == cograd.sparse_coo:
        refuse("sparse_compressed_tensor", f" of layout {layout}")
    return _compressed(
        layout, compressed_indices, plain_indices, values, size, dtype, device, requires_grad
    )


def _convert_indices_from_coo_to_csr(
    input: Tensor, size: int, *, out_int32: bool = False
) -> Tensor:
    """Returns the starts of ``size`` rows from the rows of elements, in ascending order."""
    counts = cograd.bincount(input, minlength=size)
    start = cograd.cat((counts.new_zeros(1), counts.cumsum(0)))
    return start.to(cograd.int32) if out_int32 else start


def _convert_indices_from_csr_to_coo(
    crow_indices: Tensor, col_indices: Tensor, *, out_int32: bool = False, transpose: bool = False
) -> Tensor:
    """Returns the coordinates (2, nnz); with ``transpose``, the columns first."""
    row = cograd.repeat_interleave(
        cograd.arange(crow_indices.shape[0] - 1, device=crow_indices.device),
        crow_indices.diff().to(cograd.int64),
    )
    pair = (col_indices.to(row.dtype), row) if transpose else (row, col_indices.to(row.dtype))
    at = cograd.stack(pair)
    return at.to(cograd.int32) if out_int32 else at
