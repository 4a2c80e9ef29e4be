# SPDX-License-Identifier: BSD-3-Clause
"""torch.fx: records what a module does as a graph, changes it, and writes it as Python again."""

import typing as _typing

from cograd._base import absent as _absent
from cograd.fx import traceback as traceback
from cograd.fx._symbolic_trace import (
    PH,
    ProxyableClassMeta,
    Tracer,
    symbolic_trace,
    wrap,
)
from cograd.fx.graph import CodeGen, Graph
from cograd.fx.graph_module import GraphModule
from cograd.fx.interpreter import Interpreter, Transformer
from cograd.fx.node import Node, has_side_effect, map_arg
from cograd.fx.proxy import Proxy
from cograd.fx.subgraph_rewriter import replace_pattern

__all__ = [
    "PH",
    "CodeGen",
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "ProxyableClassMeta",
    "Tracer",
    "Transformer",
    "has_side_effect",
    "map_arg",
    "replace_pattern",
    "symbolic_trace",
    "wrap",
]

if not _typing.TYPE_CHECKING:  # type checkers would accept every name
    __getattr__ = _absent.reporter(__name__)
