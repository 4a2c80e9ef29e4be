# SPDX-License-Identifier: BSD-3-Clause
"""Turns a recording into an ONNX graph; writes into memory become new values."""

from __future__ import annotations

import inspect
from typing import Any

import cograd
from cograd._recording import Recording
from cograd.fx.node import Node
from cograd.onnx._ops import OPS
from cograd.onnx._writer import Value, Writer
from cograd.onnx.errors import OnnxExporterError, SymbolicValueError, UnsupportedOperatorError

__all__ = ["Converter"]

# Views that have the elements of their base in the same order.
_RESHAPES = frozenset(
    "view reshape unsqueeze squeeze flatten unflatten detach contiguous view_as ravel".split()
)


def name_of(node: Node) -> str:
    """Returns the name of the op that a node calls."""
    if node.target is getattr:
        return str(node.args[1])
    return str(getattr(node.target, "__name__", node.target))


def needed(recording: Recording) -> set[Node]:
    """Returns the nodes that the result depends on, through values or memory."""
    nodes = list(recording.graph.nodes)
    found: set[Node] = {nodes[-1]}
    roots: set[Node] = set()

    def root(node: Node) -> Node:
        while node.meta.get("view_of") is not None:
            node = node.meta["view_of"]
        return node

    while True:
        count = len(found)
        for node in reversed(nodes):
            writes = (n for n in node.meta.get("writes", ()) if not _is_state(n))
            if node in found or any(root(n) in roots for n in writes):
                found.add(node)
                found.update(node.all_input_nodes)
                roots.update(root(n) for n in [node, *node.all_input_nodes])
        if len(found) == count:
            return found


def _is_state(node: Node) -> bool:
    """Returns whether a written node is a statistic that batch norm keeps for itself."""
    return node.op == "get_attr" and all(
        name_of(user) in ("batch_norm", "instance_norm", "add_") for user in node.users
    )


class Converter:
    """Converts nodes one by one.

    Args:
        writer: where the ONNX graph goes.
        dims: called with a node and the place of a result, returns its sizes, None where they vary.
        known: called with a node, returns its value if it is a Python number that never varies.
        tensors: the parameters, buffers and constants by name.
        table: further conversions by name.
    """

    def __init__(self, writer: Writer, dims: Any, known: Any, tensors: Any, table: Any) -> None:
        self.writer, self._tensors, self._table = writer, tensors, table
        self._dims, self._known = dims, known
        self.values: dict[Node, Any] = {}
        self.needed: set[Node] = set()
        self._writes: dict[Node, int] = {}
        self._seen: dict[Node, int] = {}

    # Reading and writing memory.

    def _root(self, node: Node) -> Node:
        while node.meta.get("view_of") is not None:
            node = node.meta["view_of"]
        return node

    def read(self, node: Node) -> Any:
        """Returns the present value of a node; a view of memory written since is taken again."""
        node = node.meta.get("same", node)
        root = self._root(node)
        if node is not root and self._seen.get(node, 0) != self._writes.get(root, 0):
            self._seen[node] = self._writes[root]
            self.values[node] = self._again(node)
        return self.values[node]

    def _again(self, node: Node) -> Any:
        if node.meta.get("item") and isinstance(node.args[0].meta.get("val"), tuple):
            return self._call(node.args[0])[node.args[1]]
        return self._call(node)

    def write(self, node: Node, value: Value) -> None:
        """Sets the value of memory that a node is, or is a view of."""
        base = node.meta.get("view_of")
        if base is None:
            self._writes[node] = self._writes.get(node, 0) + 1
        else:
            old = self.read(base)
            self.write(base, self._written(base, node, old, value))
            self._seen[node] = self._writes[self._root(node)]
        self.values[node] = value

    def _written(self, base: Node, node: Node, old: Value, new: Value) -> Value:
        """Returns the base with the elements of a view replaced."""
        w = self.writer
        shape = w.emit("Shape", old)
        if name_of(node) in _RESHAPES:
            return Value(w.emit("Reshape", new, shape, allowzero=1), old.dtype, old.dims)
        flat = w.emit("Reshape", old, w.const([-1]))
        places = self._places(base, node, old)
        scattered = w.emit(
            "ScatterElements",
            flat,
            w.emit("Reshape", places, w.const([-1])),
            w.emit("Reshape", w.cast(new, old.dtype), w.const([-1])),
            axis=0,
        )
        return Value(w.emit("Reshape", scattered, shape, allowzero=1), old.dtype, old.dims)

    def _places(self, base: Node, node: Node, old: Value) -> Value:
        """Returns where the elements of a view are in its base."""
        kept, seen = self.values.get(base), self._seen.get(base)
        self.values[base] = self.writer.places(old)
        try:
            found: Value = self._again(node)
        finally:
            self.values[base] = kept
            if seen is not None:
                self._seen[base] = seen
        return Value(found.name, cograd.int64, found.dims)

    # Nodes.

    def convert(self, node: Node) -> None:
        """Adds what a node computes to the graph."""
        if node.op == "get_attr":
            self.values[node] = self._tensor(node)
            return
        if node.op == "output" or (node.op == "placeholder" and node not in self.values):
            return
        if node.meta.get("item"):
            source = self.values.get(node.args[0])
            if node not in self.values and source is not None:
                self.values[node] = source[node.args[1]]
            self._settle(node)
            return
        if node in self.values:
            return
        result = self._call(node)
        written = [n for n in node.meta.get("writes", ()) if not _is_state(n)]
        if written:
            self._store(node, written, result)
        else:
            self.values[node] = result
            self._settle(node)

    def _settle(self, node: Node) -> None:
        self._seen[node] = self._writes.get(self._root(node), 0)

    def _store(self, node: Node, written: list[Node], result: Any) -> None:
        results = result if isinstance(result, list) else [result]
        if len(results) != len(written):
            raise OnnxExporterError(f"onnx.export: {self._what(node)} writes several tensors")
        for target, value in zip(written, results, strict=True):
            w, goal = self.writer, target.meta["val"]
            old = self.read(target)
            name = w.cast(value, goal.dtype)
            if value.dims != old.dims or None in old.dims:
                name = w.emit("Expand", name, w.emit("Shape", old))
            self.write(target, Value(name, goal.dtype, old.dims))
        self.values[node] = [self.values[n] for n in written] if len(written) > 1 else result

    def _tensor(self, node: Node) -> Value:
        w, name = self.writer, str(node.target)
        tensor = self._tensors(name)
        if name not in w.initializers:
            w.initializers[name] = w.array(tensor, w.unique(name))
        stored = w.initializers[name].name
        return Value(stored, tensor.dtype, list(cograd.Tensor.size(tensor)))

    def _what(self, node: Node) -> str:
        file, line = node.meta.get("place", ("", 0))
        return f"{name_of(node)}()" + (f" at {file}:{line}" if file else "")

    def _find(self, node: Node) -> Any:
        name = name_of(node)
        plain = name[:-1] if name.endswith("_") and not name.endswith("__") else name
        for table in (self._table, OPS):
            for key in (node.target, name, plain):
                if key in table:
                    return table[key]
        raise UnsupportedOperatorError(
            f"onnx.export: no ONNX counterpart is known for the op {self._what(node)}"
        )

    def _plain(self, value: Any) -> Any:
        """Returns arguments with values in place of nodes."""
        if isinstance(value, Node):
            number = self._known(value)
            return self.read(value) if number is None else number
        if isinstance(value, (list, tuple)):
            items = [self._plain(item) for item in value]
            return items if isinstance(value, list) else tuple(items)
        if isinstance(value, dict):
            return {key: self._plain(item) for key, item in value.items()}
        if isinstance(value, slice):
            return slice(*(self._plain(part) for part in (value.start, value.stop, value.step)))
        return value

    def _call(self, node: Node) -> Any:
        """Converts a call and returns its value, or a list of values."""
        w, function = self.writer, self._find(node)
        args, kwargs = self._plain(node.args), self._plain(dict(node.kwargs))
        if node.target is getattr:
            args = args[:1]
        kwargs.pop("out", None)
        val: Any = node.meta.get("val")
        several = isinstance(val, tuple)
        w.dtypes = [_dtype(v) for v in (val if several else [val])]
        w.outs = self._dims(node)
        w.is_method = node.op == "call_method"
        w.second_used = any(
            u in self.needed for u in node.users if u.meta.get("item") and u.args[1] == 1
        )
        try:
            inspect.signature(function).bind(w, *args, **kwargs)
        except TypeError as error:
            raise UnsupportedOperatorError(
                f"onnx.export: {self._what(node)} has arguments that are not supported: {error}"
            ) from None
        try:
            names = function(w, *args, **kwargs)
        except SymbolicValueError as error:
            raise type(error)(f"{error} ({self._what(node)})") from None
        dtypes, outs = w.dtypes, w.outs
        if not several:
            return _value(names, dtypes[0], outs[0], isinstance(val, int))
        return [_value(*parts) for parts in zip(names, dtypes, outs, strict=False)]


def _dtype(val: Any) -> Any:
    return cograd.int64 if isinstance(val, int) else getattr(val, "dtype", None)


def _value(made: Any, dtype: Any, dims: Any, is_number: bool = False) -> Any:
    if made is None:
        return None
    if isinstance(made, Value):  # says its own dtype and sizes
        return made
    return Value(made, dtype, dims, is_number)
