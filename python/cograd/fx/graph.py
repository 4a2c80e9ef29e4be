# SPDX-License-Identifier: BSD-3-Clause
"""A graph: a function as a list of nodes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cograd.fx import _codegen
from cograd.fx._codegen import CodeGen, PythonCode
from cograd.fx._names import Namespace, public, snake_case
from cograd.fx.node import Node, map_arg

if TYPE_CHECKING:
    from cograd.fx.graph_module import GraphModule

__all__ = ["CodeGen", "Graph", "PythonCode"]

_Namespace = Namespace
_snake_case = snake_case
_PyTreeCodeGen, _PyTreeInfo = _codegen.PyTreeCodeGen, _codegen.PyTreeInfo
_format_target, _custom_builtins = _codegen.format_target, _codegen.BUILTINS
_MISSING: Any = type("_Missing", (), {"__repr__": lambda self: "inspect.Signature.empty"})()


class _NodeList:
    """The nodes of a graph in order, as they are while one goes through them."""

    def __init__(self, graph: Graph, backward: bool = False) -> None:
        self.graph = graph
        self._backward = backward

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        step = "_prev" if self._backward else "_next"
        node = getattr(self.graph._root, step)
        while node is not self.graph._root:
            if not node._erased:
                yield node
            node = getattr(node, step)

    def __reversed__(self) -> Iterator[Node]:
        return iter(_NodeList(self.graph, not self._backward))


class _InsertPoint:
    """Sets where a graph inserts new nodes, until a with block ends."""

    def __init__(self, graph: Graph, new: Callable[[Node], None]) -> None:
        self.graph = graph
        self.orig_insert, graph._insert = graph._insert, new

    def __enter__(self) -> None:
        """Does nothing: the place counts from the call on."""

    def __exit__(self, *error: object) -> None:
        self.graph._insert = self.orig_insert


class Graph:
    """A function as nodes in the order of their execution.

    Args:
        owning_module: the module whose submodules and attributes the nodes name.
        tracer_cls: the class of the tracer that made the graph.
        tracer_extras: what that tracer needs to trace again.
    """

    def __init__(
        self,
        owning_module: GraphModule | None = None,
        tracer_cls: type | None = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:
        self._positions: dict[Node, int] | None = None
        self._root = Node(self, "", "root", "", (), {})
        self._len = 0
        self._insert: Callable[[Node], None] = self._root.prepend
        self._used_names: dict[str, int] = {}
        self._graph_namespace = Namespace()
        self._owners = 0
        self._owning_module = owning_module
        self._tracer_cls = tracer_cls
        self._tracer_extras = tracer_extras
        self._codegen = CodeGen()

    @property
    def owning_module(self) -> GraphModule | None:
        """The module that runs this graph; None if there is none, or several."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, module: GraphModule | None) -> None:
        self._owning_module = module

    @property
    def nodes(self) -> Any:
        """The nodes in order; nodes can be added and erased in a loop over them."""
        return _NodeList(self)

    def _order(self) -> dict[Node, int]:
        """Returns the place of each node, until nodes are added, moved or erased."""
        if self._positions is None:
            self._positions = {node: i for i, node in enumerate(self.nodes)}
        return self._positions

    def output_node(self) -> Node:
        """Returns the node of the result."""
        node: Node = next(iter(reversed(self.nodes)))
        if node.op != "output":
            raise AssertionError(f"Expected output node, got {node.op}")
        return node

    def find_nodes(self, *, op: str, target: Any = None, sort: bool = True) -> list[Node]:
        """Returns the nodes of this kind and target in order."""
        return [
            node
            for node in self.nodes
            if node.op == op and (target is None or node.target == target)
        ]

    # Adding nodes.

    def _target_to_str(self, target: Any) -> str:
        """Returns the start of the name of a node with this target."""
        if callable(target):
            name = getattr(target, "__name__", type(target).__name__)
            place = public(getattr(target, "__module__", None) or "").partition(".")[2]
            if place in ("fft", "linalg"):  # torch's own functions are called linalg_inv
                name = f"{place}_{name}"
        else:
            name = target
            if name.startswith("__") and name.endswith("__"):  # a method such as __getitem__
                name = name[2:-2]
        return snake_case(name)

    def create_node(
        self,
        op: str,
        target: Any,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Adds a node at the place where nodes are inserted, by default before the end."""
        args = () if args is None else args
        kwargs = {} if kwargs is None else kwargs
        if not isinstance(args, tuple):
            raise AssertionError(f"args must be a tuple, got {type(args)}")
        if not isinstance(kwargs, dict):
            raise AssertionError(f"kwargs must be a dict, got {type(kwargs)}")
        candidate = name if name is not None else self._target_to_str(target)
        node = Node(self, candidate, op, target, args, kwargs, type_expr)
        node.name = self._graph_namespace.create_name(candidate, None)
        self._graph_namespace.associate_name_with_obj(node.name, node)
        self._insert(node)
        self._len += 1
        for hook in getattr(self.owning_module, "_create_node_hooks", ()):
            hook(node)
        return node

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = _MISSING) -> Node:
        """Adds an input."""
        args = () if default_value is _MISSING else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """Adds a node that reads an attribute of the module, ``layer.weight`` for example."""
        if self.owning_module is not None and not _reaches(self.owning_module, qualified_name):
            warnings.warn(
                "Attempted to insert a get_attr Node with no underlying reference in the owning "
                "GraphModule! Call GraphModule.add_submodule to add the necessary submodule, "
                "GraphModule.add_parameter to add the necessary Parameter, or "
                "nn.Module.register_buffer to add the necessary buffer",
                stacklevel=2,
            )
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Adds a call of the submodule ``module_name``."""
        if self.owning_module is not None:
            self.owning_module.get_submodule(module_name)  # raises if there is none
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Adds a call of the method ``method_name`` of ``args[0]``."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        type_expr: Any = None,
        name: str | None = None,
    ) -> Node:
        """Adds a call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result: Any, type_expr: Any = None) -> Node:
        """Adds the node that returns ``result``."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda x: x) -> Node:
        """Adds a copy of a node, of this graph or another one.

        Args:
            arg_transform: returns the node of this graph for one in the arguments.
        """
        args = map_arg(node.args, arg_transform)
        kwargs = map_arg(node.kwargs, arg_transform)
        copied = self.create_node(
            node.op, node.target, tuple(args), dict(kwargs), node.name, node.type
        )
        copied.meta = dict(node.meta)
        return copied

    def graph_copy(
        self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False
    ) -> Any:
        """Adds copies of all nodes of ``g`` but those in ``val_map``, which gets them.

        Returns:
            The result of ``g`` as this graph has it; with its output node if that is asked for.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Graph:
        """Copies the nodes; functions and modules that they name are shared."""
        made = Graph(tracer_cls=self._tracer_cls, tracer_extras=self._tracer_extras)
        val_map: dict[Node, Node] = {}
        copied = made.graph_copy(self, val_map, return_output_node=True)
        made._codegen = self._codegen
        if memo is not None:
            memo[id(self)] = made
        if copied is not None:
            result, old = copied
            made.output(result, old.type).meta = dict(old.meta)
        return made

    # These methods decide where nodes go and which ones stay.

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """Makes new nodes go before ``n``, or before all; for a with block, or from now on."""
        if n is None:
            return self.inserting_after(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert before is not in graph.")
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """Makes new nodes go after ``n``, or after all; for a with block, or from now on."""
        if n is None:
            return self.inserting_before(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert after is not in graph.")
        return _InsertPoint(self, n.append)

    def erase_node(self, to_erase: Node) -> None:
        """Removes a node that has no users.

        Raises:
            RuntimeError: it has users.
        """
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} "
                f"users in the graph: {to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            warnings.warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        for hook in getattr(self.owning_module, "_erase_node_hooks", ()):
            hook(to_erase)
        to_erase._unlink()
        to_erase._erased = True
        self._len -= 1
        to_erase._set_arguments((), {})

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Erases nodes without users, but not those that do something else.

        Args:
            is_impure_node: says which to keep; ``Node.is_impure`` by default. In-place calls stay,
                while torch erases them.

        Returns:
            Whether a node was erased.
        """
        self.lint()
        keep = is_impure_node or Node.is_impure
        before = self._len
        for node in reversed(self.nodes):
            if not node.users and node.op not in ("placeholder", "output") and not keep(node):
                self.erase_node(node)
        return self._len < before

    def lint(self) -> None:
        """Checks the order of nodes, their arguments and the attributes that they name.

        Raises:
            RuntimeError: a check failed.
        """
        seen: dict[Node, None] = {}
        names: set[str] = set()
        for node in self.nodes:
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            for arg in node._input_nodes:
                self._check_argument(arg, node, seen)
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            seen[node] = None
            names.add(node.name)
        if self.owning_module is not None:
            for node in seen:
                if node.op in ("get_attr", "call_module"):
                    self._check_target(node)

    def _check_argument(self, arg: Node, node: Node, seen: dict[Node, None]) -> None:
        if arg.graph is not self:
            raise RuntimeError(
                f"Argument '{arg}' of Node '{node}' does not belong to this Graph, but was used as "
                "an argument! If you are copying nodes from another graph, make sure to use "
                f"``arg_transform`` on node_copy() to remap values\n{self}"
            )
        if arg not in seen:
            raise RuntimeError(
                f"Argument '{arg}' of Node '{node}' was used before it has been defined! Please "
                f"check that Nodes in the graph are topologically ordered\n{self}"
            )

    def _check_target(self, node: Node) -> None:
        where: Any = self.owning_module
        for part in node.target.split("."):
            if not hasattr(where, part):
                raise RuntimeError(
                    f"Node {node} target {node.target} references nonexistent attribute {part} of "
                    f"{type(where).__name__}"
                )
            where = getattr(where, part)
        if node.op == "call_module" and not callable(where):
            raise RuntimeError(
                f"Node {node} target {node.target} references a {type(where).__name__}, which is "
                "no module"
            )

    # Text and code.

    def __str__(self) -> str:
        return "graph():" + "".join(f"\n    {node.format_node()}" for node in self.nodes)

    def print_tabular(self) -> None:
        """Prints the nodes as a table."""
        rows = [[n.op, n.name, n.target, n.args, n.kwargs] for n in self.nodes]
        head = ["opcode", "name", "target", "args", "kwargs"]
        shown = [head, *([str(cell) for cell in row] for row in rows)]
        widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
        shown.insert(1, ["-" * width for width in widths])
        for row in shown:
            padded = zip(row, widths, strict=True)
            print("  ".join(cell.ljust(width) for cell, width in padded).rstrip())

    def python_code(
        self,
        root_module: str,
        *,
        verbose: bool = False,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        expanded_def: bool = False,
        record_func: bool = False,
        additional_meta: list[str] | None = None,
    ) -> PythonCode:
        """Returns the source of this graph's function, and the globals that it needs.

        Args:
            root_module: what the module is called in it: ``self``.
            verbose: adds comments on where nodes come from, and known shapes.
            include_stride, include_device, colored, record_func, additional_meta: no effect.
        """
        namespace = Namespace()
        before = {node: node._repr_fn for node in self.nodes}
        for node in self.nodes:
            node._repr_fn = lambda n: namespace.create_name(n.name, n)
        try:
            return self._codegen._gen_python_code(
                self.nodes, root_module, namespace, verbose=verbose, expanded_def=expanded_def
            )
        finally:
            for node, function in before.items():
                node._repr_fn = function

    def set_codegen(self, codegen: CodeGen) -> None:
        """Lets ``codegen`` write this graph's source."""
        self._codegen = codegen

    def on_generate_code(self, make_transformer: Callable[[Any], Any]) -> Any:
        """Changes how source is written, for a with block or from now on.

        Args:
            make_transformer: gets the present function from lines to lines, or None, and returns
                the new one.
        """
        before = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(before)

        @contextmanager
        def undo() -> Iterator[None]:
            try:
                yield
            finally:
                self._codegen._body_transformer = before

        return undo()

    def process_inputs(self, *args: Any) -> Any:
        """Returns the values of the inputs for arguments of the function."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """Returns the function's result for the value of the output node."""
        return self._codegen.process_outputs(out)


def _reaches(module: Any, path: str) -> bool:
    """Returns whether a module has this attribute."""
    for part in path.split("."):
        if not hasattr(module, part):
            return False
        module = getattr(module, part)
    return True
