# SPDX-License-Identifier: BSD-3-Clause
"""Interpreter runs a graph node by node; Transformer makes a new graph on the way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cograd.fx import traceback as fx_traceback
from cograd.fx._tracer import Tracer
from cograd.fx.graph import Graph
from cograd.fx.graph_module import GraphModule
from cograd.fx.node import Node, map_aggregate, map_arg
from cograd.fx.proxy import Proxy
from cograd.nn import Module

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runs the nodes of a graph one after the other; subclasses override what each kind does.

    Args:
        module: the module that has the graph.
        garbage_collect_values: frees values after their last use.
        graph: another graph to run, with the attributes of ``module``.
    """

    def __init__(
        self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None
    ) -> None:
        self.module = module
        self.submodules = dict(module.named_modules())
        self.graph: Graph = graph if graph is not None else module.graph
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.user_to_last_uses: dict[Node, list[Node]] = {}
        if garbage_collect_values:
            seen: set[Node] = set()
            for node in reversed(self.graph.nodes):
                for used in node.all_input_nodes:
                    if used not in seen:
                        seen.add(used)
                        self.user_to_last_uses.setdefault(node, []).append(used)

    def run(
        self,
        *args: Any,
        initial_env: dict[Node, Any] | None = None,
        enable_io_processing: bool = True,
    ) -> Any:
        """Runs the graph.

        Args:
            initial_env: values of nodes that are not run.
            enable_io_processing: takes containers in the arguments apart as the graph says.

        Returns:
            The value of the output node.
        """
        self.env = dict(initial_env or {})
        if enable_io_processing:
            args = self.graph.process_inputs(*args)
        self.args_iter: Iterator[Any] = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    _explain(error, node)
                raise
            for used in self.user_to_last_uses.get(node, ()):
                self.env.pop(used, None)
            if node.op == "output":
                value = self.env[node]
                return self.graph.process_outputs(value) if enable_io_processing else value
        return None

    def boxed_run(self, args_list: list[Any]) -> Any:
        """Runs the graph and empties the list of arguments, so that they can be freed."""
        args = list(args_list)
        args_list.clear()
        return self.run(*args)

    @contextmanager
    def _set_current_node(self, node: Node) -> Iterator[None]:
        with fx_traceback.set_current_meta(node, f"Interpreter_{type(self).__name__}"):
            yield

    def run_node(self, n: Node) -> Any:
        """Runs one node and returns its value."""
        with self._set_current_node(n):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            if not isinstance(args, tuple):
                raise AssertionError(f"Expected args to be a tuple, got {type(args)}")
            return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Returns the next argument of ``run``, or the input's default."""
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(
                f"Expected positional argument for parameter {target}, but one was not passed in!"
            ) from None

    def get_attr(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Returns an attribute of the module."""
        return self.fetch_attr(target)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a function."""
        return target(*args, **kwargs)

    def call_method(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a method of the first argument."""
        owner, *rest = args
        return getattr(owner, target)(*rest, **kwargs)

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a submodule."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Returns the result."""
        return args[0]

    def fetch_attr(self, target: str) -> Any:
        """Returns the module's attribute at a dotted path."""
        found: Any = self.module
        parts = target.split(".")
        for i, part in enumerate(parts):
            if not hasattr(found, part):
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join(parts[: i + 1])}")
            found = getattr(found, part)
        return found

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the values of a node's arguments."""
        args = self.map_nodes_to_values(n.args, n)
        kwargs = self.map_nodes_to_values(n.kwargs, n)
        return args, kwargs

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        """Replaces the nodes in arguments by their values."""

        def load(node: Node) -> Any:
            if node not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {node}! Run Graph.lint() to diagnose "
                    "such issues"
                )
            return self.env[node]

        return map_arg(args, load)


def _explain(error: Exception, node: Node) -> None:
    """Adds the node to the message of an error."""
    said = f"While executing {node.format_node()}\nOriginal traceback:\n{node.stack_trace}"
    text = f"{error.args[0]}\n\n{said}" if error.args else said
    if isinstance(error, KeyError):  # it shows its message as a repr
        raise RuntimeError(text, *error.args[1:]) from error
    error.args = (text, *error.args[1:])


class Transformer(Interpreter):
    """An Interpreter whose values are proxies: it makes a new graph.

    Override ``call_function``, ``call_module`` and so on to change what is recorded.

    Args:
        module: the module to transform.
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)

        class TransformerTracer(Tracer):
            def __init__(self, graph: Graph) -> None:
                super().__init__()
                self.graph = graph
                self.root = module

            def is_leaf_module(self, _: Module, __: str) -> bool:
                return True

        self.tracer = TransformerTracer(self.new_graph)

    def placeholder(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Adds an input."""
        default = args[:1]
        node = self.new_graph.create_node("placeholder", target, tuple(default))
        return Proxy(node, self.tracer)

    def get_attr(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Adds a node that reads an attribute."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Adds a call of a submodule."""
        submodule = self.fetch_attr(target)
        return self.tracer.call_module(submodule, submodule.forward, args, kwargs)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Adds a call of a function."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """Runs the module on proxies; returns the module with the new graph."""
        with fx_traceback.preserve_node_meta():
            result = super().run(enable_io_processing=False)
        if result is not None:
            out = map_aggregate(result, lambda a: a.node if isinstance(a, Proxy) else a)
            old = self.graph.output_node()
            self.new_graph.output(out, old.type).meta = dict(old.meta)
        made = GraphModule(self.module, self.new_graph, self.module._get_name())
        return made
