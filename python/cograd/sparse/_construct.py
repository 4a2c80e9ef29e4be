# SPDX-License-Identifier: BSD-3-Clause
"""Creation of sparse tensors from indices and values, from dense tensors, and of parts of them."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor

from ._convert import nothing, sizes_of
from ._pattern import Pattern
from ._tensor import SparseTensor, make, refuse

__all__ = [
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
    return data if dtype is None else data.to(dtype)


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
        return _finish(nothing(sizes_of(size)), cograd.empty(0, dtype=dtype), requires_grad)
    at, v = _index(indices), _values_of(values, dtype, device)
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
    name = "sparse_csr_tensor" if layout == cograd.sparse_csr else "sparse_csc_tensor"
    begins, across = _index(start, True), _index(other, True)
    v = _values_of(values, dtype, device)
    if begins.dtype != across.dtype:
        begins, across = begins.to(cograd.int64), across.to(cograd.int64)
    if begins.dim() != 1 or across.dim() != 1:
        refuse(name, " with batch dims")
    if v.dim() != 1:
        refuse(name, " with dense dims")
    if begins.numel() == 0:
        raise RuntimeError(f"{name}(): the compressed indices must have at least one entry")
    lines, nnz = begins.shape[0] - 1, across.shape[0]
    if v.shape[0] != nnz:
        raise RuntimeError(
            f"{name}(): number of indices ({nnz}) and number of values ({v.shape[0]}) differ"
        )
    if size is None:
        width = int(across.max()) + 1 if nnz else 0
        size = (lines, width) if layout == cograd.sparse_csr else (width, lines)
    shape = sizes_of(size)
    if len(shape) != 2:
        refuse(name, f" of {len(shape)} dims: expected 2 sizes, got {shape}")
    along = 0 if layout == cograd.sparse_csr else 1
    if shape[along] != lines:
        raise RuntimeError(
            f"{name}(): {lines + 1} compressed indices do not fit size {shape}: expected "
            f"{shape[along] + 1}"
        )
    steps = begins.diff()
    if int(begins[0]) != 0 or int(begins[-1]) != nnz or bool((steps < 0).any()):
        raise RuntimeError(
            f"{name}(): compressed indices must ascend from 0 to nnz = {nnz}, got {begins.tolist()}"
            if lines < 20
            else f"{name}(): compressed indices must ascend from 0 to nnz = {nnz}"
        )
    _check_range(across[None], (shape[1 - along],))
    return _finish(Pattern(layout, shape, (begins, across)), v, requires_grad)


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
    """Returns a sparse matrix in compressed rows or columns, by ``layout``."""
    if layout not in (cograd.sparse_csr, cograd.sparse_csc):
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
        cograd.arange(crow_indices.shape[0] - 1), crow_indices.diff().to(cograd.int64)
    )
    pair = (col_indices.to(row.dtype), row) if transpose else (row, col_indices.to(row.dtype))
    at = cograd.stack(pair)
    return at.to(cograd.int32) if out_int32 else at
