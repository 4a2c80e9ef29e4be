# SPDX-License-Identifier: BSD-3-Clause
"""Splits a module into submodules by a function of its nodes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from cograd.fx.graph import Graph
from cograd.fx.graph_module import GraphModule, _get_attr
from cograd.fx.node import Node, map_arg
from cograd.fx.proxy import Proxy
from cograd.nn import Module

__all__ = ["Partition", "split_module"]

# Calls that change a state until another call: a part of its own would not see it.
_STATEFUL = ("_enter_autocast", "_exit_autocast", "_set_grad_enabled")


class Partition:
    """A part of the nodes: what it gets, gives, and which other parts it needs; names of nodes."""

    def __init__(self, name: str) -> None:
        self.name, self.submod_name = name, f"submod_{name}"
        self.node_names: list[str] = []
        self.inputs: dict[str, None] = {}
        self.outputs: dict[str, None] = {}
        self.dependencies: dict[str, None] = {}
        self.dependents: dict[str, None] = {}
        self.graph = Graph()
        self.environment: dict[Node, Node] = {}
        self.targets: dict[str, Any] = {}

    def __repr__(self) -> str:
        return (
            f"name: {self.name},\n nodes: {self.node_names},\n inputs: {self.inputs},\n"
            f" outputs: {self.outputs},\n partitions depended on: {self.dependencies},\n"
            f" partition dependents: {self.dependents}"
        )


class _Split:
    def __init__(self, m: GraphModule, names: dict[Node, str]) -> None:
        self.m, self.home = m, names
        self.nodes = {node.name: node for node in m.graph.nodes}
        self.parts: dict[str, Partition] = {}
        for node, name in names.items():
            self.parts.setdefault(name, Partition(name)).node_names.append(node.name)
        for node in m.graph.nodes:
            for used in node.all_input_nodes:
                if node in names or node.op == "output":
                    self._note(used, node)

    def _note(self, used: Node, by: Node) -> None:
        """Notes that a value goes from one part to another, from an input, or to the result."""
        source, target = self.home.get(used), self.home.get(by)
        if source == target:
            return
        if source is not None:
            self.parts[source].outputs.setdefault(used.name)
            if target is not None:
                self.parts[source].dependents.setdefault(target)
        if target is not None:
            self.parts[target].inputs.setdefault(used.name)
            if source is not None:
                self.parts[target].dependencies.setdefault(source)

    def in_order(self) -> list[str]:
        """Returns the parts, each after those that it depends on, in torch's order."""
        waits = {name: set(part.dependencies) for name, part in self.parts.items()}
        ready = [name for name in waits if not waits[name]]
        done: list[str] = []
        while ready:
            done.append(ready.pop())
            for name in self.parts[done[-1]].dependents:
                waits[name].discard(done[-1])
                if not waits[name]:
                    ready.append(name)
        if len(done) != len(self.parts):
            raise RuntimeError(
                "cycle exists between partitions! "
                f"{sorted(waits.keys() - set(done))} depend on each other"
            )
        return done

    def is_module(self, node: Node) -> bool:
        return node.op == "get_attr" and isinstance(_get_attr(self.m, node.target), Module)

    def add_inputs(self, part: Partition, keep_names: bool) -> None:
        """Gives a part its inputs; a module that a node reads becomes an attribute of the part."""
        given = sorted(part.inputs, key=lambda name: self.is_module(self.nodes[name]))
        part.inputs = {}
        for name in given:
            node = self.nodes[name]
            if self.is_module(node):
                part.targets[node.target] = _get_attr(self.m, node.target)
                new = part.graph.get_attr(node.target)
            else:
                shown = name if keep_names else f"arg_{len(part.inputs)}"
                new = part.graph.placeholder(shown, type_expr=node.type)
                part.inputs[name] = None
            new.meta = dict(node.meta)
            part.environment[node] = new

    def copy_nodes(self, qualname_map: dict[str, str] | None, keep_names: bool) -> None:
        for node, name in self.home.items():
            part = self.parts[name]
            target = node.target
            if node.op == "call_module":
                target = node.target.replace(".", "_")
                part.targets[target] = _get_attr(self.m, node.target)
                if qualname_map is not None:
                    qualname_map[f"{part.submod_name}.{target}"] = node.target
            new = part.graph.create_node(
                node.op,
                target,
                map_arg(node.args, part.environment.__getitem__),
                map_arg(node.kwargs, part.environment.__getitem__),
                node.name if keep_names else None,
                node.type,
            )
            new.meta = dict(node.meta)
            part.environment[node] = new


def split_module(
    m: GraphModule,
    root_m: Any,
    split_callback: Callable[[Node], Any],
    qualname_map: dict[str, str] | None = None,
    keep_original_order: bool | None = False,
    keep_original_node_name: bool | None = False,
    keep_original_input_name: bool = True,
    *,
    partition_affix: str | None = None,
    tuple_return: bool = False,
) -> GraphModule:
    """Returns a module with a submodule ``submod_NAME`` for each part of the nodes.

    Args:
        m: the module to split.
        root_m: no effect, as in torch.
        split_callback: returns the name of a node's part: a number, for example.
        qualname_map: a dict that gets the old path of each submodule by its new one.
        keep_original_order: calls parts in the order of their first nodes, else in one in which
            each follows those that it needs.
        keep_original_node_name: nodes keep their names.
        keep_original_input_name: inputs of parts have the names of the nodes, else ``arg_0`` ....
        partition_affix: makes the names ``submod_AFFIX_NAME``.
        tuple_return: parts with one result return a tuple, too.

    Raises:
        RuntimeError: two parts need each other.
        NotImplementedError: the graph enters autocast or changes the grad mode.
    """
    names: dict[Node, str] = {}
    for node in m.graph.nodes:
        if node.op in ("placeholder", "get_attr", "output"):
            continue
        if getattr(node.target, "__name__", "") in _STATEFUL:
            raise NotImplementedError(
                f"split_module(): node {node} calls {node.target.__name__}, whose effect would not "
                "reach nodes of other parts: trace a module without it"
            )
        name = str(split_callback(node))
        names[node] = name if partition_affix is None else f"{partition_affix}_{name}"
    split = _Split(m, names)
    order = split.in_order()
    for name in order:
        split.add_inputs(split.parts[name], keep_original_input_name)
    split.copy_nodes(qualname_map, bool(keep_original_node_name))
    made = _Base(split, bool(keep_original_node_name), tuple_return)
    if not keep_original_order:
        made.add(node for node in m.graph.nodes if node.op in ("placeholder", "get_attr"))
        return made.finish(order)
    made.add(node for node in m.graph.nodes if node.op == "placeholder")
    return made.finish(list(split.parts))


class _Base:
    """The module that calls the parts."""

    def __init__(self, split: _Split, keep_names: bool, tuple_return: bool) -> None:
        self.split, self.keep_names, self.tuple_return = split, keep_names, tuple_return
        self.graph = Graph()
        self.values: dict[str, Node] = {}
        self.attributes: dict[str, Any] = {}

    def add(self, nodes: Any) -> None:
        """Copies inputs, and nodes that read attributes, once each."""
        for node in nodes:
            if node.name in self.values:
                continue
            if node.op == "get_attr":
                new = self.graph.get_attr(node.target)
                self.attributes[node.target] = _get_attr(self.split.m, node.target)
            elif self.keep_names:
                new = self.graph.create_node(
                    "placeholder", node.target, node.args, {}, node.name, node.type
                )
            else:
                default = node.args[0] if node.args else inspect.Signature.empty
                kind = {} if default is inspect.Signature.empty else {"default_value": default}
                new = self.graph.placeholder(node.target, type_expr=node.type, **kind)
            new.meta = dict(node.meta)
            self.values[node.name] = new

    def finish(self, order: list[str]) -> GraphModule:
        """Calls the parts in this order and returns the module."""
        nodes = self.split.nodes
        for name in order:
            part = self.split.parts[name]
            results = tuple(part.environment[nodes[n]] for n in part.outputs)
            single = len(results) == 1 and not self.tuple_return
            part.graph.output(results[0] if single else results)
            self.add(nodes[n] for n in part.inputs if nodes[n].op == "get_attr")
            self.attributes[part.submod_name] = GraphModule(part.targets, part.graph)
            called = self.graph.call_module(
                part.submod_name, tuple(self.values[n] for n in part.inputs)
            )
            for i, n in enumerate(part.outputs):
                result: Any = Proxy(called)
                self.values[n] = called if single else result[i].node
        output = self.split.m.graph.output_node()
        self.add(n for n in output.all_input_nodes if n.op in ("placeholder", "get_attr"))
        self.graph.output(map_arg(output.args[0], lambda n: self.values[n.name]))
        made = GraphModule(self.attributes, self.graph)
        made.meta["partition_names"] = {p.submod_name for p in self.split.parts.values()}
        return made
