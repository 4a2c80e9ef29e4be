# SPDX-License-Identifier: BSD-3-Clause
"""symbolic_trace: from a module or function to a GraphModule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cograd.fx._tracer import (
    PH,
    PHBase,
    ProxyableClassMeta,
    Tracer,
    _assert_is_none,
    is_fx_symbolic_tracing,
    is_fx_tracing,
    wrap,
)
from cograd.fx.graph_module import GraphModule
from cograd.fx.node import Node
from cograd.nn import Module

__all__ = [
    "PH",
    "Node",
    "PHBase",
    "ProxyableClassMeta",
    "Tracer",
    "_assert_is_none",
    "is_fx_symbolic_tracing",
    "is_fx_tracing",
    "symbolic_trace",
    "wrap",
]

Tracer.__module__ = __name__  # torch's path, for pickles
_assert_is_none.__module__ = __name__


def symbolic_trace(
    root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None
) -> GraphModule:
    """Traces a module or a function and returns a module that does the same.

    Args:
        root: a module, or a function of Python.
        concrete_args: arguments that get these values instead of proxies, so that conditions on
            them work; ``PH`` in a container stays a proxy.
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = root._get_name() if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
