# SPDX-License-Identifier: BSD-3-Clause
"""torch._foreach_*: apply an operation to each tensor of a list.

``_foreach_add(tensors, 1.0)`` returns a tuple of new tensors; ``_foreach_add_`` writes to the
tensors and returns the list. The second operand is a scalar, a list of scalars or a list of
tensors, one for each tensor, or one tensor without dims for all. Tensors are processed one after
the other, and each result has its own derivative.

Raises:
    TypeError: an argument is not a list of tensors.
    RuntimeError: there are no tensors, or lists have different lengths; raised before any write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import cograd
from cograd import Tensor

_UNARY = """
abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg
reciprocal round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc
""".split()
# torch's name -> the Tensor method that implements it.
_BINARY = {
    "add": "add",
    "clamp_max": "clamp_max",
    "clamp_min": "clamp_min",
    "div": "div",
    "maximum": "clamp_min",
    "minimum": "clamp_max",
    "mul": "mul",
    "pow": "pow",
    "sub": "sub",
}
_TERNARY = ("addcdiv", "addcmul")


def _list(op: str, name: str, value: Any, like: Sequence[Any] | None = None) -> Sequence[Tensor]:
    """Returns ``value`` as a sequence of tensors; checks that it is as long as ``like``."""
    if not isinstance(value, list | tuple):
        raise TypeError(
            f"{op}(): argument {name!r} must be a list or tuple of Tensors, not "
            f"{type(value).__name__}"
        )
    for i, x in enumerate(value):
        if not isinstance(x, Tensor):
            raise TypeError(
                f"{op}(): expected Tensor as element {i} of {name!r}, but got {type(x).__name__}"
            )
    if like is None and not value:
        raise RuntimeError(f"{op}(): Tensor list must have at least one tensor.")
    if like is not None and len(value) != len(like):
        raise RuntimeError(
            f"{op}(): Tensor lists must have the same number of tensors, got {len(like)} and "
            f"{len(value)}"
        )
    return value


def _numbers(op: str, values: Sequence[Any], like: Sequence[Any]) -> Sequence[Any]:
    """Checks that there is one scalar for each tensor of ``like``, and returns them."""
    if len(values) != len(like):
        raise RuntimeError(
            f"{op}(): Tensor list must have same number of elements as scalar list, got "
            f"{len(like)} and {len(values)}"
        )
    return values


def _operands(op: str, name: str, value: Any, like: Sequence[Any]) -> Sequence[Any]:
    """Returns the second operand for each tensor of ``like``."""
    if isinstance(value, list | tuple):
        if value and all(isinstance(x, Tensor) for x in value):
            return _list(op, name, value, like)
        return _numbers(op, value, like)
    if isinstance(value, Tensor) and value.dim():
        raise RuntimeError(
            f"{op}(): scalar tensor expected to be 0 dim but it has {value.dim()} dimensions "
            f"and {value.numel()} elements."
        )
    return [value] * len(like)


def _one(op: str, **given: Any) -> Any:
    """Returns the one operand that was passed under any of torch's names for it."""
    values = [v for v in given.values() if v is not None]
    if len(values) != 1:
        raise TypeError(f"{op}(): expected one of the arguments {', '.join(given)}")
    return values[0]


def _unary(name: str, inplace: bool) -> Callable[..., Any]:
    op = f"_foreach_{name}{'_' * inplace}"
    method = getattr(Tensor, name + "_" * inplace)

    def run(self: Any) -> Any:
        results = tuple(method(x) for x in _list(op, "self", self))
        return self if inplace else results

    return _named(run, op)


def _binary(name: str, inplace: bool) -> Callable[..., Any]:
    op = f"_foreach_{name}{'_' * inplace}"
    method = getattr(Tensor, _BINARY[name] + "_" * inplace)

    def run(
        self: Any,
        other: Any = None,
        *,
        scalar: Any = None,
        scalars: Any = None,
        exponent: Any = None,
        alpha: Any = None,
    ) -> Any:
        other = _one(op, other=other, scalar=scalar, scalars=scalars, exponent=exponent)
        if name == "pow" and not inplace and isinstance(self, int | float | complex):
            return tuple(cograd.pow(self, x) for x in _list(op, "exponent", other))
        tensors = _list(op, "self", self)
        others = _operands(op, "other", other, tensors)
        more: dict[str, Any] = {}
        if alpha is not None:
            if name not in ("add", "sub") or not isinstance(others[0], Tensor):
                raise TypeError(f"{op}(): argument 'alpha' goes with tensors of add and sub only")
            more = {"alpha": alpha}
        results = tuple(method(x, y, **more) for x, y in zip(tensors, others, strict=True))
        return self if inplace else results

    return _named(run, op)


def _ternary(name: str, inplace: bool) -> Callable[..., Any]:
    op = f"_foreach_{name}{'_' * inplace}"
    method = getattr(Tensor, name + "_" * inplace)

    def run(
        self: Any, tensor1: Any, tensor2: Any, value: Any = None, *, scalars: Any = None
    ) -> Any:
        tensors = _list(op, "self", self)
        left, right = (
            _list(op, n, v, tensors) for n, v in (("tensor1", tensor1), ("tensor2", tensor2))
        )
        if value is None and scalars is None:
            value = 1
        factor = _one(op, value=value, scalars=scalars)
        if isinstance(factor, Tensor):
            if factor.dim() != 1:
                raise RuntimeError(
                    f"{op}(): Expected packed scalar Tensor to be of dimension 1. Got "
                    f"{factor.dim()} instead."
                )
            factor = factor.tolist()
        factors = _operands(op, "value", factor, tensors)
        rows = zip(tensors, left, right, factors, strict=True)
        results = tuple(method(x, a, b, value=v) for x, a, b, v in rows)
        return self if inplace else results

    return _named(run, op)


def _lerp(inplace: bool) -> Callable[..., Any]:
    op = f"_foreach_lerp{'_' * inplace}"
    method = Tensor.lerp_ if inplace else Tensor.lerp

    def run(self: Any, tensors1: Any, weight: Any = None, *, weights: Any = None) -> Any:
        tensors = _list(op, "self", self)
        ends = _list(op, "tensors1", tensors1, tensors)
        by = _operands(op, "weight", _one(op, weight=weight, weights=weights), tensors)
        results = tuple(method(x, y, w) for x, y, w in zip(tensors, ends, by, strict=True))
        return self if inplace else results

    return _named(run, op)


def _named(run: Callable[..., Any], op: str) -> Callable[..., Any]:
    run.__name__ = run.__qualname__ = op
    return run


def _foreach_clone(self: Any, *, memory_format: Any = None) -> tuple[Tensor, ...]:
    more = {} if memory_format is None else {"memory_format": memory_format}
    return tuple(x.clone(**more) for x in _list("_foreach_clone", "self", self))


def _foreach_copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    tensors = _list("_foreach_copy_", "self", self)
    for x, y in zip(tensors, _list("_foreach_copy_", "src", src, tensors), strict=True):
        x.copy_(y)
    return self


def _foreach_zero_(self: Any) -> Any:
    for x in _list("_foreach_zero_", "self", self):
        x.zero_()
    return self


def _foreach_max(self: Any) -> tuple[Tensor, ...]:
    return tuple(x.max() for x in _list("_foreach_max", "self", self))


def _foreach_mm(self: Any, mat2: Any) -> tuple[Tensor, ...]:
    tensors = _list("_foreach_mm", "self", self)
    others = _list("_foreach_mm", "mat2", mat2, tensors)
    return tuple(x.mm(y) for x, y in zip(tensors, others, strict=True))


def _foreach_norm(self: Any, ord: Any = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    norm = cograd.linalg.vector_norm
    return tuple(norm(x, ord, dtype=dtype) for x in _list("_foreach_norm", "self", self))


def _foreach_powsum(self: Any, ord: Any = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    tensors = _list("_foreach_powsum", "self", self)
    return tuple(x.to(dtype or x.dtype).abs().pow(ord).sum() for x in tensors)


for _inplace in (False, True):
    _made = [_unary(n, _inplace) for n in _UNARY]
    _made += [_binary(n, _inplace) for n in _BINARY]
    _made += [_ternary(n, _inplace) for n in _TERNARY]
    for _function in [*_made, _lerp(_inplace)]:
        globals()[_function.__name__] = _function

__all__ = sorted(n for n in globals() if n.startswith("_foreach_"))
