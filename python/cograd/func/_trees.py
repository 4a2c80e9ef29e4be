# SPDX-License-Identifier: BSD-3-Clause
"""Helpers of the transforms: arguments by number, trees of tensors, a function's scope."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cograd import _C, _pytree
from cograd._C import Tensor
from cograd._pytree import flat

Argnums = int | tuple[int, ...]


def tree(spec: Any, leaves: Any) -> Any:
    """Returns the tree of structure ``spec`` with these leaves."""
    return _pytree.unflatten(spec, iter(leaves))


def mapped(fn: Callable[[Any], Any], value: Any) -> Any:
    """Applies ``fn`` to each leaf that is a tensor; keeps other leaves."""
    leaves, spec = flat(value)
    return tree(spec, [fn(v) if isinstance(v, Tensor) else v for v in leaves])


def _wrapped(number: Any, count: int) -> int:
    if not isinstance(number, int):
        raise RuntimeError(f"argnum must be int, got: {type(number)}")
    if not -count <= number < count:
        raise RuntimeError(f"Got argnum={number}, but only {count} positional inputs")
    return number % count


def numbers_of(argnums: Argnums, count: int) -> tuple[int, ...]:
    """Returns the positions that ``argnums`` selects among ``count`` arguments."""
    if isinstance(argnums, int):
        return (_wrapped(argnums, count),)
    if not isinstance(argnums, tuple):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    numbers = tuple(_wrapped(n, count) for n in argnums)
    if not numbers:
        raise RuntimeError("argnums must be non-empty")
    if len(set(numbers)) != len(numbers):
        raise RuntimeError(f"argnums elements must be unique, got {numbers}")
    return numbers


def chosen(args: tuple[Any, ...], argnums: Argnums | None) -> Any:
    """Returns the selected arguments: one for an int, a tuple for a tuple, all for None."""
    if argnums is None:
        return args
    numbers = numbers_of(argnums, len(args))
    return args[numbers[0]] if isinstance(argnums, int) else tuple(args[n] for n in numbers)


def replaced(args: tuple[Any, ...], argnums: Argnums | None, new: Any) -> tuple[Any, ...]:
    """Replaces the selected arguments by ``new``, which has the form that ``chosen`` returns."""
    if argnums is None:
        return tuple(new)
    result = list(args)
    values = (new,) if isinstance(argnums, int) else new
    for n, value in zip(numbers_of(argnums, len(args)), values, strict=True):
        result[n] = value
    return tuple(result)


def split_aux(result: Any, has_aux: bool, where: str) -> tuple[Any, Any]:
    """Splits the function's result into (output, aux)."""
    if not has_aux:
        return result, None
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(
            f"{where}: output of function f should be a tuple: (output, aux) if has_aux is True"
        )
    return result


def check_outputs(leaves: list[Any], where: str) -> None:
    """Raises RuntimeError unless there are leaves and all are tensors."""
    if not leaves or (len(leaves) == 1 and leaves[0] is None):
        raise RuntimeError(
            f"{where}: Expected f to be a function that has non-empty output (got output = "
            f"{leaves})"
        )
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(
                f"{where}: expected f(*primals) to return only tensors, got unsupported type "
                f"{type(leaf)}"
            )


def check_real(name: str, what: str, values: list[Any]) -> None:
    """Raises RuntimeError if a tensor is complex: its Jacobian would not be one complex matrix."""
    for index, value in enumerate(values):
        if isinstance(value, Tensor) and value.is_complex():
            raise RuntimeError(
                f"{name}: Expected all {what} to be real but received complex tensor at flattened "
                f"{what[:-1]} idx: {index}. The derivative of the real and the imaginary part are "
                "two Jacobians: use view_as_real and view_as_complex"
            )


def function_scope(may_write: Any, *, reverse: bool) -> _C._FunctionScope:
    """Returns the scope in which a function runs; captured tensors cannot be written in place.

    Args:
        may_write: a tree of tensors that can be written nevertheless.
        reverse: whether ops are recorded, independent of the modes outside.
    """
    return _C._function_scope([t for t in flat(may_write)[0] if isinstance(t, Tensor)], reverse)
