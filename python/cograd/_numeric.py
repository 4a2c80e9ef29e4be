# SPDX-License-Identifier: BSD-3-Clause
"""torch's top-level composite functions: gradients, histograms, ranges, predicates."""

from __future__ import annotations

import builtins
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import cograd
from cograd import _C
from cograd._C import Tensor
from cograd._return_types import make

_ops = _C._ops


def _dims(input: Tensor, dim: int | Sequence[int] | None) -> list[int]:
    if dim is None:
        return list(builtins.range(input.dim()))
    given = [dim] if isinstance(dim, int) else list(dim)
    n = max(input.dim(), 1)
    for d in given:
        if not -n <= d < n:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {d})"
            )
    dims = [d % n for d in given]
    for d in dims:
        if dims.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    return dims


def _inside(x: Tensor, dim: int, start: int, length: int) -> Tensor:
    return x.narrow(dim, start, length)


def _gradient_even(x: Tensor, dim: int, h: Any, order: int) -> Tensor:
    n = x.shape[dim]
    inner = (_inside(x, dim, 2, n - 2) - _inside(x, dim, 0, n - 2)) / (2 * h)
    first = [_inside(x, dim, k, 1) for k in builtins.range(order + 1)]
    last = [_inside(x, dim, n - 1 - k, 1) for k in builtins.range(order + 1)]
    if order == 1:
        low, high = (first[1] - first[0]) / h, (last[0] - last[1]) / h
    else:
        low = (4 * first[1] - 3 * first[0] - first[2]) / (2 * h)
        high = (3 * last[0] - 4 * last[1] + last[2]) / (2 * h)
    return cograd.cat((low, inner, high), dim)


def _gradient_uneven(x: Tensor, dim: int, points: Tensor, order: int) -> Tensor:
    n = x.shape[dim]
    if points.dim() != 1 or points.numel() != n:
        raise RuntimeError(
            f"torch.gradient expected spacing of {n} coordinates for dim {dim}, got shape "
            f"{tuple(points.shape)}"
        )
    steps = points.diff().reshape([-1 if d == dim else 1 for d in builtins.range(x.dim())])
    a, b = _inside(steps, dim, 0, n - 2), _inside(steps, dim, 1, n - 2)
    inner = (
        _inside(x, dim, 0, n - 2) * (-b / (a * (a + b)))
        + _inside(x, dim, 1, n - 2) * ((b - a) / (a * b))
        + _inside(x, dim, 2, n - 2) * (a / (b * (a + b)))
    )

    def end(at: int, sign: int) -> Tensor:
        values = [_inside(x, dim, at + sign * k, 1) for k in builtins.range(order + 1)]
        edge = at if sign > 0 else at - 1
        h = [_inside(steps, dim, edge + sign * k, 1) for k in builtins.range(order)]
        if order == 1:
            return sign * (values[1] - values[0]) / h[0]
        total = h[0] + h[1]
        slope = (
            values[0] * (-(2 * h[0] + h[1]) / (h[0] * total))
            + values[1] * (total / (h[0] * h[1]))
            - values[2] * (h[0] / (h[1] * total))
        )
        return sign * slope

    return cograd.cat((end(0, 1), inner, end(n - 1, -1)), dim)


def gradient(
    input: Tensor,
    *,
    spacing: Any = 1,
    dim: int | Sequence[int] | None = None,
    edge_order: int = 1,
) -> tuple[Tensor, ...]:
    """Computes derivatives of sampled values along each of ``dim`` by second-order differences.

    Args:
        input: values (any shape); integers except uint8 are computed in the default dtype.
        spacing: a scalar, the distance between neighbours; or a sequence of scalars or of 1-d
            tensors of coordinates, one for each dim.
        dim: the dims (None: all).
        edge_order: 1 or 2, the order of accuracy at the ends; each dim needs at least
            ``edge_order + 1`` elements.

    Returns a tuple of tensors like ``input``. Central differences on unequal steps: B. Fornberg,
    "Generation of finite difference formulas on arbitrarily spaced grids" (1988).
    """
    if input.dtype is _C.uint8:
        raise RuntimeError("torch.gradient does not support uint8 input.")
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    dims = _dims(input, dim)
    if isinstance(spacing, Tensor) and spacing.numel() == 1:
        spacing = spacing.item()
    single = isinstance(spacing, (int, float, complex))
    spaces = [spacing] * len(dims) if single else list(spacing)
    if len(spaces) != len(dims):
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim "
            f"arguments to have the same length, but got a spacing argument of length "
            f"{len(spaces)} and a dim argument of length {len(dims)}."
        )
    for d in dims:
        if input.shape[d] < edge_order + 1:
            raise RuntimeError(
                "torch.gradient expected each dimension size to be at least edge_order+1"
            )
    x = input
    if not (x.is_floating_point() or x.is_complex()):
        x = x.to(cograd.get_default_dtype())
    return tuple(
        _gradient_uneven(x, d, s, edge_order)
        if isinstance(s, Tensor)
        else _gradient_even(x, d, s, edge_order)
        for d, s in zip(dims, spaces, strict=True)
    )


_Histogramdd = make("histogramdd", "hist, bin_edges")


def _edges_of(flat: Tensor, bins: Sequence[int], range: Sequence[float] | None) -> list[Tensor]:
    n = len(bins)
    if range is not None and len(range) != 2 * n:
        raise RuntimeError(
            f"torch.histogramdd: for a {n}-dimensional histogram range should have {2 * n} "
            f"elements, but got {len(range)}"
        )
    edges = []
    for i, count in enumerate(bins):
        if count < 1:
            raise RuntimeError(f"torch.histogramdd: bins must be positive, got {count}")
        if range is not None:
            low, high = float(range[2 * i]), float(range[2 * i + 1])
        elif flat.shape[0] == 0:
            low, high = 0.0, 1.0
        else:
            low, high = flat[:, i].min().item(), flat[:, i].max().item()
        if not (math.isfinite(low) and math.isfinite(high)):
            raise RuntimeError(
                f"torch.histogramdd: dimension {i}'s range [{low}, {high}] is not finite"
            )
        if low > high:
            raise RuntimeError("torch.histogramdd: min should not exceed max, but got min "
                               f"{low} max {high} for dimension {i}")  # fmt: skip
        if low == high:
            low, high = low - 0.5, high + 0.5
        edges.append(cograd.linspace(low, high, count + 1, dtype=flat.dtype))
    return edges


def histogramdd(
    input: Tensor,
    bins: int | Sequence[int] | Sequence[Tensor],
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """Counts the points in the cells of a grid; also returns the grid's edges along each axis.

    Args:
        input: points (*, n) of a floating dtype.
        bins: the number of cells along each axis (one int: along all), or for each axis a 1-d
            tensor of ascending edges; the last cell is closed.
        range: lower and upper end of each axis, 2 n numbers; by default those of the data.
        weight: the weight of each point, of shape (*).
        density: whether to normalize so that the integral over the grid is 1.

    Returns ``hist`` of n dims and ``bin_edges``, a tuple of n tensors, both of input's dtype.
    """
    if input.dim() < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions")
    n = input.shape[-1]
    wanted: list[Any] = [bins] * n if isinstance(bins, int) else list(bins)
    if len(wanted) != n:
        raise RuntimeError(
            "histogramdd: The size of bins must be equal to the innermost dimension of the input."
        )
    if weight is not None and weight.shape != input.shape[:-1]:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the "
            "input tensor excluding its innermost dimension, but got input with shape "
            f"{list(input.shape)} and weight with shape {list(weight.shape)}"
        )
    if weight is not None and weight.dtype is not input.dtype:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor "
            f"should have the same dtype, but got {input.dtype} and {weight.dtype}"
        )
    flat = input.detach().reshape(-1, n)
    if wanted and isinstance(wanted[0], Tensor):
        if range is not None:
            raise TypeError("histogramdd(): range is not allowed when bins are tensors of edges")
        edges = wanted
    else:
        edges = _edges_of(flat, wanted, range)
    counts = [e.numel() - 1 for e in edges]
    cell = cograd.zeros(flat.shape[0], dtype=_C.int64)
    inside = cograd.ones(flat.shape[0], dtype=_C.bool)
    for i, (e, count) in enumerate(zip(edges, counts, strict=True)):
        x = flat[:, i].contiguous()
        at = cograd.searchsorted(e, x, right=True) - 1
        at = cograd.where(x == e[-1], count - 1, at)
        inside &= (x >= e[0]) & (x <= e[-1])
        cell = cell * count + at
    w = cograd.ones(flat.shape[0], dtype=flat.dtype)
    if weight is not None:
        w = weight.detach().reshape(-1)
    hist = cograd.bincount(cell[inside], w[inside], minlength=math.prod(counts))
    hist = hist.to(input.dtype).reshape(counts)
    if density:
        hist = hist / hist.sum()
        for i, e in enumerate(edges):
            hist = hist / e.diff().reshape([-1 if d == i else 1 for d in builtins.range(n)])
    return _Histogramdd(hist, tuple(edges))


def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Converts flat ``indices`` (integers) to coordinates in a tensor of ``shape``, a tensor a dim.

    Raises TypeError for indices that are not integers, ValueError for a negative size.
    """
    if indices.dtype.is_floating_point or indices.dtype.is_complex or indices.dtype is _C.bool:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if not all(isinstance(n, int) for n in sizes):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {shape!r}")
    if any(n < 0 for n in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {sizes}")
    parts, step = [], 1
    indices = indices.to(_C.int64)
    for n in reversed(sizes):
        parts.append(indices.div(step, rounding_mode="floor") % n)
        step *= n
    return tuple(reversed(parts))


def range(
    start: float = 0,
    end: float | None = None,
    step: float = 1,
    *,
    out: Tensor | None = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Returns start, start + step, ... up to and including ``end``; see ``arange``."""
    if end is None:
        raise TypeError('range() missing 1 required positional arguments: "end"')
    warnings.warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is "
        "inconsistent with Python's range builtin. Instead, use torch.arange, which produces "
        "values in [start, end).",
        stacklevel=2,
    )
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    wanted = cograd.get_default_dtype() if dtype is None else dtype
    exact = _C.float64 if wanted.is_floating_point else wanted
    count = math.floor((end - start) / step) + 1
    values = cograd.arange(count, dtype=exact, layout=layout, device=device) * step + start
    result = values.to(wanted)
    if out is not None:
        return out.resize_(count).copy_(result)
    return result.requires_grad_() if requires_grad else result


def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """Returns the matrix (n, N) of powers of a vector (n), descending unless ``increasing``."""
    if x.dim() != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    count = x.shape[0] if N is None else N
    if count < 0:
        raise RuntimeError("N must be non-negative.")
    powers = cograd.arange(count) if increasing else cograd.arange(count - 1, -1, -1)
    if not (x.is_floating_point() or x.is_complex()):
        x = x.to(_C.int64)
    ones = x.new_ones((x.shape[0], 1))
    if count == 0:
        return ones[:, :0]
    table = cograd.cat((ones, x.unsqueeze(1).expand(-1, count - 1)), 1).cumprod(1)
    return table if increasing else table[:, powers]


def empty_permuted(
    size: Sequence[int],
    physical_layout: Sequence[int],
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Returns a new tensor of ``size`` whose dims are stored in the order ``physical_layout``."""
    n = len(size)
    if len(physical_layout) != n:
        raise RuntimeError(
            "Number of dimensions in size does not match the length of the physical_layout; i.e. "
            f"len(size) = {n} is not equal to len(physical_layout) = {len(physical_layout)}"
        )
    for d in physical_layout:
        if not 0 <= d < n:
            raise RuntimeError(f"Dimension out of range (expected to be between 0 and {n - 1}, "
                               f"but got {d})")  # fmt: skip
    if len(set(physical_layout)) != n:
        raise RuntimeError("Duplicate dim not allowed")
    dense = cograd.empty(
        [size[d] for d in physical_layout],
        dtype=dtype,
        layout=layout,
        device=device,
        pin_memory=pin_memory,
    )
    order = [list(physical_layout).index(d) for d in builtins.range(n)]
    return dense.permute(order).detach().requires_grad_(requires_grad)


def cond(
    pred: Any,
    true_fn: Callable[..., Any],
    false_fn: Callable[..., Any],
    operands: Sequence[Any] = (),
) -> Any:
    """Calls ``true_fn`` if ``pred`` (a bool, a number or one element) is true, else ``false_fn``.

    Both are ordinary Python functions, called with ``operands``; only the chosen one runs.
    """
    if not isinstance(pred, (bool, int, float)) and (
        not isinstance(pred, Tensor) or pred.numel() != 1
    ):
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")
    if not isinstance(operands, (tuple, list)):
        raise RuntimeError(
            f"Expect operands to be a tuple of possibly nested dict/list/tuple that only consists "
            f"of tensor leaves, but got {operands}."
        )
    return true_fn(*operands) if bool(pred) else false_fn(*operands)


def frobenius_norm(input: Tensor, dim: Any, keepdim: bool = False, *, out: Any = None) -> Tensor:
    """Returns the Euclidean norm over ``dim``."""
    over = [dim] if isinstance(dim, int) else list(dim)
    return _ops.norm(input, "fro", over or None, keepdim, out=out)


def nuclear_norm(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Any = None
) -> Tensor:
    """Returns the sum of the singular values of the matrices in the two dims ``dim``."""
    return _ops.norm(input, "nuc", dim, keepdim, out=out)


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """Returns the ``pow``-norm over all dims except ``dim``, kept with size 1; -1: over all dims.

    Raises:
        IndexError: ``dim`` is out of range.
    """
    if dim == -1:
        return v.norm(pow)
    v.size(dim)  # raises IndexError for a dim out of range
    over = [d for d in builtins.range(v.dim()) if d != dim % v.dim()]
    return v.norm(pow, over, True) if over else v.abs()


def adjoint(input: Tensor) -> Tensor:
    """Returns the conjugate transpose of matrices (*, m, n); a view for real ones."""
    result: Tensor = input.adjoint()
    return result


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Returns whether both have the same shape."""
    return bool(input.shape == other.shape)


def is_signed(input: Tensor) -> bool:
    """Returns whether ``input``'s dtype can represent negative numbers."""
    return input.is_signed()


def is_conj(input: Tensor) -> bool:
    """Returns False: conjugates are computed eagerly."""
    return False


def is_neg(input: Tensor) -> bool:
    """Returns False: negatives are computed eagerly."""
    return False


def is_distributed(input: Tensor) -> bool:
    """Returns False."""
    return False


def resolve_conj(input: Tensor) -> Tensor:
    """Returns the input itself: ``conj()`` computes its result eagerly."""
    return input


def resolve_neg(input: Tensor) -> Tensor:
    """Returns the input itself."""
    return input


def get_device(input: Tensor) -> int:
    """Returns -1: tensors are on the CPU."""
    return int(input.get_device())


def detach(input: Tensor) -> Tensor:
    """Returns a view of ``input`` without its history."""
    return input.detach()


def detach_(input: Tensor) -> Tensor:
    """Detaches ``input`` from its history, in place."""
    return input.detach_()


def as_strided_(
    input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """Changes the sizes and strides of ``input`` in place, over the same memory."""
    return input.as_strided_(size, stride, storage_offset)


def slice_inverse(
    input: Tensor,
    src: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Tensor:
    """Returns ``src`` as a view, given that ``input`` is ``src.slice(dim, start, end, step)``."""
    return input.as_strided(src.shape, src.stride(), src.storage_offset())
