# SPDX-License-Identifier: BSD-3-Clause
"""Replaces parts of a graph by others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from cograd.fx._symbolic_trace import symbolic_trace
from cograd.fx.graph import Graph
from cograd.fx.graph_module import GraphModule, _assign_attr, _get_attr
from cograd.fx.node import Node, map_arg
from cograd.fx.passes.utils.matcher_utils import InternalMatch, SubgraphMatcher
from cograd.nn import Module

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]

_Pattern = Callable[..., Any] | Graph | GraphModule


class Match(NamedTuple):
    """A replaced part: its last node, and the node for each one of the pattern."""

    anchor: Node
    nodes_map: dict[Node, Node]


@dataclass
class ReplacedPatterns:
    """A replaced part and the nodes that replaced it."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


def replace_pattern(
    gm: GraphModule, pattern: Callable[..., Any] | GraphModule,
    replacement: Callable[..., Any] | GraphModule,
) -> list[Match]:  # fmt: skip
    """Replaces every part of a graph that does what ``pattern`` does.

    Args:
        gm: the module whose graph changes; it is recompiled.
        pattern: a function or module, which is traced; its inputs match any value.
        replacement: one with the same inputs and results.

    Returns:
        The matches, of which those that overlap an earlier one are left out.
    """
    replaced = _replace(gm, pattern, replacement, [], False)
    return [Match(anchor=m.anchor, nodes_map=m.nodes_map) for m in replaced]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: _Pattern,
    replacement: _Pattern | None = None,
    match_filters: list[Callable[[InternalMatch, Graph, Graph], bool]] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    """Replaces those matches of a pattern that all filters accept.

    Args:
        gm: the module whose graph changes; it is recompiled.
        pattern: a function, module or graph; its inputs match any value.
        replacement: one with the same inputs and results.
        match_filters: called with a match, the graph and the pattern's graph.
        ignore_literals: numbers and strings match whatever they are.
        replacement_callback: makes the replacement from the same arguments.
    """
    return _replace(
        gm, pattern, replacement, match_filters or [], ignore_literals, replacement_callback
    )


def _graph_of(pattern: Any) -> Graph:
    if isinstance(pattern, GraphModule):
        return pattern.graph
    return pattern if isinstance(pattern, Graph) else symbolic_trace(pattern).graph


def _replace(
    gm: GraphModule,
    pattern: Any,
    replacement: Any,
    filters: list[Callable[..., bool]],
    ignore_literals: bool,
    callback: Callable[..., Graph] | None = None,
) -> list[ReplacedPatterns]:
    if (replacement is None) == (callback is None):
        raise AssertionError("Must provide either replacement or replacement_callback")
    graph, pattern_graph = gm.graph, _graph_of(pattern)
    matcher = SubgraphMatcher(pattern_graph, ignore_literals=ignore_literals)
    matches = sorted(matcher.match(graph), key=_place(graph))
    matches = [m for m in matches if all(f(m, graph, pattern_graph) for f in filters)]
    fixed = _graph_of(replacement) if replacement is not None else None
    renamed: dict[Node, Any] = {}
    done = [
        _replace_one(
            graph, match, pattern_graph,
            fixed if fixed is not None else callback(match, graph, pattern_graph),  # type: ignore[misc]
            renamed,
        )
        for match in matches
    ]  # fmt: skip
    gm.recompile()
    if isinstance(replacement, Module):
        _copy_attributes(gm, replacement)
    elif fixed is not None and fixed.owning_module is not None:
        _copy_attributes(gm, fixed.owning_module)
    return done


def _place(graph: Graph) -> Callable[[InternalMatch], int]:
    order = {node: i for i, node in enumerate(graph.nodes)}
    return lambda match: order[match.nodes_map[match.anchors[0]]]


def _replace_one(
    graph: Graph, match: InternalMatch, pattern: Graph, replacement: Graph,
    renamed: dict[Node, Any],
) -> ReplacedPatterns:  # fmt: skip
    """Copies the replacement before the first user of the match, and erases the match.

    ``renamed`` has what earlier replacements put in the place of nodes that this match has.
    """
    inputs = [n for n in replacement.nodes if n.op == "placeholder"]
    if len(inputs) != len(match.placeholder_nodes):
        raise AssertionError("the replacement and the pattern have different numbers of inputs")
    given = [_latest(renamed, value) for value in match.placeholder_nodes]
    val_map: dict[Node, Any] = dict(zip(inputs, given, strict=True))
    last = _insertion_point(graph, match)
    before = set(graph.nodes)
    with graph.inserting_before(last):
        result = graph.graph_copy(replacement, val_map)
    if isinstance(result, Node):
        result = (result,)
    results = _nodes_in(result)
    if len(match.returning_nodes) != len(results):
        raise AssertionError("the replacement and the pattern have different numbers of results")
    for old, new in zip(match.returning_nodes, results, strict=True):
        old.replace_all_uses_with(new)
        renamed[old] = new
    for node in reversed(pattern.nodes):
        if node.op not in ("placeholder", "output"):
            found = match.nodes_map[node]
            if not found.users:
                graph.erase_node(found)
    added = [n for n in graph.nodes if n not in before]
    return ReplacedPatterns(match.anchors[0], match.nodes_map, added)


def _latest(renamed: dict[Node, Any], value: Any) -> Any:
    while isinstance(value, Node) and value in renamed:
        value = renamed[value]
    return value


def _nodes_in(result: Any) -> list[Node]:
    found: list[Node] = []
    map_arg(result, lambda n: found.append(n) or n)  # type: ignore[func-returns-value]
    return found


def _insertion_point(graph: Graph, match: InternalMatch) -> Node:
    """Returns the first node that uses a result of the match."""
    order = {node: i for i, node in enumerate(graph.nodes)}
    inside = {g for g in match.nodes_map.values() if isinstance(g, Node)}
    users = [u for node in match.returning_nodes for u in node.users if u not in inside]
    following: list[Node] = users or [graph.output_node()]
    return min(following, key=order.__getitem__)


def _copy_attributes(gm: GraphModule, source: Module) -> None:
    """Gives the module what the new nodes name."""
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        if not _has(gm, node.target):
            if not _has(source, node.target):
                raise RuntimeError(
                    f"Attempted to create a {node.op!r} node during subgraph rewriting with target "
                    f"{node.target}, but the referenced attribute exists in neither module"
                )
            _assign_attr(_get_attr(source, node.target), gm, node.target)
    gm.delete_all_unused_submodules()
    gm.graph.lint()


def _has(module: Module, target: str) -> bool:
    try:
        _get_attr(module, target)
    except AttributeError:
        return False
    return True
