# SPDX-License-Identifier: BSD-3-Clause
"""symbolic_trace: from a module or function to a GraphModule."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

from cograd.fx._compatibility import compatibility
from cograd.fx._tracer import (
    PH,
    PHBase,
    ProxyableClassMeta,
    Tracer,
    _assert_is_none,
    _autowrap_check,
    _orig_module_call,
    _orig_module_getattr,
    _patch_wrapped_functions,
    _Patcher,
    _wrapped_fns_to_patch,
    is_fx_symbolic_tracing,
    is_fx_tracing,
    wrap,
)
from cograd.fx.graph import Graph
from cograd.fx.graph_module import GraphModule
from cograd.fx.node import Node
from cograd.fx.proxy import Proxy
from cograd.nn import Module

# Subclasses of Tracer in packages use torch's private names here, too.
__all__ = [
    "PH",
    "FunctionType",
    "Graph",
    "Node",
    "PHBase",
    "Proxy",
    "ProxyableClassMeta",
    "ScriptObject",
    "Tracer",
    "_Patcher",
    "_assert_is_none",
    "_autowrap_check",
    "_orig_module_call",
    "_orig_module_getattr",
    "_patch_wrapped_functions",
    "_wrapped_fns_to_patch",
    "compatibility",
    "functools",
    "is_fx_symbolic_tracing",
    "is_fx_tracing",
    "symbolic_trace",
    "wrap",
]


class ScriptObject:
    """torch's type of objects of TorchScript. It has no instances here."""


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
