# SPDX-License-Identifier: BSD-3-Clause
"""Signatures of functions: a call's arguments with names and defaults filled in."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import cograd

__all__ = [
    "ArgsKwargsPair",
    "check_for_mutable_operation",
    "create_type_hint",
    "get_signature_for_torch_op",
    "normalize_function",
    "normalize_module",
    "type_matches",
]


class ArgsKwargsPair(NamedTuple):
    """Positional arguments and arguments by name."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def get_signature_for_torch_op(
    op: Callable[..., Any], return_schemas: bool = False
) -> list[inspect.Signature] | tuple[Any, Any] | None:
    """Returns the signature of a function in a list; None if it has none."""
    try:
        found: list[inspect.Signature] | None = [inspect.signature(op)]
    except (TypeError, ValueError):
        found = None
    return (found, None) if return_schemas else found


def check_for_mutable_operation(target: Any, args: Any, kwargs: Any) -> None:
    """Raises RuntimeError for a call that writes into an argument."""
    name = getattr(target, "__name__", "")
    if (name.endswith("_") and not name.endswith("__")) or "out" in kwargs:
        raise RuntimeError(
            f"Tried to trace mutable operation {name}. FX only supports functional code, so "
            "operations that mutate operands in-place (e.g. via `out` arguments) are not supported"
        )


def create_type_hint(x: Any) -> Any:
    """Returns ``x``, or the type of a list or tuple of types."""
    if isinstance(x, (list, tuple)):
        kinds = set(x)
        kind = kinds.pop() if len(kinds) == 1 else Any
        return list[kind] if isinstance(x, list) else tuple[kind, ...]  # type: ignore[valid-type]
    return x


def type_matches(signature_type: Any, argument_type: Any) -> bool:
    """Returns whether an argument of this type fits a parameter with this annotation."""
    if signature_type is argument_type or signature_type is inspect.Parameter.empty:
        return True
    try:
        return bool(issubclass(argument_type, signature_type))
    except TypeError:
        return False


def _filled(
    signature: inspect.Signature, args: Any, kwargs: Any, only_kwargs: bool
) -> ArgsKwargsPair | None:
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    if kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
        return None
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    by_position: list[Any] = []
    by_name: dict[str, Any] = {}
    for i, (name, parameter) in enumerate(signature.parameters.items()):
        positional = not only_kwargs and parameter.kind is not inspect.Parameter.KEYWORD_ONLY
        if positional and (i < len(args) or parameter.default is inspect.Parameter.empty):
            by_position.append(bound.arguments[name])
        elif name != "out" or bound.arguments[name] is not None:
            by_name[name] = bound.arguments[name]
    return ArgsKwargsPair(tuple(by_position), by_name)


def normalize_function(
    target: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    arg_types: tuple[Any, ...] | None = None,
    kwarg_types: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """Returns the arguments of a call with defaults filled in; None without a signature."""
    found = get_signature_for_torch_op(target)
    if not isinstance(found, list) or getattr(target, "__module__", "") == "_operator":
        return None
    return _filled(found[0], args, kwargs or {}, normalize_to_only_use_kwargs)


def normalize_module(
    root: cograd.nn.Module,
    target: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """Returns the arguments of a call of the submodule ``target``, with defaults filled in."""
    try:
        module = root.get_submodule(target)
    except AttributeError:
        raise RuntimeError(
            f"Tried to normalize arguments to module {target}, but the module is not found"
        ) from None
    signature = inspect.signature(module.forward)
    return _filled(signature, args, kwargs or {}, normalize_to_only_use_kwargs)
