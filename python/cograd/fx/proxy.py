# SPDX-License-Identifier: BSD-3-Clause
"""Proxies: values that record what a program does with them as nodes of a graph."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import operator
import sys
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dis import Instruction, get_instructions
from enum import Enum
from typing import Any, NoReturn

import cograd
from cograd.fx import _overridable
from cograd.fx import traceback as fx_traceback
from cograd.fx._names import is_own
from cograd.fx.graph import Graph
from cograd.fx.node import Node, base_types, map_aggregate
from cograd.fx.operator_schemas import check_for_mutable_operation

__all__ = [
    "Attribute",
    "GraphAppendingTracer",
    "ParameterProxy",
    "Proxy",
    "Scope",
    "ScopeContextManager",
    "TraceError",
    "TracerBase",
]


class Scope:
    """Names the running module: its path and its type."""

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path = module_path
        self.module_type = module_type


class ScopeContextManager:
    """Makes ``scope`` say what ``current_scope`` says, for a with block."""

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._before = (scope.module_path, scope.module_type)
        scope.module_path = current_scope.module_path
        scope.module_type = current_scope.module_type
        self._scope = scope

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *args: object) -> None:
        self._scope.module_path, self._scope.module_type = self._before


class TraceError(ValueError):
    """A program needs the value of a proxy, which has none."""


_CONTROL_FLOW = "symbolically traced variables cannot be used as inputs to control flow"
_NO_ITERATION = (
    "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as "
    "a *args or **kwargs function argument. See the torch.fx docs on pytorch.org for a more "
    "detailed explanation of what types of control flow can be traced, and check out the Proxy "
    "docstring for help troubleshooting Proxy iteration errors"
)


class TracerBase:
    """Makes nodes for what happens to proxies; subclasses decide what to record."""

    graph: Graph
    record_stack_traces = False
    _record_forward_stack_traces_only = False
    check_mutable_operations = False
    trace_asserts = False
    proxy_buffer_attributes = False
    traced_func_name = "forward"

    def __init__(self) -> None:
        self.scope = Scope("", None)
        self.module_stack: OrderedDict[str, tuple[str, Any]] = OrderedDict()
        self.node_name_to_scope: dict[str, tuple[str, Any]] = {}

    def create_node(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Adds a node to the graph. Override it to see or change every node."""
        if kind == "call_function" and self.check_mutable_operations:
            check_for_mutable_operation(target, args, kwargs)
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        scope = getattr(self, "scope", None)
        if scope is not None:
            self.node_name_to_scope[node.name] = (scope.module_path, scope.module_type)
        if fx_traceback.has_preserved_node_meta():
            node.meta.update(fx_traceback.get_current_meta())
        elif "custom" in fx_traceback.current_meta:
            node.meta["custom"] = fx_traceback.current_meta["custom"]
        if getattr(self, "module_stack", None):
            node.meta["nn_module_stack"] = OrderedDict(self.module_stack)
        if self.record_stack_traces and not node.stack_trace:
            node.stack_trace = _user_stack()
        return node

    def proxy(self, node: Node) -> Proxy:
        """Returns the proxy for a node. Override it to use a subclass of Proxy."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        """Adds a node whose arguments may have proxies; returns its proxy."""
        made_args, made_kwargs = self.create_arg(args), self.create_arg(kwargs)
        if not isinstance(made_args, tuple):
            raise AssertionError(f"Expected args_ to be tuple, got {type(made_args)}")
        node = self.create_node(kind, target, made_args, made_kwargs, name, type_expr)
        return (proxy_factory_fn or self.proxy)(node)

    def create_arg(self, a: Any) -> Any:
        """Returns an argument of a call as a node can have it. Override it to accept more types.

        Raises:
            NotImplementedError: nodes cannot have such an argument.
        """
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            parts = tuple(self.create_arg(part) for part in a)
            if hasattr(a, "_fields"):
                return self.create_node("call_function", type(a), parts, {})
            return type(a)(parts)
        if isinstance(a, list):
            return [self.create_arg(part) for part in a]
        if isinstance(a, dict):
            return {self._key(key): self.create_arg(part) for key, part in a.items()}
        if isinstance(a, slice):
            return slice(*map(self.create_arg, (a.start, a.stop, a.step)))
        if isinstance(a, range):
            return range(*map(self.create_arg, (a.start, a.stop, a.step)))
        if dataclasses.is_dataclass(a) and not isinstance(a, type):
            fields = dataclasses.fields(a)
            named = {f.name: self.create_arg(getattr(a, f.name)) for f in fields}
            return self.create_node("call_function", type(a), (), named)
        if isinstance(a, (*base_types, Enum, bytes)) or a is None or a is ...:
            return a
        if isinstance(a, Node):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def _key(self, key: Any) -> Any:
        made = self.create_arg(key)

        def refuse(value: Any) -> Any:
            if isinstance(value, Node):
                raise RuntimeError(
                    "Keys for dictionaries used as an argument cannot contain a Node. Got key: "
                    f"{key.node if isinstance(key, Proxy) else key}"
                )
            return value

        map_aggregate(made, refuse)
        return made

    def to_bool(self, obj: Proxy) -> bool:
        """Called when a proxy is used as a condition. Override it to return a value."""
        raise TraceError(_CONTROL_FLOW)

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """Called when a proxy is iterated over. Override it to return an iterator."""
        raise TraceError(_NO_ITERATION)

    def keys(self, obj: Proxy) -> Any:
        """Called by ``**proxy`` and ``proxy.keys()``. Override it to return the keys."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """The tracer of proxies that a program makes from nodes."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph


def assert_fn(x: object) -> None:
    """Raises AssertionError unless ``x`` is true; traced asserts call it."""
    if not x:
        raise AssertionError("Assertion failed")


class Proxy:
    """A value of a traced program: operations on it become nodes.

    Operators, methods, attributes and calls of this package's functions with a proxy anywhere in
    the arguments return proxies. A program that needs the value stops: a condition or a loop over
    a proxy raises TraceError. Two values unpacked from one proxy (``a, b = proxy``) are recorded.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Proxy:
        made = object.__new__(cls)
        _overridable.count(1, _record)
        return made

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at exit, modules may be empty already
            _overridable.count(-1, _record)

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        if tracer is None:
            tracer = GraphAppendingTracer(node.graph)
        self.tracer = tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Attribute:
        if k in ("node", "tracer") or (k.startswith("__") and k.endswith("__")):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{k}'")
        return Attribute(self, k)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, d: dict[str, Any]) -> None:
        self.__dict__ = d

    def __deepcopy__(self, memo: dict[int, Any]) -> Proxy:
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Proxy]:
        count = _unpacked(sys._getframe(1))
        if count:
            return (operator.getitem(self, i) for i in range(count))
        return self.tracer.iter(self)

    def __abs__(self) -> Proxy:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts and _asserted(sys._getframe(1)):
            self.tracer.create_proxy("call_function", assert_fn, (self,), {})
            return True
        return self.tracer.to_bool(self)

    def keys(self) -> Any:
        """Returns what the tracer's ``keys`` returns."""
        return self.tracer.keys(self)

    def __len__(self) -> NoReturn:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be "
            "recorded, please call torch.fx.wrap('len') at module scope"
        )

    @classmethod
    def __torch_function__(
        cls, orig_method: Any, types: Any, args: Any = None, kwargs: Any = None
    ) -> Proxy:
        """Records the call of a function or method of this package."""
        args, kwargs = args or (), kwargs or {}
        tracers: dict[TracerBase, None] = {}

        def find(value: Any) -> None:
            if isinstance(value, Proxy):
                tracers[value.tracer] = None

        map_aggregate(args, find)
        map_aggregate(kwargs, find)
        if len(tracers) > 1:
            raise RuntimeError(
                f"Found multiple different tracers {list(tracers)} while trying to trace "
                f"operations {orig_method}"
            )
        tracer = next(iter(tracers))
        name = getattr(orig_method, "__name__", "")
        if name == "__get__":
            owner = orig_method.__self__
            return tracer.create_proxy("call_function", getattr, (*args, owner.__name__), {})
        if getattr(cograd.Tensor, name, None) is orig_method:
            return tracer.create_proxy("call_method", name, args, kwargs)
        return tracer.create_proxy("call_function", orig_method, args, kwargs)


def _record(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Records a call of one of this package's Python functions if a proxy is an argument."""
    found = _overridable.find(Proxy, (args, kwargs))
    if found is None:
        return NotImplemented
    return type(found).__torch_function__(function, (type(found),), args, kwargs)


class Attribute(Proxy):
    """An attribute of a proxy: a call of it is a method call, any other use reads it."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root = root
        self.attr = attr
        self.tracer = root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node that reads the attribute; made at the first use."""
        if self._node is None:
            read = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {})
            self._node = read.node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """The proxy of a parameter, whose shape is known (``param_shapes_constant``)."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Any) -> None:
        super().__init__(node, tracer)
        if not isinstance(param, cograd.nn.Parameter):
            raise AssertionError(f"Expected Parameter, got {type(param)}")
        self.param = param
        self.name = name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> cograd.Size:
        """The parameter's shape."""
        return self.param.shape

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return int(self.param.ndim)

    def size(self, *dim: int) -> Any:
        """Returns the shape, or the size of a dim."""
        return self.param.size(*dim)

    def dim(self) -> int:
        """Returns the number of dims."""
        return int(self.param.dim())

    def numel(self) -> int:
        """Returns the number of elements."""
        return int(self.param.numel())

    nelement = numel


def _next_instruction(frame: Any) -> Instruction | None:
    """Returns the instruction of a frame that is running."""
    return next((i for i in get_instructions(frame.f_code) if i.offset == frame.f_lasti), None)


def _unpacked(frame: Any) -> int:
    """Returns how many values the running instruction unpacks; 0 if it is another one."""
    found = _next_instruction(frame)
    return int(found.arg or 0) if found is not None and found.opname == "UNPACK_SEQUENCE" else 0


def _asserted(frame: Any) -> bool:
    """Returns whether the running instruction is the condition of an assert."""
    code = list(get_instructions(frame.f_code))
    at = next((n for n, i in enumerate(code) if i.offset == frame.f_lasti), -1)
    at += at >= 0 and code[at].opname == "COMPARE_OP"  # it tests its result from Python 3.13 on
    rest = [i for i in code[max(at, 0) :] if i.opname not in ("CACHE", "TO_BOOL", "NOT_TAKEN")]
    if at < 0 or len(rest) < 2 or not rest[0].opname.endswith("IF_TRUE"):
        return False
    return rest[1].opname == "LOAD_ASSERTION_ERROR" or rest[1].argval is AssertionError


def _user_stack() -> str:
    """Returns the stack of the traced program, without this package's frames."""
    frames = []
    frame = inspect.currentframe()
    while frame is not None:
        if not is_own(frame.f_globals.get("__name__", "")):
            frames.append((frame, frame.f_lineno))
        frame = frame.f_back
    summary = traceback.StackSummary.extract(reversed(frames))
    return "".join(summary.format()).strip()


def _forward(name: str) -> Any:
    function = getattr(operator, name if hasattr(operator, name) else f"{name}_")

    def method(*args: Any) -> Any:
        return args[0].tracer.create_proxy("call_function", function, args, {})

    method.__name__ = f"__{name}__"
    return method


def _reflected(name: str) -> Any:
    function = getattr(operator, name if hasattr(operator, name) else f"{name}_")

    def method(self: Proxy, rhs: Any) -> Proxy:
        return self.tracer.create_proxy("call_function", function, (rhs, self), {})

    method.__name__ = f"__r{name}__"
    return method


_REFLECTED = "add sub mul floordiv truediv mod pow lshift rshift and or xor matmul".split()
for _name in [*_REFLECTED, *"eq ne lt gt le ge pos neg invert getitem".split()]:
    setattr(Proxy, f"__{_name}__", _forward(_name))
for _name in _REFLECTED:
    setattr(Proxy, f"__r{_name}__", _reflected(_name))
Proxy.__hash__ = object.__hash__  # type: ignore[method-assign]
del _name
