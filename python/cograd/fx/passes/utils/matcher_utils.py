# SPDX-License-Identifier: BSD-3-Clause
"""Finds where a graph has the nodes of a smaller one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cograd.fx.graph import Graph
from cograd.fx.graph_module import _get_attr
from cograd.fx.node import Node

__all__ = ["InternalMatch", "SubgraphMatcher"]


@dataclass
class InternalMatch:
    """A match: the node of the graph for each node of the pattern."""

    anchors: list[Node]
    nodes_map: dict[Any, Any] = field(default_factory=dict)
    placeholder_nodes: list[Any] = field(default_factory=list)
    returning_nodes: list[Any] = field(default_factory=list)
    name_node_map: dict[str, Node] = field(default_factory=dict)

    def __copy__(self) -> InternalMatch:
        return InternalMatch(
            list(self.anchors), dict(self.nodes_map), list(self.placeholder_nodes),
            list(self.returning_nodes), dict(self.name_node_map),
        )  # fmt: skip


class SubgraphMatcher:
    """Matches a pattern: inputs match any value, all else by kind, target and arguments.

    Args:
        pattern: the graph to find.
        match_output: its output node has to match one.
        match_placeholder: its inputs have to match inputs.
        remove_overlapping_matches: of matches that share nodes, keeps the first.
        ignore_literals: numbers and strings match whatever they are.
    """

    def __init__(
        self,
        pattern: Graph,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        self.pattern = pattern
        self.match_output = match_output
        self.match_placeholder = match_placeholder
        self.remove_overlapping_matches = remove_overlapping_matches
        self.ignore_literals = ignore_literals
        if not len(pattern.nodes):
            raise ValueError(
                "SubgraphMatcher cannot be initialized with an empty pattern: it has no nodes"
            )
        self.pattern_placeholder_nodes = [n for n in pattern.nodes if n.op == "placeholder"]
        output = pattern.output_node()
        self.pattern_returning_nodes = output.all_input_nodes
        self.pattern_anchors = (
            [output] if match_output
            else [n for n in output.all_input_nodes if len(n.users) == 1]
        )  # fmt: skip

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """Returns the matches, in the order of the graph from its end."""
        candidates = [
            [n for n in reversed(graph.nodes) if self._same_node(anchor, n)]
            for anchor in self.pattern_anchors
        ]
        found: list[InternalMatch] = []
        tuples: list[list[Node]] = [[]]
        for nodes in candidates:
            tuples = [[*before, n] for before in tuples for n in nodes if n not in before]
        for anchors in tuples if self.pattern_anchors else []:
            match = InternalMatch(list(self.pattern_anchors))
            pairs = zip(self.pattern_anchors, anchors, strict=True)
            if not all(self._match_nodes(p, g, match) for p, g in pairs):
                continue
            mapped = match.nodes_map
            match.placeholder_nodes = [mapped.get(n) for n in self.pattern_placeholder_nodes]
            match.returning_nodes = [mapped[n] for n in self.pattern_returning_nodes]
            if self._is_contained(match) and not self._in_cycle(match):
                found.append(match)
        return self._disjoint(found) if self.remove_overlapping_matches else found

    def _disjoint(self, matches: list[InternalMatch]) -> list[InternalMatch]:
        kept: list[InternalMatch] = []
        taken: set[Node] = set()
        for match in matches:
            own = {
                g for p, g in match.nodes_map.items() if p.op not in ("placeholder", "output")
                and isinstance(g, Node)
            }  # fmt: skip
            if not own & taken:
                kept.append(match)
                taken |= own
        return kept

    def _is_contained(self, match: InternalMatch) -> bool:
        """Returns whether only results of the pattern are used outside of the match."""
        inside = {g for g in match.nodes_map.values() if isinstance(g, Node)}
        for p, g in match.nodes_map.items():
            free = (
                p.op in ("placeholder", "output", "get_attr") or p in self.pattern_returning_nodes
            )
            if not free and any(user not in inside for user in g.users):
                return False
        return True

    def _in_cycle(self, match: InternalMatch) -> bool:
        """Returns whether an input of the match depends on one of its results."""
        inner = {g for p, g in match.nodes_map.items() if p.op not in ("placeholder", "output")}
        todo = [n for n in match.placeholder_nodes if isinstance(n, Node)]
        seen = set(todo)
        while todo:
            for used in todo.pop().all_input_nodes:
                if used in inner:
                    return True
                if used not in seen:
                    seen.add(used)
                    todo.append(used)
        return False

    def _same_node(self, pattern: Node, node: Node) -> bool:
        """Returns whether kind and target are the same."""
        if pattern.op == "placeholder" and not self.match_placeholder:
            return True
        if pattern.op != node.op:
            return False
        if pattern.op in ("placeholder", "output"):
            return True
        if pattern.op == "get_attr":
            return self._same_attribute(pattern, node)
        if pattern.op == "call_module":
            mine, other = _owned(pattern), _owned(node)
            return pattern.target == node.target or (mine is not None and type(mine) is type(other))
        return bool(pattern.target == node.target)

    def _same_attribute(self, pattern: Node, node: Node) -> bool:
        return type(_owned(pattern)) is type(_owned(node))

    def _match_nodes(self, pattern: Any, node: Any, match: InternalMatch) -> bool:
        """Matches two arguments and what they depend on; notes the pairs of nodes."""
        if isinstance(pattern, Node):
            if pattern in match.nodes_map:
                return match.nodes_map[pattern] is node
            if pattern.op == "placeholder" and not self.match_placeholder:
                match.nodes_map[pattern] = node
                return True
            if not isinstance(node, Node) or node in match.nodes_map.values():
                return False
            if not self._same_node(pattern, node):
                return False
            before = dict(match.nodes_map)
            match.nodes_map[pattern] = node
            if pattern.op == "placeholder" or self._match_arguments(pattern, node, match):
                return True
            match.nodes_map = before
            return False
        if isinstance(node, Node):
            return False
        return self._match_values(pattern, node, match)

    def _match_arguments(self, pattern: Node, node: Node, match: InternalMatch) -> bool:
        mine, theirs = (pattern.args, pattern.kwargs), (node.args, node.kwargs)
        if (len(mine[0]), mine[1].keys()) != (len(theirs[0]), theirs[1].keys()):
            root = pattern.graph.owning_module
            owner = node.graph.owning_module
            first = pattern.normalized_arguments(root, normalize_to_only_use_kwargs=True)
            other = node.normalized_arguments(owner, normalize_to_only_use_kwargs=True)
            if first is None or other is None:
                return False
            mine, theirs = first, other
        pairs = zip(mine, theirs, strict=True)
        return all(self._match_values(p, n, match) for p, n in pairs)

    def _match_values(self, pattern: Any, value: Any, match: InternalMatch) -> bool:
        if isinstance(pattern, Node):
            return self._match_nodes(pattern, value, match)
        if isinstance(pattern, (list, tuple)) and isinstance(value, (list, tuple)):
            same = len(pattern) == len(value)
            return same and all(map(self._match_values, pattern, value, [match] * len(pattern)))
        if isinstance(pattern, dict) and isinstance(value, dict):
            same = pattern.keys() == value.keys()
            return same and all(self._match_values(v, value[k], match) for k, v in pattern.items())
        if isinstance(pattern, slice) and isinstance(value, slice):
            parts = [(s.start, s.stop, s.step) for s in (pattern, value)]
            return self._match_values(parts[0], parts[1], match)
        if isinstance(value, Node):
            return False
        return self.ignore_literals or (type(pattern) is type(value) and pattern == value)


def _owned(node: Node) -> Any:
    """Returns what a node names in its module, or None."""
    try:
        return _get_attr(node.graph.owning_module, node.target)  # type: ignore[arg-type]
    except AttributeError:
        return None
