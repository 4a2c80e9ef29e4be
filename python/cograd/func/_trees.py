# SPDX-License-Identifier: BSD-3-Clause
"""What the transforms share: arguments by number, trees of tensors, a function's scope."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cograd import _C, _pytree
from cograd._C import Tensor
from cograd._pytree import flat

Argnums = int | tuple[int, ...]


def tree(spec: Any, leaves: Any) -> Any:
    """The tree of a shape with these leaves."""
    return _pytree.unflatten(spec, iter(leaves))


def mapped(fn: Callable[[Any], Any], value: Any) -> Any:
    """The tree with ``fn`` of each leaf that is a tensor; other leaves stay."""
    leaves, spec = flat(value)
    return tree(spec, [fn(v) if isinstance(v, Tensor) else v for v in leaves])


def _wrapped(number: Any, count: int) -> int:
    if not isinstance(number, int):
        raise RuntimeError(f"argnum must be int, got: {type(number)}")
    if not -count <= number < count:
        raise RuntimeError(f"Got argnum={number}, but only {count} positional inputs")
    return number % count


def numbers_of(argnums: Argnums, count: int) -> tuple[int, ...]:
    """The positions that ``argnums`` names among ``count`` arguments."""
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
    """The arguments that ``argnums`` names: one for an int, a tuple for a tuple, all for None."""
    if argnums is None:
        return args
    numbers = numbers_of(argnums, len(args))
    return args[numbers[0]] if isinstance(argnums, int) else tuple(args[n] for n in numbers)


def replaced(args: tuple[Any, ...], argnums: Argnums | None, new: Any) -> tuple[Any, ...]:
    """The arguments with those that ``argnums`` names replaced by ``new``, as ``chosen`` gives."""
    if argnums is None:
        return tuple(new)
    result = list(args)
    values = (new,) if isinstance(argnums, int) else new
    for n, value in zip(numbers_of(argnums, len(args)), values, strict=True):
        result[n] = value
    return tuple(result)


def split_aux(result: Any, has_aux: bool, where: str) -> tuple[Any, Any]:
    """(output, aux) of what the function returned."""
    if not has_aux:
        return result, None
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(
            f"{where}: output of function f should be a tuple: (output, aux) if has_aux is True"
        )
    return result


def check_outputs(leaves: list[Any], where: str) -> None:
    """Raises unless there are leaves and all are tensors."""
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
    """Raises if one of the tensors is complex: a Jacobian has one number for each pair."""
    for index, value in enumerate(values):
        if isinstance(value, Tensor) and value.is_complex():
            raise RuntimeError(
                f"{name}: Expected all {what} to be real but received complex tensor at flattened "
                f"{what[:-1]} idx: {index}. The derivative of the real and the imaginary part are "
                "two Jacobians: use view_as_real and view_as_complex"
            )


def function_scope(may_write: Any, *, reverse: bool) -> _C._FunctionScope:
    """The function runs within. What it captured cannot be written in place.

    Args:
        may_write: a tree; its tensors can be.
        reverse: ops are recorded, whatever the modes outside.
    """
    return _C._FunctionScope([t for t in flat(may_write)[0] if isinstance(t, Tensor)], reverse)
