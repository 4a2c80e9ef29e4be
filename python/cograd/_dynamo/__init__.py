# SPDX-License-Identifier: BSD-3-Clause
"""torch._dynamo for a library without a compiler: switches are stored without effect."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from cograd._base import absent as _absent
from cograd.compiler import allow_in_graph, disable, is_compiling, list_backends, reset

__all__ = [
    "allow_in_graph",
    "config",
    "disable",
    "graph_break",
    "is_compiling",
    "is_dynamo_supported",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "maybe_mark_dynamic",
    "reset",
]


class _Config:
    """Stores the switches that a program sets, so that it can read them."""

    def patch(self, *args: Any, **kwargs: Any) -> Any:
        """Returns a context manager and decorator that does nothing."""
        return _Nothing()


class _Nothing(contextlib.ContextDecorator):
    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


config: Any = _Config()


# ---- rows of python/surface/faces.toml, written by make stubs ------------------------------------


def is_dynamo_supported() -> bool:
    """Returns False."""
    return False


def graph_break(msg: str = "") -> None:
    """Does nothing: there are no graphs to break."""


def mark_dynamic(t: Any, index: Any, **options: Any) -> None:
    """Does nothing: every size may change."""


def mark_static(t: Any, index: Any = None) -> None:
    """Does nothing: every size may change."""


def mark_static_address(t: Any, guard: bool = True) -> None:
    """Does nothing: no address is compiled into code."""


maybe_mark_dynamic = mark_dynamic


# ---- end of the rows -----------------------------------------------------------------------------


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        if name in ("eval_frame", "utils"):
            return import_module(f"cograd._dynamo.{name}")
        if name == "OptimizedModule":
            return import_module("cograd._dynamo.eval_frame").OptimizedModule
        raise _absent.missing(__name__, name)
