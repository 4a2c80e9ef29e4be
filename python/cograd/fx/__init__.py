# SPDX-License-Identifier: BSD-3-Clause
"""What programs ask of torch.fx before they compute: nothing is traced, so nothing is a proxy."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from cograd import _absent

__all__ = ["Graph", "GraphModule", "Node", "Proxy", "Tracer", "wrap"]

_T = TypeVar("_T", bound="str | Callable[..., Any]")


class _OfTraces:
    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise _absent.refused(f"fx.{cls.__name__}", "fx")


class Graph(_OfTraces):
    """What a captured graph would be an instance of: nothing is."""


class GraphModule(_OfTraces):
    """What a module made of a captured graph would be an instance of: nothing is."""


class Node(_OfTraces):
    """What a node of a captured graph would be an instance of: nothing is."""


class Proxy(_OfTraces):
    """What a value would be an instance of while a graph is captured: nothing is."""


class Tracer(_OfTraces):
    """What captures graphs: a class of it can be declared, and making one raises."""


def wrap(fn_or_name: _T) -> _T:
    """Returns ``fn_or_name``, a function that no trace would enter, or its name."""
    if not (callable(fn_or_name) or isinstance(fn_or_name, str)):
        raise RuntimeError(
            "fx.wrap(): argument 'fn_or_name' must be a function or its name, got "
            f"{type(fn_or_name).__name__}"
        )
    return fn_or_name


if not TYPE_CHECKING:  # which would take it for an answer to every name
    __getattr__ = _absent.reporter(__name__)
