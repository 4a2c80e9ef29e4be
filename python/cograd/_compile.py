# SPDX-License-Identifier: BSD-3-Clause
"""compile: returns its argument, because cograd has no compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

__all__ = ["compile"]

_F = TypeVar("_F", bound=Callable[..., Any])


@overload
def compile(
    model: _F,
    *,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    backend: str | Callable[..., Any] = ...,
    mode: str | None = ...,
    options: dict[str, Any] | None = ...,
    disable: bool = ...,
) -> _F: ...


@overload
def compile(
    model: None = None,
    *,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    backend: str | Callable[..., Any] = ...,
    mode: str | None = ...,
    options: dict[str, Any] | None = ...,
    disable: bool = ...,
) -> Callable[[_F], _F]: ...


def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """Returns ``model`` itself; without it, a decorator that returns what it decorates.

    Ops run one by one, as they do without ``compile``. Names in ``state_dict`` do not change.

    Args:
        model: a module or a function.
        fullgraph, dynamic, backend, mode, options, disable: accepted, but have no effect.

    Raises:
        RuntimeError: ``model`` cannot be called, or both ``mode`` and ``options`` are given.
    """
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    if model is None:
        return compile
    if not callable(model):
        raise RuntimeError(f"compile(): expected a module or a function, got {model!r}")
    return model
