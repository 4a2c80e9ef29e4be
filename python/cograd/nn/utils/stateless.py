# SPDX-License-Identifier: BSD-3-Clause
"""Calls modules with other tensors in place of their parameters and buffers."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

from cograd import Tensor

__all__ = ["functional_call"]

_ABSENT = object()


def functional_call(
    module: Any,
    parameters_and_buffers: dict[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Calls ``cograd.func.functional_call``; this name is deprecated."""
    warnings.warn(
        "`nn.utils.stateless.functional_call` is deprecated. Please use `func.functional_call` "
        "instead which is a drop-in replacement.",
        FutureWarning,
        stacklevel=2,
    )
    return _functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )


def _functional_call(
    module: Any,
    parameters_and_buffers: dict[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    positional = () if args is None else args if isinstance(args, tuple) else (args,)
    with _reparametrize_module(
        module, parameters_and_buffers, tie_weights=tie_weights, strict=strict
    ):
        return module(*positional, **({} if kwargs is None else kwargs))


def _names_by_tensor(module: Any) -> dict[str, list[str]]:
    """Maps each name to all names under which the module has the same tensor."""
    names: dict[int, list[str]] = {}
    for named in (module.named_parameters, module.named_buffers):
        for name, tensor in named(remove_duplicate=False):
            names.setdefault(id(tensor), []).append(name)
    return {name: group for group in names.values() for name in group}


def _tied(module: Any, given: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns ``given`` with each tensor also under the names of tied tensors."""
    result = dict(given)
    groups = _names_by_tensor(module)
    for name in given:
        group = groups.get(name, [name])
        if len({id(given[n]) for n in group if n in given}) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(group)}, which are tied. "
                "Consider using tie_weights=False"
            )
        result.update(dict.fromkeys(group, given[name]))
    return result


def _check_names(module: Any, given: dict[str, Tensor]) -> None:
    known = set(_names_by_tensor(module))
    lines = [
        f"{what} key(s): {', '.join(map(repr, sorted(names)))}."
        for what, names in (("Unexpected", given.keys() - known), ("Missing", known - given.keys()))
        if names
    ]
    if lines:
        raise RuntimeError(
            f"Error(s) in reparametrizing for {type(module).__name__}:\n\t" + "\n\t".join(lines)
        )


def _owner(module: Any, path: str) -> tuple[Any, str]:
    """Returns the submodule that holds the tensor at ``path``, and the tensor's name in it."""
    prefix, _, name = path.rpartition(".")
    for part in prefix.split(".") if prefix else ():
        if not hasattr(module, part):
            raise AttributeError(f"{type(module).__name__} has no attribute `{part}`")
        module = getattr(module, part)
    return module, name


def _swap(module: Any, path: str, tensor: Any) -> Any:
    """Replaces the tensor at ``path`` by ``tensor`` (or removes it); returns the previous one."""
    owner, name = _owner(module, path)
    if tensor is not _ABSENT and tensor is not None and not isinstance(tensor, Tensor):
        raise TypeError(
            f"functional_call(): the value for {path!r} is not an instance of Tensor, but a "
            f"{type(tensor).__name__}"
        )
    for table in (owner._parameters, owner._buffers):
        if name in table:
            before = table[name]
            if tensor is _ABSENT:
                del table[name]
            else:
                table[name] = tensor
            return before
    before = getattr(owner, name, _ABSENT)
    if before is not _ABSENT and before is not None and not isinstance(before, Tensor):
        raise TypeError(
            f"functional_call(): the attribute {path!r} is not an instance of Tensor, but a "
            f"{type(before).__name__}"
        )
    if tensor is not _ABSENT:
        setattr(owner, name, tensor)
    elif before is not _ABSENT:
        delattr(owner, name)
    return before


@contextlib.contextmanager
def _reparametrize_module(
    module: Any,
    parameters_and_buffers: dict[str, Tensor],
    tie_weights: bool = False,
    strict: bool = False,
) -> Iterator[None]:
    """Replaces tensors of the module inside the block.

    At the end, tensors that the module assigned meanwhile are in ``parameters_and_buffers``.
    """
    given = _tied(module, parameters_and_buffers) if tie_weights else parameters_and_buffers
    if strict:
        _check_names(module, given)
    before: dict[str, Any] = {}
    try:
        for name, tensor in given.items():
            before[name] = _swap(module, name, tensor)
        yield
    finally:
        after = {name: _swap(module, name, tensor) for name, tensor in reversed(before.items())}
        for name in parameters_and_buffers:
            if name in after:
                parameters_and_buffers[name] = after[name]
