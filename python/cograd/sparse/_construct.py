# SPDX-License-Identifier: BSD-3-Clause
"""Creation of sparse tensors from indices and values, from dense tensors, and of parts of them."""

from __future__ import annotations

import math
from typing import Any

import cograd
from cograd import Tensor

from ._pattern import Pattern
from ._tensor import SparseTensor, handles, make, refuse

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


def _sizes(size: Any) -> tuple[int, ...]:
    sizes = tuple(int(n) for n in size)
    if any(n < 0 for n in sizes):
        raise RuntimeError(f"size is invalid: it has a negative number, got {sizes}")
    return sizes


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
        is_coalesced: states that positions are in order and occur once.

    Raises:
        RuntimeError: an index is out of range, or shapes do not fit together.
    """
    if indices is not None and values is None and size is None:
        indices, size = None, indices
    if indices is None:
        if size is None:
            raise TypeError("sparse_coo_tensor(): expected indices and values, or a size")
        return _finish(_nothing(_sizes(size)), cograd.empty(0, dtype=dtype), requires_grad)
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
        shape = _sizes(size)
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
    pattern = Pattern(cograd.sparse_coo, shape[:dims], (at,), bool(is_coalesced))
    if is_coalesced and not pattern._is_sorted():
        raise RuntimeError("is_coalesced=True: the indices are not in order, or repeat a position")
    return _finish(pattern, v, requires_grad)


def _nothing(shape: tuple[int, ...], coalesced: bool = False) -> Pattern:
    return Pattern(
        cograd.sparse_coo, shape, (cograd.empty((len(shape), 0), dtype=cograd.int64),), coalesced
    )


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
    shape = _sizes(size)
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


# ---- conversions --------------------------------------------------------------------------------


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
        pattern = Pattern(
            cograd.sparse_coo, (), (cograd.empty((0, keep), dtype=cograd.int64),), True
        )
        return make(pattern, x.reshape(1)[:keep])
    at = mask.nonzero().t().contiguous()
    pattern = Pattern(cograd.sparse_coo, x.shape[:dims], (at,), True)
    return make(pattern, x[tuple(at)])


def to_layout(x: Any, layout: Any, sparse_dim: Any = None, name: str = "to_sparse") -> Any:
    """Returns ``x``, dense or sparse, in a sparse layout."""
    if layout not in (cograd.sparse_coo, cograd.sparse_csr, cograd.sparse_csc):
        refuse(name, f" of layout {layout}")
    if isinstance(x, SparseTensor) and x._pattern.layout == layout:
        return x
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
    linear, values = pattern.linear(), s._v
    unique, where = cograd.unique(linear, return_inverse=True)
    values = add_up(values, where, unique.shape[0])
    out = Pattern(cograd.sparse_coo, pattern.shape, (pattern.unraveled(unique),), True)
    out._cache["linear"] = unique
    result = make(out, values)
    return result if pattern.is_coo else to_layout(result, pattern.layout)


def add_up(values: Tensor, groups: Tensor, count: int) -> Tensor:
    """Returns the sums of the values of each group; of bools, whether any is set."""
    if values.dtype == cograd.bool:
        return add_up(values.to(cograd.uint8), groups, count) != 0
    zeros = cograd.zeros((count, *values.shape[1:]), dtype=values.dtype)
    return zeros.index_add(0, groups, values)


@handles("to_dense")
def to_dense(s: Any, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """Returns the tensor with all its elements."""
    if not isinstance(s, SparseTensor):
        return s if dtype is None else s.to(dtype)
    pattern = s._pattern
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
    if blocksize is not None:
        refuse("to_sparse", " with blocks")
    if isinstance(sparse_dim, cograd.layout):
        layout, sparse_dim = sparse_dim, None
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
    if x._pattern is mask._pattern:
        return make(mask._pattern, x._v)
    return make(mask._pattern, found_at(coalesce(x), mask._pattern.linear()))


def elements(x: Tensor, s: SparseTensor) -> Tensor:
    """Returns the elements of a dense tensor of the shape of ``s`` where ``s`` has values."""
    dims = len(s._pattern.shape)
    if dims == 0:
        return x[None].expand(s._pattern.nnz, *x.shape)
    return x[tuple(s._pattern.indices())]


def found_at(s: SparseTensor, linear: Tensor) -> Tensor:
    """Returns the values of a coalesced tensor at positions; 0 where it has none."""
    there = s._pattern.linear()
    if there.shape[0] == 0:
        return s._v.new_zeros((linear.shape[0], *s._v.shape[1:]))
    at = cograd.searchsorted(there, linear).clamp(max=there.shape[0] - 1)
    hit = there[at] == linear
    values = s._v[at]
    hit = hit.reshape(-1, *(1,) * (values.dim() - 1))
    return cograd.where(hit, values, cograd.zeros((), dtype=values.dtype))


# ---- parts --------------------------------------------------------------------------------------


def _as_coo(s: Any, name: str) -> SparseTensor:
    if not isinstance(s, SparseTensor) or not s._pattern.is_coo:
        kind = (
            s._pattern.layout.rpartition("_")[2].capitalize() if isinstance(s, SparseTensor) else ""
        )
        got = f"Sparse{kind}" if kind else "Strided"
        what = "tensor" if name == "values" else "coordinate tensor"
        raise RuntimeError(f"{name} expected sparse {what} layout but got {got}")
    return s


@handles("coalesce")
def _coalesce(self: Any) -> Tensor:
    """Returns the tensor with its positions in order, each once; values at one position added."""
    return coalesce(_as_coo(self, "coalesce"))


@handles("is_coalesced")
def _is_coalesced(self: Any) -> bool:
    """Returns whether positions are known to be in order and to occur once."""
    return _as_coo(self, "is_coalesced")._pattern.coalesced


@handles("indices")
def _indices(self: Any) -> Tensor:
    """Returns the coordinates, of shape (sparse dims, nnz), of a coalesced tensor."""
    pattern = _as_coo(self, "indices")._pattern
    if not pattern.coalesced:
        raise RuntimeError(
            "Cannot get indices on an uncoalesced tensor, please call .coalesce() first"
        )
    return pattern.parts[0]


@handles("values")
def _values(self: Any) -> Tensor:
    """Returns the values of a coalesced tensor, with their history."""
    if isinstance(self, SparseTensor) and not self._pattern.is_coo:
        return self._v
    if not _as_coo(self, "values")._pattern.coalesced:
        raise RuntimeError(
            "Cannot get values on an uncoalesced tensor, please call .coalesce() first"
        )
    values: Tensor = self._v
    return values


@handles("_indices")
def _raw_indices(self: Any) -> Tensor:
    return _as_coo(self, "_indices")._pattern.parts[0]


@handles("_values")
def _raw_values(self: Any) -> Tensor:
    return _as_coo(self, "_values")._v


@handles("numpy", "__array__")
def _numpy(self: Any, *args: Any, **kwargs: Any) -> Any:
    raise TypeError(
        f"can't convert {self._pattern.layout} layout tensor to numpy. Use Tensor.to_dense() first, "
        "or to_scipy()."
    )


@handles("_nnz")
def _nnz(self: Any) -> int:
    return int(self._pattern.nnz)


@handles("_coalesced_")
def _set_coalesced(self: Any, coalesced: bool) -> Any:
    pattern = _as_coo(self, "_coalesced_")._pattern
    if coalesced and not pattern._is_sorted():
        raise RuntimeError("_coalesced_(): the indices are not in order, or repeat a position")
    self._pattern = Pattern(pattern.layout, pattern.shape, pattern.parts, bool(coalesced))
    return self


@handles("sparse_dim")
def _sparse_dim(self: Any) -> int:
    """Returns the number of sparse dims."""
    return len(self._pattern.shape)


@handles("dense_dim")
def _dense_dim(self: Any) -> int:
    """Returns the number of dense dims."""
    return int(self._v.dim()) - 1


def _part(name: str, layout: str, which: int, kind: str) -> None:
    def method(self: Any) -> Tensor:
        """Returns one of the two arrays of compressed indices."""
        if self._pattern.layout != getattr(cograd, layout):
            short = str(self._pattern.layout).rpartition("_")[2].capitalize()
            got = "Sparse" if self._pattern.is_coo else f"Sparse{short}"
            raise RuntimeError(
                f"{name} expected sparse {kind} compressed tensor layout but got {got}"
            )
        part: Tensor = self._pattern.parts[which]
        return part

    handles(name)(method)


_part("crow_indices", "sparse_csr", 0, "row")
_part("col_indices", "sparse_csr", 1, "row")
_part("ccol_indices", "sparse_csc", 0, "column")
_part("row_indices", "sparse_csc", 1, "column")


def no_elements(like: Any, shape: Any = None, dtype: Any = None) -> SparseTensor:
    """Returns a tensor of zeros, in the layout of ``like``."""
    pattern = like._pattern
    sizes = tuple(like.shape if shape is None else shape)
    dense = like._v.dim() - 1 if shape is None else 0
    sparse = sizes[: len(sizes) - dense]
    values = cograd.empty((0, *sizes[len(sizes) - dense :]), dtype=dtype or like.dtype)
    if pattern.is_coo or len(sizes) != 2:
        return make(_nothing(sparse, True), values)
    lines = sizes[0 if pattern.layout == cograd.sparse_csr else 1]
    parts = [cograd.zeros(n, dtype=pattern.index_dtype) for n in (lines + 1, 0)]
    return make(Pattern(pattern.layout, sizes, (parts[0], parts[1])), values)


@handles("zeros_like", "empty_like")
def _zeros_like(
    s: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Returns a sparse tensor without elements."""
    if layout == cograd.strided:
        return cograd.zeros(s.shape, dtype=dtype or s.dtype, requires_grad=requires_grad)
    out = no_elements(s, dtype=dtype)
    return out.requires_grad_() if requires_grad else out


@handles("new_zeros", "new_empty")
def _new_zeros(
    s: Any,
    *size: Any,
    dtype: Any = None,
    device: Any = None,
    layout: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    shape = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
    out = no_elements(s, _sizes(shape), dtype)
    return out.requires_grad_() if requires_grad else out


def shape_product(shape: Any) -> int:
    """Returns the number of elements of a shape."""
    return math.prod(shape)
