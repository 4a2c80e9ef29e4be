# SPDX-License-Identifier: BSD-3-Clause
"""torch.compiler for a library without a compiler: all functions execute eagerly."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from cograd._as_torch.no_compiler import compile

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "reset",
    "set_stance",
    "substitute_in_graph",
    "wrap_numpy",
]

_T = TypeVar("_T")


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Returns ``fn``; without it, a decorator that returns what it decorates."""
    return (lambda f: f) if fn is None else fn


def substitute_in_graph(original_fn: Any, **options: Any) -> Callable[[_T], _T]:
    """Returns a decorator that returns what it decorates."""
    return lambda fn: fn


@contextlib.contextmanager
def _stance() -> Iterator[None]:
    yield


def set_stance(stance: str = "default", **options: Any) -> Any:
    """Does nothing; the result may be used as a context manager or a decorator."""
    return _stance()


# ---- rows of python/surface/faces.toml, written by make stubs ------------------------------------


def is_compiling() -> bool:
    """Returns False."""
    return False


def is_dynamo_compiling() -> bool:
    """Returns False."""
    return False


def is_exporting() -> bool:
    """Returns False."""
    return False


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """Returns an empty list: there are no compilers."""
    return []


def allow_in_graph(fn: _T) -> _T:
    """Returns ``fn``."""
    return fn


def assume_constant_result(fn: _T) -> _T:
    """Returns ``fn``."""
    return fn


def wrap_numpy(fn: _T) -> _T:
    """Returns ``fn``."""
    return fn


def reset() -> None:
    """Does nothing: there is no compiled code to discard."""


def cudagraph_mark_step_begin() -> None:
    """Does nothing."""


# ---- end of the rows -----------------------------------------------------------------------------
