# SPDX-License-Identifier: BSD-3-Clause
"""Records the calls of a function on example inputs."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable
from typing import Any

import cograd
from cograd import _C, Tensor
from cograd._recording.values import Traced, TracedInt, paused, place, set_active, warn
from cograd.fx.graph import Graph
from cograd.fx.node import Node, map_aggregate
from cograd.overrides import TorchFunctionMode

__all__ = ["Recording", "record"]

_OPERATORS: dict[str, Any] = {"__getitem__": operator.getitem, "__setitem__": operator.setitem}
_REFLECTED = {
    f"__r{name}__": getattr(operator, name)
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")
}
_REFLECTED |= {f"__r{n}__": getattr(operator, f"{n}_") for n in ("and", "or")}
_REFLECTED |= {f"__r{n}__": getattr(operator, n) for n in ("xor", "lshift", "rshift")}
_COMPARISONS = (
    "Converting a size to a Python boolean might cause the trace to be incorrect: the branch that "
    "the example inputs take is recorded."
)


class Recording:
    """Holds what a run called.

    Attributes:
        graph: the calls in order. ``meta`` of a node has ``val``, an example of its result on the
            meta device or nested tuples of them, ``writes``, the nodes whose memory it wrote,
            ``view_of``, the node whose memory the result shares, and ``place``, file and line.
        constants: the tensors by the names that the graph has for those without a name of theirs.
        result: what the function returned.
        inputs: the nodes of the tensors in the inputs, in order.
        warned: whether the program was warned that values became constants.
        by_name: the names of the inputs that were passed by name, in order.
        learned: the shapes of constants that require grad.
        comparisons: file, line and value of each size that the program compared.
    """

    def __init__(self) -> None:
        self.graph = Graph()
        self.constants: dict[str, Tensor] = {}
        self.inputs: list[Node] = []
        self.by_name: list[str] = []
        self.warned = False
        self.learned: list[tuple[int, ...]] = []
        self.comparisons: list[tuple[str, int, int]] = []
        self.result: Any = None


class _Calls(TorchFunctionMode):
    def __init__(self, recorder: _Recorder) -> None:
        self.recorder = recorder

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return self.recorder.call(func, args, kwargs or {})


class _Recorder:
    def __init__(
        self, names: dict[int, str], warn_of_sizes: bool, warn_of_numbers: bool, prefix: str
    ) -> None:
        self.made = Recording()
        self._names = names
        self._prefix = prefix
        self._nodes: dict[int, Node] = {}
        self._alive: list[Any] = []
        self._memory: dict[int, list[Tensor]] = {}
        self._sizes: dict[Any, Node] = {}
        self._constant: set[Node] = set()
        self._warn_of_sizes = warn_of_sizes
        self._warn_of_numbers = warn_of_numbers

    # Traced values call these.

    def size(self, tensor: Tensor, dim: int, value: int) -> TracedInt:
        """Returns a size that remembers its tensor."""
        return TracedInt.of(value, (tensor, dim))

    def compared(self, number: TracedInt, file: str, line: int) -> None:
        """Notes that the program compared a size."""
        self.made.comparisons.append((file, line, int(number)))
        if self._warn_of_sizes:
            warn(_COMPARISONS)

    def became_number(self, how: str) -> None:
        """Notes that a size became a number that the graph cannot trace back."""
        if self._warn_of_numbers:
            warn(f"{how} makes a plain number of a size, and the trace keeps it as a constant.")

    def is_constant(self, tensor: Tensor) -> bool:
        """Returns whether a tensor depends on no input."""
        return self._nodes.get(id(tensor)) in self._constant

    # Inputs.

    def placeholder(self, name: str, value: Any) -> Any:
        """Adds an input and returns what the function gets for it."""
        node = self.made.graph.placeholder(name)
        node.meta["leaf"] = False
        return self._input(node, value)

    def _input(self, node: Node, value: Any) -> Any:
        if isinstance(value, Tensor):
            node.meta["leaf"] = True
            copy = value.detach().clone(memory_format=cograd.preserve_format)
            traced = copy.as_subclass(Traced)
            self._know(traced, node)
            self.made.inputs.append(node)
            return traced
        if isinstance(value, (list, tuple)):
            items = [self._input(self._item(node, i), v) for i, v in enumerate(value)]
            return type(value)._make(items) if hasattr(value, "_make") else type(value)(items)
        if isinstance(value, dict):
            return {key: self._input(self._item(node, key), v) for key, v in value.items()}
        return value

    def _item(self, node: Node, key: Any) -> Node:
        item = self.made.graph.call_function(operator.getitem, (node, key))
        item.meta["item"] = True
        return item

    def _know(self, tensor: Tensor, node: Node) -> None:
        self._nodes[id(tensor)] = node
        self._alive.append(tensor)
        node.meta["val"] = Tensor.to(tensor, "meta") if not tensor.is_sparse else None
        node.meta.setdefault("place", place())
        self._memory.setdefault(_C._storage_key(tensor), []).append(tensor)

    # Arguments.

    def argument(self, value: Any) -> Any:
        """Returns what stands for ``value`` in the graph."""
        return map_aggregate(value, self._leaf)

    def _leaf(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self._tensor(value)
        if isinstance(value, TracedInt):
            return self._number(value)
        return value

    def _tensor(self, tensor: Tensor) -> Node:
        node = self._nodes.get(id(tensor))
        if node is not None:
            return node
        if id(tensor) not in self._names:
            for other in self._memory.get(_C._storage_key(tensor), ()):
                if _is_alias(tensor, other):
                    self._nodes[id(tensor)] = self._nodes[id(other)]
                    self._alive.append(tensor)
                    return self._nodes[id(tensor)]
                if tensor.numel() and self._nodes[id(other)].op != "get_attr":
                    raise RuntimeError(
                        f"trace: a tensor of shape {tuple(tensor.shape)} shares the memory of a "
                        "traced one, but was not made from it by an op that the trace sees"
                    )
        name = self._names.get(id(tensor))
        if name is None:
            name = f"_tensor{self._prefix}_constant{len(self.made.constants)}"
            if tensor.requires_grad:
                self.made.learned.append(tuple(Tensor.size(tensor)))
            self.made.constants[name] = tensor.detach().clone()
        node = self.made.graph.get_attr(name)
        self._constant.add(node)
        self._know(tensor, node)
        return node

    def _number(self, number: TracedInt) -> Node:
        first, *rest = number.source
        graph = self.made.graph
        if isinstance(first, Tensor):
            tensor = self._tensor(first)
            key: Any = (tensor, rest[0])
            if key not in self._sizes:
                self._sizes[key] = graph.call_method("size", (tensor, rest[0]))
        else:
            a, b = (self._leaf(value) for value in rest)
            key = (first, a, b)
            if key not in self._sizes:
                self._sizes[key] = graph.call_function(first, (a, b))
        node = self._sizes[key]
        node.meta.setdefault("val", int(number))
        node.meta.setdefault("place", place())
        return node

    # Calls.

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs a call and records it."""
        with paused():
            name = getattr(func, "__name__", "")
            tensors = list(_tensors((args, kwargs)))
            nodes = [self._tensor(tensor) for tensor in tensors]
            versions = [tensor._version for tensor in tensors]
            to_graph = self.argument((args, kwargs))
            with _C.DisableTorchFunction():
                result = func(*args, **kwargs)
            goals = _goals(name, args, kwargs)
            written = [
                node
                for node, tensor, old in zip(nodes, tensors, versions, strict=True)
                if tensor._version != old and (goals is None or id(tensor) in goals)
            ]
            found = list(_tensors(result))
            if not found and not written:
                if not isinstance(result, (list, tuple)) and type(result) in (bool, int, float):
                    self._warn_unless_constant(name, nodes, result)
                return result
            node = self._add(func, name, *to_graph)
            node.meta["writes"] = list(dict.fromkeys(written))
            if all(n in self._constant for n in nodes) and _repeats(name):
                self._constant.add(node)
            for changed in written:
                if node not in self._constant:
                    self._constant.discard(changed)
            return self._result(node, result, tensors)

    def _warn_unless_constant(self, name: str, nodes: list[Node], result: Any) -> None:
        if name in ("__len__", "dim", "is_contiguous", "element_size", "get_device"):
            return
        if not all(node in self._constant for node in nodes):
            warn(f"{name}() returned the Python value {result!r}, which the trace keeps.")

    def _add(self, func: Any, name: str, args: Any, kwargs: Any) -> Node:
        graph = self.made.graph
        owner = getattr(func, "__self__", None)
        if name == "__get__" and owner is not None:
            return graph.call_function(getattr, (args[0], owner.__name__))
        if name in ("__set__", "__delete__") and owner is not None:
            raise RuntimeError(f"trace: the attribute {owner.__name__} of a tensor was set")
        if name in _OPERATORS:
            return graph.call_function(_OPERATORS[name], args, kwargs)
        if name in _REFLECTED and len(args) == 2:
            return graph.call_function(_REFLECTED[name], args[::-1])
        if args and isinstance(args[0], Node) and getattr(Tensor, name, None) is func:
            return graph.call_method(name, args, kwargs)
        return graph.call_function(func, args, kwargs)

    def _result(self, node: Node, result: Any, tensors: list[Tensor]) -> Any:
        if isinstance(result, Tensor):
            known = id(result) in self._nodes
            if known and node.meta.get("writes"):
                node.meta["same"] = self._nodes[id(result)]
                node.meta["val"] = node.meta["same"].meta["val"]
                return result
            # An argument that comes back, as from contiguous(), may be a copy for other inputs.
            traced = result.as_subclass(Traced) if known or type(result) is Tensor else result
            self._know(traced, node)
            memory = _C._storage_key(result)
            shared = (t for t in tensors if _C._storage_key(t) == memory)
            base = next(shared, None)
            node.meta["view_of"] = None if base is None else self._nodes[id(base)]
            return traced
        if isinstance(result, (list, tuple)):
            node.meta["place"] = place()
            items = []
            for i, value in enumerate(result):
                item = self._item(node, i)
                if node in self._constant:
                    self._constant.add(item)
                items.append(self._result(item, value, tensors))
            node.meta["val"] = tuple(n.meta.get("val") for n in node.users)
            return _like(result, items)
        return result


def _goals(name: str, args: Any, kwargs: dict[str, Any]) -> set[int] | None:
    """Returns the tensors that a call writes, or None for whatever changed.

    Tensors that share memory share a version, so the version alone does not tell.
    """
    if kwargs.get("out") is not None:
        return {id(tensor) for tensor in _tensors(kwargs["out"])}
    if args and (name == "__setitem__" or (name.endswith("_") and not name.endswith("__"))):
        return {id(args[0])}
    return None


def _repeats(name: str) -> bool:
    """Returns whether a call without inputs computes the same again: not if it is random."""
    return not any(word in name for word in ("rand", "normal", "dropout", "bernoulli", "uniform"))


def _like(result: Any, items: list[Any]) -> Any:
    kind = type(result)
    if kind in (list, tuple):
        return kind(items)
    return kind._make(items) if hasattr(kind, "_make") else kind(items)


def _is_alias(a: Tensor, b: Tensor) -> bool:
    same = a.data_ptr() == b.data_ptr() and a.dtype == b.dtype
    return same and Tensor.size(a) == Tensor.size(b) and a.stride() == b.stride()


def _tensors(value: Any) -> Iterable[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif isinstance(value, slice):
        yield from _tensors((value.start, value.stop, value.step))


def _parameter_names(function: Any, args: Any, kwargs: Any) -> tuple[list[str], list[str]]:
    """Returns the names of the arguments by position, and those by name in their order."""
    target = getattr(function, "forward", function)
    try:
        signature = inspect.signature(target)
        bound = signature.bind_partial(*args)
    except (TypeError, ValueError):  # the call itself explains; a builtin has no signature
        return [f"input_{i}" for i in range(len(args))], list(kwargs)
    names: list[str] = []
    for name, value in bound.arguments.items():
        if signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
            names += [f"{name}_{i}" for i in range(len(value))]
        else:
            names.append(name)
    order = [name for name in signature.parameters if name in kwargs]
    return names, order + [name for name in kwargs if name not in order]


def record(
    function: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    root: Any = None,
    warn_of_sizes: bool = False,
    warn_of_numbers: bool = False,
    prefix: str = "",
) -> Recording:
    """Runs ``function`` once, without gradients, and records what it calls.

    Args:
        root: the module whose parameters and buffers the graph names.
        warn_of_sizes: whether comparing a size warns.
        warn_of_numbers: whether making a plain number of a size warns.
        prefix: what distinguishes the names of constants from those of other recordings.
    """
    kwargs = kwargs or {}
    named: dict[int, str] = {}
    if root is not None:
        for name, tensor in [*root.named_parameters(), *root.named_buffers()]:
            named.setdefault(id(tensor), name)
    recorder = _Recorder(named, warn_of_sizes, warn_of_numbers, prefix)
    names, order = _parameter_names(function, args, kwargs)
    recorder.made.by_name = order
    positional = [recorder.placeholder(n, value) for n, value in zip(names, args, strict=True)]
    by_name = {name: recorder.placeholder(name, kwargs[name]) for name in order}
    before = set_active(recorder)
    try:
        with cograd.no_grad(), _Calls(recorder):
            result = function(*positional, **by_name)
    finally:
        set_active(before)
    made = recorder.made
    made.result = result
    made.graph.output(recorder.argument(result))
    return made
