# SPDX-License-Identifier: BSD-3-Clause
"""FxGraphDrawer: writes traced graphs in Graphviz's DOT language."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cograd
from cograd.fx.graph_module import GraphModule
from cograd.fx.node import Node

__all__ = ["DotGraph", "FxGraphDrawer"]

_COLOURS = {
    "placeholder": "AliceBlue",
    "get_attr": "LightYellow",
    "call_module": "LemonChiffon1",
    "call_function": "Honeydew",
    "call_method": "LavenderBlush",
    "output": "PowderBlue",
}


class DotGraph:
    """A graph in the DOT language, with the methods of a ``pydot.Dot`` that save it.

    ``to_string()`` and ``write(path)`` need nothing else; pictures, as ``write_svg(path)``,
    ``create_png()`` and so on, are made by the program ``dot`` of Graphviz.
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def to_string(self) -> str:
        """Returns the text."""
        return self._text

    __str__ = to_string

    def create(self, format: str = "svg", prog: str = "dot") -> bytes:
        """Returns the picture as bytes.

        Raises:
            RuntimeError: Graphviz is not installed, or it fails.
        """
        program = shutil.which(prog)
        if program is None:
            raise RuntimeError(
                f"DotGraph.create(): the program '{prog}' is not on the path, so there is no "
                f"{format}: install Graphviz, or save the text by write(path)"
            )
        done = subprocess.run(
            [program, f"-T{format}"], input=self._text.encode(), capture_output=True, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"DotGraph.create(): {prog} failed: {done.stderr.decode().strip()}")
        return done.stdout

    def write(self, path: Any, prog: str = "dot", format: str = "raw") -> bool:
        """Writes the text, or a picture of that format, to a file. Raises as ``create`` does."""
        text = format in ("raw", "dot")
        Path(path).write_bytes(self._text.encode() if text else self.create(format, prog))
        return True

    def __getattr__(self, name: str) -> Any:
        kind, _, form = name.partition("_")
        if form in ("raw", "dot", "svg", "png", "pdf", "jpg"):
            if kind == "write":
                return lambda path, prog="dot": self.write(path, prog, form)
            if kind == "create" and form not in ("raw", "dot"):
                return lambda prog="dot": self.create(form, prog)
        raise AttributeError(f"'DotGraph' object has no attribute '{name}'")


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _cell(text: str) -> str:
    """Escapes what has a meaning in the label of a record."""
    return re.sub(r"([{}|<> \\])", r"\\\1", text)


def _shortened(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."


class FxGraphDrawer:
    """Draws a GraphModule, and each GraphModule that it calls.

    Args:
        graph_module: the module.
        name: the name of its graph.
        ignore_getattr: leave out nodes that read an attribute.
        ignore_parameters_and_buffers: leave out the parameters and buffers of called modules.
        skip_node_names_in_args: leave out of a label the arguments that are nodes: the edges show
            them.
        parse_stack_trace: write the line of the program that made each node.
        dot_graph_shape: the shape of nodes, "record" by default.
        normalize_args: accepted without effect: arguments are shown as they were passed.
    """

    def __init__(
        self,
        graph_module: GraphModule,
        name: str,
        ignore_getattr: bool = False,
        ignore_parameters_and_buffers: bool = False,
        skip_node_names_in_args: bool = True,
        parse_stack_trace: bool = False,
        dot_graph_shape: str | None = None,
        normalize_args: bool = False,
    ) -> None:
        if not isinstance(graph_module, GraphModule):
            raise TypeError(
                "FxGraphDrawer: expected a GraphModule, as symbolic_trace returns, got "
                f"{type(graph_module).__name__}"
            )
        self._name = name
        self._no_attributes = ignore_getattr
        self._no_parameters = ignore_parameters_and_buffers
        self._skip_nodes = skip_node_names_in_args
        self._lines = parse_stack_trace
        self._shape = dot_graph_shape or "record"
        self._graphs = {name: self._drawn(graph_module, name)}
        for target, module in _called(graph_module):
            key = f"{name}_{target}"
            self._graphs[key] = self._drawn(module, key)

    def get_dot_graph(self, submod_name: str | None = None) -> DotGraph:
        """Returns the graph of the module, or of a submodule that it calls."""
        return self._graphs[self._name if submod_name is None else f"{self._name}_{submod_name}"]

    def get_main_dot_graph(self) -> DotGraph:
        """Returns the graph of the module."""
        return self._graphs[self._name]

    def get_submod_dot_graph(self, submod_name: str) -> DotGraph:
        """Returns the graph of a submodule. Raises KeyError if there is none of that name."""
        return self._graphs[f"{self._name}_{submod_name}"]

    def get_all_dot_graphs(self) -> dict[str, DotGraph]:
        """Returns all graphs by name: the module's, and NAME_SUBMODULE for each submodule."""
        return dict(self._graphs)

    def _drawn(self, module: GraphModule, name: str) -> DotGraph:
        shown = [
            node
            for node in module.graph.nodes
            if not (self._no_attributes and node.op == "get_attr")
        ]
        lines = [f"digraph {_quoted(name)} {{", "rankdir=TB;"]
        for node in shown:
            style = f"shape={_quoted(self._shape)}, style=filled"
            fill = _COLOURS.get(node.op, "white")
            label = self._label(module, node)
            lines.append(f"{_quoted(node.name)} [label={label}, {style}, fillcolor={fill}];")
            if node.op == "call_module" and not self._no_parameters:
                lines += self._parameters(module, node)
        for node in shown:
            lines += [
                f"{_quoted(source.name)} -> {_quoted(node.name)};"
                for source in node.all_input_nodes
                if source in shown
            ]
        return DotGraph("\n".join([*lines, "}"]) + "\n")

    def _parameters(self, module: GraphModule, node: Node) -> Iterator[str]:
        child = module.get_submodule(str(node.target))
        if isinstance(child, GraphModule):
            return
        for key, tensor in (*child.named_parameters(), *child.named_buffers()):
            name = _quoted(f"{node.name}.{key}")
            text = f"{{{_cell(key)}|{_cell(_type(tensor))}}}"
            yield f"{name} [label={self._written(text)}, shape=record];"
            yield f"{name} -> {_quoted(node.name)};"

    @staticmethod
    def _written(label: str) -> str:
        return '"' + label.replace('"', '\\"').replace("\n", "\\n") + '"'

    def _label(self, module: GraphModule, node: Node) -> str:
        target = node.target if isinstance(node.target, str) else _qualified(node.target)
        rows = [f"name=%{node.name}", f"op_code={node.op}", f"target={target}"]
        if node.op == "call_module":
            rows.append(f"module={_qualified(type(module.get_submodule(str(node.target))))}")
        args = [a for a in node.args if not (self._skip_nodes and isinstance(a, Node))]
        named = {
            k: v for k, v in node.kwargs.items() if not (self._skip_nodes and isinstance(v, Node))
        }
        if args and node.op != "output":
            rows.append(f"args={', '.join(map(_shortened, args))}")
        rows += [f"{key}={_shortened(value)}" for key, value in named.items()]
        rows.append(f"num_users={len(node.users)}")
        described = node.meta.get("tensor_meta")
        if hasattr(described, "shape"):
            rows.append(_type(described))
        if self._lines and node.stack_trace:
            rows.append(node.stack_trace.strip().splitlines()[-1].strip())
        return self._written("{" + "|".join(map(_cell, rows)) + "}")


def _type(value: Any) -> str:
    return f"{str(value.dtype).rpartition('.')[2]}{list(value.shape)}"


def _qualified(value: Any) -> str:
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    return f"{getattr(value, '__module__', None) or cograd.__name__}.{name or value}"


def _called(module: GraphModule) -> Iterator[tuple[str, GraphModule]]:
    """Yields each submodule that the graph calls and that has a graph."""
    seen: set[str] = set()
    for node in module.graph.nodes:
        target = str(node.target)
        if node.op != "call_module" or target in seen:
            continue
        seen.add(target)
        child = module.get_submodule(target)
        if isinstance(child, GraphModule):
            yield target, child
