# SPDX-License-Identifier: BSD-3-Clause
"""torch.fx for a library without tracing: its types have no instances."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from cograd._base import absent as _absent

__all__ = ["Graph", "GraphModule", "Node", "Proxy", "Tracer", "wrap"]

_T = TypeVar("_T", bound="str | Callable[..., Any]")


class _OfTraces:
    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise _absent.refused(f"fx.{cls.__name__}", "fx")


# ---- rows of python/surface/faces.toml, written by make stubs ------------------------------------


class Graph(_OfTraces):
    """torch's type of captured graphs. It has no instances."""


class GraphModule(_OfTraces):
    """torch's type of modules made from a captured graph. It has no instances."""


class Node(_OfTraces):
    """torch's type of nodes of a captured graph. It has no instances."""


class Proxy(_OfTraces):
    """torch's type of values while a graph is captured. It has no instances."""


class Tracer(_OfTraces):
    """torch's base class of tracers: it can be subclassed, but creating an instance raises."""


# ---- end of the rows -----------------------------------------------------------------------------


def wrap(fn_or_name: _T) -> _T:
    """Returns ``fn_or_name``, a function (or its name) that a trace would not enter."""
    if not (callable(fn_or_name) or isinstance(fn_or_name, str)):
        raise RuntimeError(
            "fx.wrap(): argument 'fn_or_name' must be a function or its name, got "
            f"{type(fn_or_name).__name__}"
        )
    return fn_or_name


if not TYPE_CHECKING:  # type checkers would accept every name
    __getattr__ = _absent.reporter(__name__)
