# SPDX-License-Identifier: BSD-3-Clause
"""Arithmetic, reductions and rearrangements of sparse tensors."""

from __future__ import annotations

import numbers
from typing import Any

import cograd
from cograd import Tensor

from ._construct import add_up, coalesce, elements, found_at, no_elements, to_layout
from ._pattern import Pattern
from ._tensor import HANDLERS, SparseTensor, handles, make, refuse

__all__ = ["log_softmax", "softmax", "sum"]


def _is_number(x: Any) -> bool:
    if isinstance(x, SparseTensor):
        return False
    return isinstance(x, numbers.Number) or (isinstance(x, Tensor) and x.dim() == 0)


def _same_shape(name: str, a: Any, b: Any) -> None:
    if a.shape != b.shape:
        raise RuntimeError(
            f"{name}(): expected sizes of 'self' and 'other' to match, but {list(a.shape)} != "
            f"{list(b.shape)}"
        )


# ---- sums and products of two tensors -----------------------------------------------------------


def _scaled(x: Any, alpha: Any) -> Any:
    if alpha == 1:
        return x
    if isinstance(alpha, float) and not (x.dtype.is_floating_point or x.dtype.is_complex):
        raise RuntimeError(
            "For integral input tensors, argument alpha must not be a floating point number."
        )
    return (x * alpha).to(x.dtype)


def _sum_of(a: SparseTensor, b: SparseTensor, alpha: Any) -> SparseTensor:
    _same_shape("add", a, b)
    if len(a._pattern.shape) != len(b._pattern.shape):
        refuse("add", " with different numbers of sparse dims")
    dtype = cograd.result_type(a._v[:0], b._v[:0])
    left, right = a._v.to(dtype), _scaled(b._v, alpha).to(dtype)
    if a._pattern is b._pattern or (
        a._pattern.parts[0] is b._pattern.parts[0] and a._pattern.parts == b._pattern.parts
    ):
        return make(a._pattern, left + right)
    at = cograd.cat((a._pattern.indices(), b._pattern.indices()), 1)
    out = make(Pattern(cograd.sparse_coo, a._pattern.shape, (at,)), cograd.cat((left, right)))
    if a._pattern.coalesced and b._pattern.coalesced:
        out = coalesce(out)
    if a._pattern.is_coo:
        return out
    wanted: SparseTensor = to_layout(out, a._pattern.layout)
    return wanted


def _dense_sum(x: Tensor, s: SparseTensor) -> Tensor:
    """Returns the sum of a dense and a sparse tensor, dense."""
    _same_shape("add", x, s)
    dtype = cograd.result_type(x, s._v[:0].sum(0) if s._v.dim() == 0 else s._v[:0])
    pattern, values = s._pattern, s._v.to(dtype)
    flat = x.to(dtype).reshape(pattern.size, *s.shape[len(pattern.shape) :])
    return flat.index_add(0, pattern.linear(), values).reshape(x.shape)


@handles("add", "__add__", "__radd__")
def _add(input: Any, other: Any, *, alpha: Any = 1, out: Any = None) -> Any:
    if out is not None:
        refuse("add", " with out=")
    a, b = isinstance(input, SparseTensor), isinstance(other, SparseTensor)
    if a and b:
        return _sum_of(input, other, alpha)
    if (
        not isinstance(input, Tensor)
        or not isinstance(other, Tensor)
        or _is_number(other if a else input)
    ):
        raise RuntimeError(
            "add(sparse, dense) is not supported for numbers: the result would have no zeros. "
            "Call to_dense() first"
        )
    if a:
        return _dense_sum(_scaled(other, alpha), input)
    return _dense_sum(input, _scaled(other, alpha))


@handles("sub", "subtract", "__sub__")
def _sub(input: Any, other: Any, *, alpha: Any = 1, out: Any = None) -> Any:
    if any(getattr(t, "dtype", None) == cograd.bool for t in (input, other)):
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying "
            "to invert a mask, use the `~` or `logical_not()` operator instead."
        )
    return _add(input, other, alpha=-alpha, out=out)


@handles("rsub", "__rsub__")
def _rsub(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    return _sub(other, self, alpha=alpha)


@handles("add_", "__iadd__")
def _add_(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    if isinstance(self, SparseTensor):
        if not isinstance(other, SparseTensor):
            raise RuntimeError(
                "add_(): add(sparse, dense) is not supported in place. Use add(dense, sparse) "
                "instead, or call to_dense() first"
            )
        return _written(self, _sum_of(self, other, alpha))
    _same_shape("add_", self, other)
    pattern = other._pattern
    values = _scaled(other._v, alpha).to(self.dtype)
    if len(pattern.shape) == 1:
        return self.index_add_(0, pattern.parts[0][0], values)
    if not pattern.shape:
        return self.add_(values.sum(0))
    return self.index_put_(tuple(pattern.indices()), values, accumulate=True)


@handles("sub_", "subtract_", "__isub__")
def _sub_(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    return _add_(self, other, alpha=-alpha)


def _written(self: SparseTensor, result: SparseTensor) -> SparseTensor:
    if result.dtype != self.dtype:
        raise RuntimeError(
            f"result type {result.dtype} can't be cast to the desired output type {self.dtype}"
        )
    return self._replace(result)


def _both(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    """Returns the product of the elements that both have."""
    _same_shape("mul", a, b)
    a, b = coalesce(a), coalesce(b)
    if a._pattern is b._pattern:
        return make(a._pattern, a._v * b._v)
    there = cograd.isin(a._pattern.linear(), b._pattern.linear()).nonzero()[:, 0]
    linear = a._pattern.linear()[there]
    at = a._pattern.indices()[:, there]
    pattern = Pattern(cograd.sparse_coo, a._pattern.shape, (at,), True)
    product = make(pattern, a._v[there] * found_at(b, linear))
    return product if a._pattern.is_coo else to_layout(product, a._pattern.layout)  # type: ignore[no-any-return]


@handles("mul", "multiply", "__mul__", "__rmul__")
def _mul(input: Any, other: Any, *, out: Any = None) -> Any:
    if out is not None:
        refuse("mul", " with out=")
    if not isinstance(input, SparseTensor):
        input, other = other, input
    if _is_number(other):
        return make(input._pattern, input._v * other)
    if not isinstance(other, Tensor):
        return NotImplemented
    if isinstance(other, SparseTensor):
        return _both(input, other)
    try:
        spread = other.expand(input.shape)
    except RuntimeError:
        refuse("mul", f" of shape {tuple(input.shape)} with a tensor of shape {tuple(other.shape)}")
    return make(input._pattern, input._v * elements(spread, input))


@handles("mul_", "multiply_", "__imul__")
def _mul_(self: Any, other: Any) -> Any:
    if not isinstance(self, SparseTensor):
        refuse("mul_", " as the factor of a dense tensor in place")
    return _written(self, _mul(self, other))


@handles("div", "divide", "true_divide", "__truediv__")
def _div(input: Any, other: Any, *, rounding_mode: str | None = None, out: Any = None) -> Any:
    if out is not None:
        refuse("div", " with out=")
    if not isinstance(input, SparseTensor) or not _is_number(other):
        got = list(other.shape) if isinstance(other, Tensor) else type(other).__name__
        raise RuntimeError(
            "Sparse division requires a scalar or zero-dim dense tensor divisor (got shape "
            f"{got} for divisor)"
        )
    if rounding_mode is not None:
        input = coalesce(input)
    return make(input._pattern, input._v.div(other, rounding_mode=rounding_mode))


@handles("floor_divide", "__floordiv__")
def _floor_divide(input: Any, other: Any) -> Any:
    return _div(input, other, rounding_mode="floor")


@handles("div_", "divide_", "true_divide_", "__itruediv__")
def _div_(self: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    return _written(self, _div(self, other, rounding_mode=rounding_mode))


@handles("pow", "__pow__")
def _pow(input: Any, exponent: Any, *, out: Any = None) -> Any:
    if out is not None or not isinstance(exponent, numbers.Real) or not exponent > 0:
        refuse("pow", f" but to a positive number (exponent {exponent!r})")
    s = coalesce(input)
    return make(s._pattern, s._v**exponent)


# ---- functions of one element, which map 0 to 0 --------------------------------------------------

_LINEAR = "neg negative positive conj conj_physical resolve_conj"
_UNARY = (
    "abs absolute asin arcsin asinh arcsinh atan arctan ceil deg2rad erf erfinv expm1 floor frac "
    "isinf isnan isneginf isposinf log1p nan_to_num rad2deg relu round sgn sign signbit sin sinh "
    "sqrt square tan tanh trunc fix"
)


def _unary(name: str, linear: bool) -> None:
    def compute(input: Any, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        if out is not None:
            refuse(name, " with out=")
        s = input if linear else coalesce(input)
        return make(s._pattern, getattr(s._v, name)(*args, **kwargs))

    def compute_(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _written(self, compute(self, *args, **kwargs))

    compute.__doc__ = f"Applies ``{name}`` to the values."
    handles(name)(compute)
    handles(name + "_")(compute_)


for _name in _LINEAR.split():
    _unary(_name, True)
for _name in _UNARY.split():
    _unary(_name, False)
handles("__neg__")(HANDLERS["neg"])
handles("__pos__")(HANDLERS["positive"])
handles("__abs__")(HANDLERS["abs"])
for _name in ("isinf_", "isnan_", "isneginf_", "isposinf_", "signbit_", "positive_", "conj_"):
    del HANDLERS[_name]


# ---- copies, dtypes, in place --------------------------------------------------------------------


@handles("clone")
def _clone(input: Any, *, memory_format: Any = None) -> Any:
    """Returns a copy of indices and values; gradients flow to the tensor."""
    pattern = input._pattern
    parts = tuple(part.clone() for part in pattern.parts)
    return make(Pattern(pattern.layout, pattern.shape, parts, pattern._coalesced), input._v.clone())


@handles("to")
def _to(self: Any, *args: Any, **kwargs: Any) -> Any:
    kwargs.pop("memory_format", None)
    if not isinstance(self, SparseTensor):  # like a sparse tensor
        return self.to(args[0].dtype, *args[1:], **kwargs)
    if args and isinstance(args[0], SparseTensor):
        args = (args[0].dtype, *args[1:])
    values = self._v.to(*args, **kwargs)
    return self if values is self._v else make(self._pattern, values)


@handles("type")
def _type(self: Any, dtype: Any = None, non_blocking: bool = False) -> Any:
    if dtype is None:
        return self._v.type().replace("torch.", "torch.sparse.", 1)
    return _to(self, dtype)


@handles("type_as")
def _type_as(self: Any, other: Any) -> Any:
    return _to(self, other.dtype)


@handles("cpu", "contiguous")
def _same(self: Any, memory_format: Any = None) -> Any:
    return self


def _cast(name: str) -> None:
    handles(name)(lambda self, memory_format=None: _to(self, getattr(self._v[:0], name)().dtype))


for _name in "double float half bfloat16 int long short char byte bool cdouble cfloat".split():
    _cast(_name)


@handles("copy_")
def _copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    """Becomes a copy of a sparse tensor of the same shape."""
    if not isinstance(self, SparseTensor):
        refuse("copy_", " as the source of a dense tensor")
    if not isinstance(src, SparseTensor):
        refuse("copy_", " from a dense tensor")
    _same_shape("copy_", self, src)
    return self._replace(_clone(_to(to_layout(src, self.layout), self.dtype)))


@handles("zero_")
def _zero_(self: Any) -> Any:
    """Drops all elements."""
    return self._replace(no_elements(self))


# ---- rearrangements ------------------------------------------------------------------------------


def _dim(d: int, dims: int) -> int:
    if not -max(dims, 1) <= d < max(dims, 1):
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-dims}, {dims - 1}], but got {d})"
        )
    return d % dims if dims else 0


@handles("permute")
def _permute(input: Any, *dims: Any) -> Any:
    given = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
    order = [_dim(d, input.dim()) for d in given]
    if sorted(order) != list(range(input.dim())):
        raise RuntimeError(f"permute(): {given} is no permutation of {input.dim()} dims")
    pattern = input._pattern
    n = len(pattern.shape)
    if order == list(range(input.dim())):
        return input
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
    a, b = _dim(dim0, input.dim()), _dim(dim1, input.dim())
    order[a], order[b] = order[b], order[a]
    return _permute(input, order)


@handles("t")
def _t(input: Any) -> Any:
    """Returns the transposed matrix."""
    if input.dim() > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.dim()}D")
    return input if input.dim() < 2 else _transpose(input, 0, 1)


@handles("T", "mT")
def _T(self: Any) -> Any:
    return _t(self)


@handles("unsqueeze")
def _unsqueeze(input: Any, dim: int) -> Any:
    s, d = to_layout(input, cograd.sparse_coo), _dim(dim, input.dim() + 1)
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
    first, d = parts[0], _dim(dim, parts[0].dim())
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
    return _cat([_unsqueeze(p, dim) for p in parts], _dim(dim, parts[0].dim() + 1), out=out)


@handles("index_select")
def _index_select(input: Any, dim: int, index: Tensor, *, out: Any = None) -> Any:
    if out is not None:
        refuse("index_select", " with out=")
    s, d = to_layout(input, cograd.sparse_coo), _dim(dim, input.dim())
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
    rank = cograd.repeat_interleave(cograd.arange(wanted.shape[0]), each)
    total = rank.shape[0]
    entry = order[cograd.arange(total) - (each.cumsum(0) - each)[rank] + first[wanted][rank]]
    new = at[:, entry].clone()
    new[d] = rank
    shape = (*pattern.shape[:d], wanted.shape[0], *pattern.shape[d + 1 :])
    ordered = d == 0 and pattern.coalesced
    out_pattern = Pattern(cograd.sparse_coo, shape, (new,), ordered)
    return make(out_pattern, s._v[entry])


@handles("select")
def _select(input: Any, dim: int, index: int) -> Any:
    s, d = to_layout(input, cograd.sparse_coo), _dim(dim, input.dim())
    pattern = s._pattern
    n = len(pattern.shape)
    size = s.shape[d]
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(s.shape)} at dimension "
            f"{d}"
        )
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
    return tuple(_select(input, dim, i) for i in range(input.shape[_dim(dim, input.dim())]))


# ---- reductions ----------------------------------------------------------------------------------


def sum(input: Any, dim: Any = None, dtype: Any = None) -> Tensor:
    """Returns the sum over some dims, by default over all.

    The result is sparse if sparse dims remain, else dense.
    """
    if input.dtype == cograd.bool:
        input = coalesce(input)
    values = input._v if dtype is None else input._v.to(dtype)
    if dim is None:
        return values.sum()
    s = to_layout(make(input._pattern, values), cograd.sparse_coo)
    pattern, n = s._pattern, len(s._pattern.shape)
    dims = [_dim(d, s.dim()) for d in ((dim,) if isinstance(dim, int) else dim)]
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"dim {dim} appears multiple times in the list of dims")
    dense = [d - n + 1 for d in dims if d >= n]
    values = s._v.sum(dense) if dense else s._v
    left = [d for d in range(n) if d not in dims]
    if not left:
        return values.sum(0)
    if len(left) == n:
        return make(pattern, values)
    shape = tuple(pattern.shape[d] for d in left)
    at = pattern.indices()[left]
    return coalesce(make(Pattern(cograd.sparse_coo, shape, (at,)), values))


@handles("sum")
def _sum(
    input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None
) -> Any:
    if out is not None:
        refuse("sum", " with out=")
    wide = dtype
    if wide is None and not (input.dtype.is_floating_point or input.dtype.is_complex):
        wide = cograd.int64
    result = sum(input, dim, wide)
    if keepdim and dim is not None:
        for d in sorted(_dim(d, input.dim()) for d in ((dim,) if isinstance(dim, int) else dim)):
            result = result.unsqueeze(d)
    return result


@handles("norm")
def _norm(
    input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Any:
    if dim is not None:
        refuse("norm", " along dims")
    return coalesce(input)._v.norm(2 if p in ("fro", None) else p, dtype=dtype)


@handles("any")
def _any(input: Any, dim: Any = None) -> Any:
    if dim is not None:
        refuse("any", " along dims")
    return coalesce(input)._v.any()


def _groups(s: SparseTensor, d: int) -> tuple[Tensor, int]:
    """Returns the number of the line along dim ``d`` that each element is in, and their count."""
    shape = list(s._pattern.shape)
    at = cograd.zeros(s._pattern.nnz, dtype=cograd.int64)
    for i, size in enumerate(shape):
        if i != d:
            at = at * size + s._pattern.indices()[i]
    lines, where = cograd.unique(at, return_inverse=True)
    return where, lines.shape[0]


def _soft(name: str, input: Any, dim: int, dtype: Any, log: bool) -> Tensor:
    if not isinstance(input, SparseTensor):
        raise RuntimeError(f"{name}(): expected a sparse tensor, got a dense one")
    if dtype is not None:
        input = _to(input, dtype)
    if input.numel() and not (input.dtype.is_floating_point or input.dtype.is_complex):
        raise NotImplementedError(f"{name}(): not implemented for {input.dtype}")
    d, layout = _dim(dim, input.dim()), input._pattern.layout
    s = coalesce(to_layout(input, cograd.sparse_coo))
    n, values = len(s._pattern.shape), s._v
    if d >= n:
        new = (cograd.log_softmax if log else cograd.softmax)(values, d - n + 1)
    elif s._pattern.nnz == 0:
        new = values
    else:
        where, count = _groups(s, d)
        base = values.detach()
        start = cograd.full((count, *values.shape[1:]), float("-inf"), dtype=values.dtype)
        place = where.reshape(-1, *(1,) * (values.dim() - 1)).expand_as(base)
        top = start.scatter_reduce(0, place, base, "amax")
        top = cograd.where(cograd.isinf(top) & (top < 0), cograd.zeros((), dtype=top.dtype), top)
        shifted = values - top[where]
        powers = shifted.exp()
        total = add_up(powers, where, count)[where]
        new = shifted - total.log() if log else powers / total
    return to_layout(make(s._pattern, new), layout)  # type: ignore[no-any-return]


def softmax(input: Any, dim: int, *, dtype: Any = None) -> Tensor:
    """Returns the softmax along ``dim`` over the elements that are stored; the others count as -inf."""
    return _soft("sparse.softmax", input, dim, dtype, False)


def log_softmax(input: Any, dim: int, *, dtype: Any = None) -> Tensor:
    """Returns the logarithm of ``softmax`` at the elements that are stored."""
    return _soft("sparse.log_softmax", input, dim, dtype, True)
