# SPDX-License-Identifier: BSD-3-Clause
"""Checks arguments of transforms: dtypes, dims, sizes, norms and ``out``."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import cograd
from cograd import _C, Tensor
from cograd._base.dtypes import dtype_name
from cograd.overrides import handle_torch_function, has_torch_function_unary

Call = TypeVar("Call", bound=Callable[..., Any])

WIDE = (cograd.float32, cograd.float64)
_COMPLEX_OF = {cograd.float32: cograd.complex64, cograd.float64: cograd.complex128}


def overridable(function: Call) -> Call:
    """Checks that ``input`` is a tensor, and lets types and modes override the function."""

    @functools.wraps(function)
    def call(input: Any, *args: Any, **kwargs: Any) -> Any:
        if has_torch_function_unary(input):
            return handle_torch_function(call, (input,), input, *args, **kwargs)
        if not isinstance(input, Tensor):
            raise TypeError(
                f"{function.__name__}(): argument 'input' (position 1) must be Tensor, not "
                f"{type(input).__name__}"
            )
        return function(input, *args, **kwargs)

    return call  # type: ignore[return-value]


def as_int(op: str, name: str, value: Any) -> int:
    """Returns ``value`` as an int. Raises TypeError for a float or bool."""
    if not isinstance(value, (bool, float)):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise TypeError(f"{op}(): argument '{name}' must be int, not {type(value).__name__}")


def as_ints(op: str, name: str, value: Any) -> list[int]:
    """Returns one int or a sequence of them, as a list."""
    if isinstance(value, (list, tuple)):
        return [as_int(op, name, v) for v in value]
    return [as_int(op, name, value)]


def promoted(op: str, x: Tensor, *, to_complex: bool = False) -> Tensor:
    """Converts ``x`` to float32, float64 or complex; integers to the default dtype."""
    if x.is_complex():
        return x
    if _C._autocast_enabled():
        (x,) = _C._autocast_wide(x)
    dtype = x.dtype if x.is_floating_point() else cograd.get_default_dtype()
    if dtype not in WIDE:
        raise RuntimeError(
            f"{op}(): Unsupported dtype {dtype_name(x.dtype)}; expected float32, float64 or complex"
        )
    return x.to(_COMPLEX_OF[dtype] if to_complex else dtype)


def check_real(op: str, x: Tensor) -> None:
    """Raises RuntimeError for complex input."""
    if x.is_complex():
        real = "real-valued" if op.endswith(("2", "n")) else "real"
        raise RuntimeError(f"{op} expects a {real} input tensor, but got {dtype_name(x.dtype)}")


def check_out(op: str, out: Tensor | None, *, is_complex: bool) -> None:
    """Raises RuntimeError if ``out`` is real for a complex result, or integer for a real one."""
    if out is None:
        return
    if not isinstance(out, Tensor):
        raise TypeError(f"{op}(): argument 'out' must be Tensor, not {type(out).__name__}")
    if not (out.is_complex() if is_complex else out.is_floating_point()):
        kind = "complex" if is_complex else "floating point"
        raise RuntimeError(f"{op} expects a {kind} output tensor, but got {dtype_name(out.dtype)}")


def stored(result: Tensor, out: Tensor | None) -> Tensor:
    """Returns ``result``, or ``out`` resized to its shape and filled with it."""
    return result if out is None else _C._ops.mul(result, 1, out=out)


def factor_number(op: str, norm: Any, forward: bool) -> int:
    """Returns the number by which the ops name a factor: 0 for 1, 1 for 1/sqrt(n), 2 for 1/n."""
    if norm is None:
        return 0 if forward else 2
    if not isinstance(norm, str):
        raise TypeError(f"{op}(): argument 'norm' must be str, not {type(norm).__name__}")
    if norm not in ("backward", "forward", "ortho"):
        raise RuntimeError(
            f'{op}(): Invalid normalization mode: "{norm}"; expected "backward", "forward" or '
            '"ortho"'
        )
    if norm == "ortho":
        return 1
    return 2 if (norm == "forward") == forward else 0


def checked_size(op: str, n: int) -> int:
    """Returns ``n``, the number of points along one dim, after checking it."""
    if n < 1:
        raise RuntimeError(f"{op}(): Invalid number of data points ({n}) specified")
    return n


def checked_dim(x: Tensor, dim: int) -> int:
    """Returns ``dim`` counted from the end, as a negative number."""
    count = x.dim()
    if count == 0:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    if not -count <= dim < count:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-count}, {count - 1}], but got "
            f"{dim})"
        )
    return dim - count if dim >= 0 else dim


def resized(x: Tensor, dims: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """Cuts ``x``, or pads it with zeros at the end, to ``sizes`` along ``dims`` (negative)."""
    shape = x.shape
    if all(shape[d] == n for d, n in zip(dims, sizes, strict=True)):
        return x
    change = [0] * (2 * -min(dims))
    for d, n in zip(dims, sizes, strict=True):
        change[2 * (-d - 1) + 1] = n - shape[d]
    return _C._nn.pad(x, change)  # a negative number cuts


def shape_and_dims(op: str, x: Tensor, s: Any, dim: Any) -> tuple[list[int], list[int]]:
    """Returns the sizes and the dims (negative) of an n-dimensional transform."""
    dims = None if dim is None else [checked_dim(x, d) for d in as_ints(op, "dim", dim)]
    if dims is not None and len(set(dims)) < len(dims):
        raise RuntimeError(f"{op}(): FFT dims must be unique, got {tuple(as_ints(op, 'dim', dim))}")
    if s is None:
        dims = list(range(-x.dim(), 0)) if dims is None else dims
        sizes = [x.shape[d] for d in dims]
    else:
        sizes = as_ints(op, "s", s)
        if dims is not None and len(dims) != len(sizes):
            raise RuntimeError(
                f"{op}(): When given, dim and shape arguments must have the same length, got "
                f"{len(dims)} and {len(sizes)}"
            )
        if len(sizes) > x.dim():
            raise RuntimeError(
                f"{op}(): Got shape with {len(sizes)} values but input tensor only has {x.dim()} "
                "dimensions."
            )
        dims = list(range(-len(sizes), 0)) if dims is None else dims
        sizes = [x.shape[d] if n == -1 else n for n, d in zip(sizes, dims, strict=True)]
    for n in sizes:
        checked_size(op, n)
    return sizes, dims
