# SPDX-License-Identifier: BSD-3-Clause
"""Products of sparse matrices with dense and sparse ones."""

from __future__ import annotations

import math
from typing import Any

import cograd
from cograd import _C, Tensor

from ._blocks import BlockPattern
from ._convert import coalesce, to_dense, to_layout
from ._pattern import Pattern
from ._tensor import SparseTensor, handles, make, refuse

__all__ = ["addmm", "dsmm", "hsmm", "mm", "sampled_addmm", "spmm"]


def _shapes(name: str, a: Any, b: Any) -> None:
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"{name}(): mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and "
            f"{b.shape[0]}x{b.shape[1]})"
        )


def _same_dtype(name: str, a: Any, b: Any) -> None:
    if a.dtype != b.dtype:
        raise RuntimeError(
            f"{name}(): expected m1 and m2 to have the same dtype, but got: {a.dtype} != {b.dtype}"
        )


def _is_matrix(name: str, s: SparseTensor) -> None:
    if isinstance(s._pattern, BlockPattern):
        refuse(name, f" of layout {s._pattern.kind} as this argument")
    if len(s._pattern.shape) != 2 or s._v.dim() != 1:
        refuse(name, f" of {s.dim()} dims ({s._v.dim() - 1} dense): expected a sparse matrix")


def times_dense(s: SparseTensor, x: Tensor) -> Tensor:
    """Returns the product of a sparse matrix, or of a batch, with a dense one."""
    pattern = s._pattern
    if not isinstance(pattern, BlockPattern):
        return _times(pattern, s._v, x)
    if _pays_by_blocks(pattern, x.shape[-1]):
        return _by_blocks(pattern, s._v, x)
    if pattern.layout in _COLUMNS and x._is_concerned:
        pattern.elements().rows()  # kept, and the columns with them
    rows = x.expand(*pattern.batch, *x.shape[-2:]).reshape(-1, x.shape[-1])
    out = _times(pattern.elements(), s._v.reshape(-1), rows)
    return out.reshape(*s.shape[:-1], x.shape[-1])


def from_left(x: Tensor, s: SparseTensor) -> Tensor:
    """Returns the product of a dense matrix with a sparse one, or of the matrices of a batch."""
    pattern = s._pattern
    if not isinstance(pattern, BlockPattern):
        pattern.columns()  # kept: they are the rows of the transposed matrix
        return _times(pattern.transposed(), s._v, x.t()).t()
    if _pays_by_blocks(pattern, x.shape[-2]):
        out = _by_blocks(pattern, s._v.transpose(-1, -2), x.transpose(-1, -2), turned=True)
        return out.transpose(-1, -2)
    large = pattern.elements()
    large.columns()
    turned = x.transpose(-1, -2).expand(*pattern.batch, x.shape[-1], x.shape[-2])
    out = _times(large.transposed(), s._v.reshape(-1), turned.reshape(-1, x.shape[-2]))
    return out.reshape(*pattern.batch, s.shape[-1], x.shape[-2]).transpose(-1, -2)


def _pays_by_blocks(pattern: BlockPattern, columns: int) -> bool:
    """Returns whether dense products of blocks are faster than one product of elements."""
    height, width = pattern.block or (1, 1)
    return height * width >= 256 and 0 < columns <= 64


def _by_blocks(pattern: BlockPattern, values: Tensor, x: Tensor, turned: bool = False) -> Tensor:
    """Returns the product as a sum of the products of the blocks, in their order.

    If ``turned``, ``values`` has the transposed blocks, and the product is that of the transposed
    matrix.
    """
    if values.dtype in (cograd.float16, cograd.bfloat16):  # sums in float32
        return _by_blocks(pattern, values.float(), x.float(), turned).to(values.dtype)
    height, width = values.shape[-2:]
    columns, blocks = x.shape[-1], pattern.blocks().shape[1]
    parts = x.expand(*pattern.batch, *x.shape[-2:]).reshape(-1, width * columns)
    which = "ends of turned blocks" if turned else "ends of blocks"
    taken, added = pattern._cached(which, lambda: _ends(pattern, turned))
    ones = values.new_ones(blocks)
    right = _times(taken, ones, parts).reshape(blocks, width, columns)
    terms = cograd.bmm(values.reshape(blocks, height, width), right)
    out = _times(added, ones, terms.reshape(blocks, height * columns))
    return out.reshape(*pattern.batch, pattern.shape[-1 if turned else -2], columns)


def _ends(pattern: BlockPattern, turned: bool) -> tuple[Pattern, Pattern]:
    """Returns the matrices of ones that take the columns of blocks, and that add their rows."""
    count, rows, cols, _, _ = pattern.grid
    row, col = pattern.blocks()
    if turned:
        rows, cols, row, col = cols, rows, col, row
    order, coo = pattern._upto(len(row)), cograd.sparse_coo
    taken, added = cograd.stack((order, col)), cograd.stack((row, order))
    return (
        Pattern(coo, (len(row), count * cols), (taken,)),
        Pattern(coo, (count * rows, len(row)), (added,)),
    )


def _times(pattern: Pattern, values: Tensor, x: Tensor) -> Tensor:
    if values.dtype in (cograd.float32, cograd.float64):
        turned: tuple[Any, ...] = ()
        if x._is_concerned:
            turned = pattern.columns()
        out: Tensor = _C._ops._csr(values, x, *pattern.rows(), *turned)
        return out
    half = values.dtype in (cograd.float16, cograd.bfloat16)
    if half:  # the sums have the precision of float32
        wide = _times(pattern, values.float(), x.float())
        return wide.to(values.dtype)
    row, col = pattern.indices()
    terms = values[:, None] * x[col]
    zeros = terms.new_zeros((pattern.shape[0], x.shape[1]))
    return zeros.index_add(0, row, terms)


def turned_matrix(s: SparseTensor) -> SparseTensor:
    """Returns the transposed matrix."""
    return make(s._pattern.transposed(), s._v)


def _times_sparse(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    """Returns the product of two sparse matrices, coalesced, in the layout of the first."""
    start, col, place = b._pattern.rows()
    row, inner = a._pattern.indices()
    first = start.to(cograd.int64)[inner]
    count = start.to(cograd.int64).diff()[inner]
    ends = count.cumsum(0)
    total = int(ends[-1]) if len(ends) else 0
    left = cograd.repeat_interleave(cograd.arange(inner.shape[0], device=row.device), count)
    right = cograd.arange(total, device=row.device) - (ends - count)[left] + first[left]
    at = cograd.stack((row[left], col[right].to(cograd.int64)))
    values = a._v[left] * b._v[right if place is None else place[right]]
    shape = (a._pattern.shape[0], b._pattern.shape[1])
    product = coalesce(make(Pattern(cograd.sparse_coo, shape, (at,)), values))
    wanted: SparseTensor = to_layout(product, a._pattern.layout)
    return wanted


_COLUMNS = (cograd.sparse_csc, cograd.sparse_bsc)


def _is_blocked_matrix(s: SparseTensor) -> bool:
    return isinstance(s._pattern, BlockPattern) and s.dim() == 2


def _as_batch(name: str, s: SparseTensor) -> SparseTensor:
    """Returns a batch of matrices over which one large matrix can be made."""
    if isinstance(s._pattern, BlockPattern) and s._pattern.batch:
        return s
    if s.dim() < 3 or s._v.dim() != 1:
        _is_matrix(name, s)
        refuse(name, f" of {s.dim()} dims together with a batch: expected as many dims")
    return s


def _batched(name: str, a: Any, b: Any) -> Tensor:
    """Returns the products of a batch of matrices, sparse on one side, and dense ones."""
    if isinstance(a, SparseTensor) and isinstance(b, SparseTensor):
        refuse(name, " of batches on both sides")
    s, x = (a, b) if isinstance(a, SparseTensor) else (b, a)
    s = _as_batch(name, s)
    if x.dim() not in (2, s.dim()) or (x.dim() > 2 and x.shape[:-2] != s.shape[:-2]):
        raise RuntimeError(
            f"{name}(): batch dims must be the same, got {tuple(a.shape)} and {tuple(b.shape)}"
        )
    if a.shape[-1] != b.shape[-2]:
        raise RuntimeError(
            f"{name}(): matrices of {tuple(a.shape)} and {tuple(b.shape)} cannot be multiplied: "
            f"expected {a.shape[-1]} rows of the second, got {b.shape[-2]}"
        )
    _same_dtype(name, a, b)
    if not s._pattern.is_coo:
        return times_dense(s, x) if s is a else from_left(x, s)
    large, batch = diagonal(s), s.shape[:-2]
    if s is not a:
        large, x = turned_matrix(large), x.transpose(-1, -2)
    rows = x.expand(*batch, *x.shape[-2:]).reshape(-1, x.shape[-1])
    out = times_dense(large, rows).reshape(*batch, -1, x.shape[-1])
    return out if s is a else out.transpose(-1, -2)


def diagonal(s: SparseTensor) -> SparseTensor:
    """Returns the matrix with the matrices of a COO batch on its diagonal."""
    pattern = s._pattern
    found: Pattern = pattern._cached("diagonal", lambda: _diagonal(pattern))
    return make(found, s._v)


def _diagonal(pattern: Pattern) -> Pattern:
    at, (rows, cols) = pattern.indices(), pattern.shape[-2:]
    which = at.new_zeros(pattern.nnz, dtype=cograd.int64)
    for size, index in zip(pattern.shape[:-2], at, strict=False):
        which = which * size + index
    count = math.prod(pattern.shape[:-2])
    large = cograd.stack((which * rows + at[-2], which * cols + at[-1]))
    return Pattern(cograd.sparse_coo, (count * rows, count * cols), (large,))


@handles("bmm")
def _bmm(input: Any, mat2: Any, *, out: Any = None) -> Tensor:
    """Returns the products of the matrices of two batches, one of them sparse."""
    if out is not None:
        refuse("bmm", " with out=")
    for m in (input, mat2):
        if m.dim() != 3:
            raise RuntimeError(f"bmm(): expected tensors of 3 dims, got {m.dim()}")
    return _batched("bmm", input, mat2)


def product(name: str, a: Any, b: Any) -> Any:
    """Returns the product of two matrices, of which one or both are sparse."""
    both = isinstance(a, SparseTensor) and isinstance(b, SparseTensor)
    for m in (a, b):
        if isinstance(m, SparseTensor):
            if both or not _is_blocked_matrix(m):
                _is_matrix(name, m)
        elif m.dim() != 2:
            raise RuntimeError(f"{name}(): expected a matrix, got a tensor of {m.dim()} dims")
    _shapes(name, a, b)
    _same_dtype(name, a, b)
    if not isinstance(b, SparseTensor):
        return times_dense(a, b)
    if isinstance(a, SparseTensor):
        return _times_sparse(a, b)
    return from_left(a, b)


@handles("mm")
def _mm(input: Any, mat2: Any, *, out: Any = None) -> Any:
    if out is not None:
        refuse("mm", " with out=")
    return product("mm", input, mat2)


@handles("matmul", "__matmul__")
def _matmul(input: Any, other: Any, *, out: Any = None) -> Any:
    if out is not None:
        refuse("matmul", " with out=")
    if not isinstance(input, Tensor) or not isinstance(other, Tensor):
        return NotImplemented
    if other.dim() == 1:
        return _mv(input, other)
    if input.dim() == 1 and isinstance(other, SparseTensor):
        return from_left(to_dense(input)[None], other)[0]
    if max(input.dim(), other.dim()) > 2:
        return _batched("matmul", input, other)
    return product("matmul", input, other)


@handles("__rmatmul__")
def _rmatmul(self: Any, other: Any) -> Any:
    return _matmul(other, self)


@handles("mv")
def _mv(input: Any, vec: Any, *, out: Any = None) -> Tensor:
    """Returns the product of a sparse matrix and a dense vector."""
    if out is not None:
        refuse("mv", " with out=")
    if isinstance(vec, SparseTensor):
        vec = to_dense(vec)
    if not isinstance(input, SparseTensor):
        return cograd.mv(input, vec)
    if not _is_blocked_matrix(input):
        _is_matrix("mv", input)
    if vec.dim() != 1 or vec.shape[0] != input.shape[1]:
        raise RuntimeError(
            f"mv(): Expected self.size(-1) == vec.size(-1), got {tuple(input.shape)} and "
            f"{tuple(vec.shape)}"
        )
    _same_dtype("mv", input, vec)
    return times_dense(input, vec[:, None]).squeeze(1)


@handles("linear")
def _linear(input: Any, weight: Any, bias: Any = None) -> Tensor:
    if not isinstance(weight, SparseTensor):
        refuse("linear", " as input")
    if not _is_blocked_matrix(weight):
        _is_matrix("linear", weight)
    rows = input.reshape(-1, input.shape[-1])
    out: Tensor = times_dense(weight, rows.t()).t().reshape(*input.shape[:-1], weight.shape[0])
    return out if bias is None else out + bias


@handles("addmm")
def _addmm(
    input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1, out: Any = None
) -> Any:
    if out is not None:
        refuse("addmm", " with out=")
    if isinstance(input, SparseTensor) and not isinstance(mat1, SparseTensor):
        refuse("addmm", " as input of a dense product; sparse.sampled_addmm computes elements")
    result = product("addmm", mat1, mat2)
    whole = not (result.dtype.is_floating_point or result.dtype.is_complex)
    for name, factor in (("beta", beta), ("alpha", alpha)):
        if whole and isinstance(factor, float) and factor != 1:
            raise RuntimeError(
                f"For integral input tensors, argument {name} must not be a floating point number."
            )
    if alpha != 1:
        result = result * alpha
    if beta == 0:
        return result
    return cograd.add(input if beta == 1 else input * beta, result)


def _reduced(s: Any, x: Any, reduce: str) -> Tensor:
    if not isinstance(s, SparseTensor) or isinstance(x, SparseTensor):
        refuse("sparse.mm", f" with reduce={reduce!r} but times a dense matrix")
    if isinstance(s._pattern, BlockPattern):
        refuse("sparse.mm", f" of layout {s._pattern.kind} with reduce={reduce!r}")
    out: Tensor = product("sparse.mm", s, x)
    row, col = s._pattern.indices()
    if reduce == "mean":
        counts = cograd.bincount(row, minlength=s.shape[0]).clamp(min=1)
        return out / counts[:, None].to(out.dtype)
    if reduce not in ("amax", "amin", "max", "min"):
        raise ValueError(f"sparse.mm(): reduce must be sum, mean, amax or amin, got {reduce!r}")
    terms = s._v[:, None] * x[col]
    place = row[:, None].expand_as(terms)
    name = "a" + reduce.removeprefix("a")
    return cograd.zeros_like(out).scatter_reduce(0, place, terms, name, include_self=False)


def mm(sparse: Tensor, mat: Tensor, reduce: str = "sum") -> Tensor:
    """Returns the product of two matrices, at least one of them sparse; dense if one is dense.

    The gradient of a sparse matrix has its pattern: elements that are not stored get none.

    With a dense ``mat``, ``reduce`` may be "mean", "amax" or "amin" over the elements of a row that
    are stored; a row without elements gives 0.

    Raises:
        ValueError: ``reduce`` is something else.
    """
    if reduce != "sum":
        return _reduced(sparse, mat, reduce)
    if not isinstance(sparse, SparseTensor) and not isinstance(mat, SparseTensor):
        return cograd.mm(sparse, mat)
    result: Tensor = product("sparse.mm", sparse, mat)
    return result


def spmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Calls ``sparse.mm``."""
    return mm(input, mat2)


dsmm = hsmm = spmm


def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """Returns ``beta * input + alpha * (mat1 @ mat2)`` for a sparse ``mat1``."""
    result: Tensor = _addmm(input, mat1, mat2, beta=beta, alpha=alpha)
    return result


def sampled_addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1.0, alpha: Any = 1.0
) -> Tensor:
    """Returns ``beta * input + alpha * (mat1 @ mat2)`` at the positions of a sparse ``input``.

    Nothing else of the product is computed.
    """
    if not isinstance(input, SparseTensor):
        raise RuntimeError("sparse.sampled_addmm(): input must be sparse: call to_sparse_csr()")
    _is_matrix("sparse.sampled_addmm", input)
    if isinstance(mat1, SparseTensor) or isinstance(mat2, SparseTensor):
        refuse("sparse.sampled_addmm", " as mat1 or mat2")
    _shapes("sparse.sampled_addmm", mat1, mat2)
    pattern = input._pattern
    if (mat1.shape[0], mat2.shape[1]) != pattern.shape:
        raise RuntimeError(
            f"sparse.sampled_addmm(): the product has the shape {(mat1.shape[0], mat2.shape[1])}, "
            f"expected that of input, {pattern.shape}"
        )
    right = mat2.t()
    if mat1.dtype in (cograd.float32, cograd.float64):
        turned: Any = pattern.columns() if right._is_concerned else (None, None, None)
        csr: Any = _C._ops._csr
        found: Any = csr(mat1, right, *pattern.rows(), *turned, sampled=True)
    else:
        row, col = pattern.indices()
        found = (mat1[row] * right[col]).sum(1).to(mat1.dtype)
    values = found if alpha == 1 else found * alpha
    if beta != 0:
        values = values + (input._v if beta == 1 else input._v * beta)
    return make(pattern, values)
