# SPDX-License-Identifier: BSD-3-Clause
"""Handles of registered hooks, and the class that runs backward hooks of modules."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from cograd._handles import RemovableHandle, _NodeHandle  # noqa: F401

if TYPE_CHECKING:
    from cograd.utils._backward_hook import BackwardHook

__all__ = ["BackwardHook", "RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]

F = TypeVar("F", bound=Callable[..., Any])


def unserializable_hook(f: F) -> F:
    """Marks ``f`` as a tensor hook that serialization drops without a warning."""
    f.__torch_unserializable__ = True  # type: ignore[attr-defined]
    return f


def warn_if_has_hooks(tensor: Any) -> None:
    """Warns that the hooks of ``tensor`` are not serialized, unless all are marked for that."""
    hooks = getattr(tensor, "_backward_hooks", None) or {}
    for key, hook in hooks.items():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} (id {key}) on tensor will not be serialized. If this is "
                "expected, you can decorate the function with "
                "@cograd.utils.hooks.unserializable_hook to suppress this warning",
                stacklevel=2,
            )


if not TYPE_CHECKING:  # type checkers would accept every name

    def __getattr__(name: str) -> Any:
        """Imports BackwardHook at first access, because tensors only need the handles."""
        if name == "BackwardHook":
            from cograd.utils._backward_hook import BackwardHook

            return BackwardHook
        raise AttributeError(f"module 'cograd.utils.hooks' has no attribute '{name}'")
