# SPDX-License-Identifier: BSD-3-Clause
"""Order of nodes."""

from __future__ import annotations

from typing import Any

from cograd.fx._names import qualified_name
from cograd.fx.graph import Graph
from cograd.fx.graph_module import GraphModule
from cograd.fx.node import Node

__all__ = ["get_node_target", "legalize_graph", "stable_topological_sort"]


def get_node_target(submodules: Any, node: Node) -> str:
    """Returns the path of a node's function, or of its module's class, or its target."""
    if node.op == "call_module":
        kind = type(submodules[node.target])
        return f"{kind.__module__}.{kind.__name__}"
    if isinstance(node.target, str):
        return node.target
    name = qualified_name(node.target)
    return f"_{name}" if name.startswith("operator.") else name  # its __module__, as in torch


def legalize_graph(gm: GraphModule) -> GraphModule:
    """Puts every node after its arguments, keeping the order otherwise; the graph is replaced.

    Raises:
        RuntimeError: nodes depend on each other in a cycle.
    """
    waiting = {node: len(node.all_input_nodes) for node in gm.graph.nodes}
    todo = [node for node, count in waiting.items() if not count]
    made = Graph(tracer_cls=gm.graph._tracer_cls)
    env: dict[Node, Node] = {}
    made._codegen = gm.graph._codegen
    for node in todo:  # it grows
        env[node] = made.node_copy(node, env.__getitem__)
        for user in node.users:
            waiting[user] -= 1
            if not waiting[user]:
                todo.append(user)
    if len(env) < len(waiting):
        raise RuntimeError(
            f"Input graph has cycles, unable to add {[n for n, count in waiting.items() if count]}"
        )
    gm.graph = made
    return gm


stable_topological_sort = legalize_graph
