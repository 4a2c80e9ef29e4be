# SPDX-License-Identifier: BSD-3-Clause
"""Tracer: runs a module or a function on proxies and records a graph."""

from __future__ import annotations

import builtins
import collections
import functools
import inspect
import math
import operator
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any

import cograd
from cograd._functions.checks import _assert
from cograd.fx import _overridable
from cograd.fx._codegen import PyTreeCodeGen, PyTreeInfo
from cograd.fx._names import is_own
from cograd.fx._pytree import pytree
from cograd.fx.graph import Graph
from cograd.fx.node import Node, base_types
from cograd.fx.proxy import ParameterProxy, Proxy, Scope, ScopeContextManager, TracerBase
from cograd.nn import Module, Parameter, Sequential

__all__ = ["PH", "PHBase", "ProxyableClassMeta", "Tracer", "is_fx_tracing", "wrap"]

# Functions that wrap() named, by the id of the globals that have them; methods of classes.
_wrapped_fns_to_patch: dict[tuple[int, str], dict[str, Any]] = {}
_wrapped_methods_to_patch: list[tuple[type, str]] = []
_WRAPPED_HERE = "__fx_wrapped__"  # in the globals of generated code: its wrapped functions
_State = type("_State", (), {"tracing": 0})


def is_fx_tracing() -> bool:
    """Returns whether a Tracer is running."""
    return bool(_State.tracing > 0)  # type: ignore[attr-defined]


is_fx_symbolic_tracing = is_fx_tracing


class PHBase:
    """The type of the placeholder ``PH``."""

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()


class ProxyableClassMeta(type):
    """A metaclass whose instances a traced program can make and pass on: the call is recorded."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        instance: Any = cls.__new__(cls)  # type: ignore[call-overload]
        if is_fx_tracing():
            found = _overridable.find(Proxy, (args, kwargs))
            if found is not None:
                return found.tracer.create_proxy("call_function", cls, args, kwargs)
        cls.__init__(instance, *args, **kwargs)  # type: ignore[misc]
        return instance


def _recording(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that records calls with proxies and makes the others."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        found = _overridable.find(Proxy, (args, kwargs))
        if found is None:
            return function(*args, **kwargs)
        made = found.tracer.create_proxy("call_function", function, args, kwargs)
        made.node.meta["is_wrapped"] = True
        return made

    return wrapped


def _recording_method(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        found = _overridable.find(Proxy, (args, kwargs))
        if found is None:
            return function(*args, **kwargs)
        return found.tracer.create_proxy("call_method", name, args, kwargs)

    return wrapped


def wrap(fn_or_name: Any) -> Any:
    """Makes traces record the calls of a function instead of entering it.

    Call it at the top level of the module that has the function, or use it as a decorator there.

    Args:
        fn_or_name: a function, or the name of a function or builtin that the module calls.

    Returns:
        The argument.
    """
    if not (callable(fn_or_name) or isinstance(fn_or_name, str)):
        raise RuntimeError(
            "Unsupported type for global function! Must be either a callable or string name"
        )
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = sys._getframe(1)
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    if frame.f_code.co_filename.startswith("<eval_with_key>"):  # it comes and goes
        frame.f_globals.setdefault(_WRAPPED_HERE, {})[name] = None
    else:
        _wrapped_fns_to_patch[(id(frame.f_globals), name)] = frame.f_globals
    return fn_or_name


class _Patcher:
    """Replaces values in dicts and attributes until a with block ends."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], Any]] = []
        self.visited: set[int] = set()

    def patch(
        self, frame_dict: dict[str, Any], name: str, new_fn: Any, deduplicate: bool = True
    ) -> None:
        """Sets ``frame_dict[name]``."""
        if name in frame_dict:
            self._undo.append(functools.partial(frame_dict.__setitem__, name, frame_dict[name]))
        else:
            self._undo.append(functools.partial(frame_dict.pop, name, None))
        frame_dict[name] = new_fn

    def patch_method(self, cls: type, name: str, new_fn: Any, deduplicate: bool = True) -> None:
        """Sets an attribute of a class."""
        self._undo.append(functools.partial(setattr, cls, name, getattr(cls, name)))
        setattr(cls, name, new_fn)

    def visit_once(self, thing: Any) -> bool:
        """Returns whether this is the first call with ``thing``."""
        first = id(thing) not in self.visited
        self.visited.add(id(thing))
        return first

    def __enter__(self) -> _Patcher:
        return self

    def __exit__(self, *error: object) -> None:
        while self._undo:
            self._undo.pop()()


def _patch_wrapped_functions(patcher: _Patcher) -> None:
    """Replaces the functions and methods that wrap() named."""
    for (_, name), names in list(_wrapped_fns_to_patch.items()):
        found = names.get(name, getattr(builtins, name, None))
        if found is not None:
            patcher.patch(names, name, _recording(found))
    for cls, name in _wrapped_methods_to_patch:
        patcher.patch_method(cls, name, _recording_method(getattr(cls, name), name))


def _autowrap_check(patcher: _Patcher, names: dict[str, Any], function_ids: set[int]) -> None:
    """Replaces the globals that name one of these functions."""
    if not patcher.visit_once(names):
        return
    for name, value in list(names.items()):
        if not name.startswith("_") and id(value) in function_ids:
            patcher.patch(names, name, _recording(value))
    for name in names.get(_WRAPPED_HERE, ()):
        found: Any = names.get(name, getattr(builtins, name, None))
        patcher.patch(names, name, _recording(found))


_orig_module_call, _orig_module_getattr = Module.__call__, Module.__getattr__


class Tracer(TracerBase):
    """Records what a module's ``forward`` or a function does.

    Args:
        autowrap_modules: modules of Python whose functions are recorded where a global names them.
        autowrap_functions: functions for which the same holds.
        param_shapes_constant: shapes of parameters are numbers instead of nodes.
    """

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        super().__init__()
        self._autowrap_function_ids = {
            id(value)
            for module in autowrap_modules
            for name, value in vars(module).items()
            if not name.startswith("_") and callable(value)
        } | {id(function) for function in autowrap_functions}
        self._autowrap_search = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Any, str] | None = None
        self.root_module_name = ""
        self.tensor_attrs: dict[Any, str] = {}
        self.root: Any = None
        self._qualname_counter: dict[str, int] = collections.defaultdict(int)

    def get_fresh_qualname(self, prefix: str) -> str:
        """Returns the first of ``prefix0``, ``prefix1`` ... that the module does not have."""
        i = self._qualname_counter[prefix]
        while hasattr(self.root, f"{prefix}{i}"):
            i += 1
        self._qualname_counter[prefix] = i + 1
        return f"{prefix}{i}"

    def create_arg(self, a: Any) -> Any:
        """Returns an argument as a node can have it; tensors become attributes of the module."""
        if isinstance(a, Parameter):
            for name, parameter in self.root.named_parameters():
                if a is parameter:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        if isinstance(a, cograd.Tensor):
            for name, buffer in self.root.named_buffers():
                if a is buffer:
                    return self.create_node("get_attr", name, (), {})
            return self._constant(a, "_tensor_constant")
        if type(type(a)) is ProxyableClassMeta or isinstance(type(a), ProxyableClassMeta):
            return self._constant(a, f"_{type(a).__name__}_constant_")
        return super().create_arg(a)

    def _constant(self, value: Any, prefix: str) -> Node:
        """Returns a node that reads ``value``, which becomes an attribute unless it is one."""
        known = self.tensor_attrs.get(value)
        if known is None:
            known = self.get_fresh_qualname(prefix)
            self.tensor_attrs[value] = known
            setattr(self.root, known, value)
        return self.create_node("get_attr", known, (), {})

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Returns whether calls of ``m`` are recorded; the trace enters other modules.

        By default, modules of ``nn`` are recorded, but not Sequential.
        """
        place = m.__module__.split(".")
        library = is_own(m.__module__) and place[1:2] in (["nn"], ["ao"])
        return library and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """Returns the name of a submodule.

        Raises:
            NameError: it is not a submodule of the traced one.
        """
        if self.submodule_paths:
            path = self.submodule_paths.get(mod)
            if path is None:
                raise NameError("module is not installed as a submodule")
            return path
        for name, module in self.root.named_modules():
            if module is mod:
                return str(name)
        raise NameError("module is not installed as a submodule")

    def call_module(
        self,
        m: Module,
        forward: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Called for each call of a submodule: records it, or runs ``forward``."""
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))):
            calls = sum(1 for key in self.module_stack if key.partition("@")[0] == path)
            key = f"{path}@{calls}" if calls else path
            self.module_stack[key] = (path, type(m))
            try:
                if self.is_leaf_module(m, path):
                    return self.create_proxy("call_module", path, args, kwargs)
                return forward(*args, **kwargs)
            finally:
                self.module_stack.pop(key)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]) -> Any:
        """Called for each attribute of a module: returns a proxy for parameters."""
        if isinstance(attr_val, Parameter):
            named = self.root.named_parameters()
        elif self.proxy_buffer_attributes and isinstance(attr_val, cograd.Tensor):
            named = self.root.named_buffers()
        else:
            return attr_val
        for name, value in named:
            if value is attr_val:
                if name not in parameter_proxy_cache:
                    parameter_proxy_cache[name] = self._attribute_proxy(name, value)
                return parameter_proxy_cache[name]
        return attr_val

    def _attribute_proxy(self, name: str, value: Any) -> Proxy:
        if self.param_shapes_constant and isinstance(value, Parameter):
            return self.create_proxy(
                "get_attr", name, (), {},
                proxy_factory_fn=lambda node: ParameterProxy(self, node, name, value),
            )  # fmt: skip
        return self.create_proxy("get_attr", name, (), {})

    # The arguments of the traced function.

    def create_args_for_root(
        self, root_fn: Callable[..., Any], is_module: bool, concrete_args: Any = None
    ) -> tuple[Callable[..., Any], list[Any]]:
        """Adds the inputs; returns the function to run and its arguments."""
        for_analysis: Any = inspect.unwrap(root_fn)
        code = for_analysis.__code__
        total = code.co_argcount + code.co_kwonlyargcount
        names = code.co_varnames[:total]
        args: list[Any] = [self.root] if is_module else []
        first = 1 if is_module else 0
        if is_module and not total:
            raise RuntimeError("``self`` argument cannot be part of *args expansion!")
        signature = inspect.signature(for_analysis)
        if isinstance(concrete_args, tuple):
            if len(concrete_args) != total - first:
                raise RuntimeError(
                    f"Tracing expected {total - first} arguments but got {len(concrete_args)} "
                    "concrete arguments"
                )
            concrete_args = dict(zip(names[first:], concrete_args, strict=True))
        for name in names[first:]:
            args.append(self._proxy_placeholder(name, concrete_args, signature, for_analysis))
        rest = list(code.co_varnames[total:])
        for flag, stars in ((inspect.CO_VARARGS, "*"), (inspect.CO_VARKEYWORDS, "**")):
            if code.co_flags & flag:
                star = stars + rest.pop(0)
                args.append(self._proxy_placeholder(star, concrete_args, signature, for_analysis))
        root_fn = _positional(root_fn, for_analysis, len(args))
        leaves, in_spec = pytree.tree_flatten(tuple(args))
        if concrete_args is None or all(s.is_leaf() for s in in_spec.children_specs):
            return root_fn, args
        self.graph._codegen = PyTreeCodeGen(PyTreeInfo(list(names), in_spec, None))
        return self._flattening(root_fn, in_spec, first, names), leaves

    def _flattening(
        self, function: Callable[..., Any], in_spec: Any, first: int, names: Any
    ) -> Callable[..., Any]:
        """Returns a function of the leaves that returns the result's leaves."""

        def flat(*leaves: Any) -> Any:
            out = function(*pytree.tree_unflatten(list(leaves), in_spec))
            found, out_spec = pytree.tree_flatten(out)
            tree = pytree.TreeSpec(list, None, in_spec.children_specs[first:])
            info = PyTreeInfo(list(names[first:]), tree, out_spec)
            self.graph._codegen = PyTreeCodeGen(info)
            return found

        flat.__annotations__ = {}
        return flat

    def _proxy_placeholder(
        self, name: str, concrete_args: dict[str, Any] | None, sig: Any, fn_for_analysis: Any
    ) -> Any:
        parameter = None if name[0] == "*" else sig.parameters[name]
        default = () if parameter is None or parameter.default is parameter.empty else (
            parameter.default,
        )  # fmt: skip
        if concrete_args is not None and name in concrete_args:
            return self._specialised(name, concrete_args[name], default)
        kind = _annotation(fn_for_analysis, name)
        return self.create_proxy("placeholder", name, default, {}, type_expr=kind)

    def _specialised(self, name: str, value: Any, default: tuple[Any, ...]) -> Any:
        """Adds an input for each leaf of a given argument, and checks of their values."""
        leaves, spec = pytree.tree_flatten(value)
        made = []
        for i, leaf in enumerate(leaves, 1):
            out = self.create_proxy("placeholder", f"{name}_{i}", default, {})
            if isinstance(leaf, PHBase):
                if leaf is not PH:
                    vars(out.node).update({k: v for k, v in vars(leaf).items() if k == "meta"})
                made.append(out)
                continue
            self._check_leaf(name, leaf, out)
            made.append(leaf)
        return pytree.tree_unflatten(made, spec)

    def _check_leaf(self, name: str, leaf: Any, out: Proxy) -> None:
        said = f"{name} has been specialized to have value {leaf} but got another value"
        if leaf is None:
            self.create_proxy("call_function", _assert_is_none, (out, said), {})
        elif type(leaf) in (*base_types, bool) and not isinstance(leaf, cograd.Tensor):
            same = self.create_proxy("call_function", operator.eq, (out, leaf), {})
            self.create_proxy("call_function", _assert, (same, said), {})
        else:
            warnings.warn(
                f"Was not able to add assertion to guarantee correct input {name} to specialized "
                "function. It is up to the user to make sure that your inputs match the inputs "
                "you specialized the function with.",
                stacklevel=2,
            )

    # Tracing.

    def trace(
        self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None
    ) -> Graph:
        """Runs ``root`` on proxies and returns the graph of what it did.

        Args:
            root: a module, or a function of Python.
            concrete_args: arguments that get these values instead of proxies, so that conditions
                on them work; ``PH`` in a container stays a proxy.
        """
        if isinstance(root, Module):
            self.root, function = root, getattr(type(root), self.traced_func_name)
            self.root_module_name = root._get_name()
            self.submodule_paths = {module: name for name, module in root.named_modules()}
        else:
            self.root, function = Module(), root
            self.submodule_paths = None
        if not isinstance(inspect.unwrap(function), FunctionType):
            raise AssertionError(f"Expected FunctionType, got {type(function)}")
        self.graph = Graph(tracer_cls=getattr(self, "__class__", None))
        self.tensor_attrs = _tensors_of(self.root)
        names = inspect.unwrap(function).__globals__
        with self._tracing(names):
            function, args = self.create_args_for_root(
                function, isinstance(root, Module), concrete_args
            )
            kind = _annotation(inspect.unwrap(function), "return")
            result = self.create_arg(function(*args))
            self.create_node("output", "output", (result,), {}, type_expr=kind)
        self.submodule_paths = None
        return self.graph

    @contextmanager
    def _tracing(self, names: dict[str, Any]) -> Iterator[None]:
        """Lets calls and attributes of modules, and wrapped functions, be recorded."""
        cache: dict[str, Proxy] = {}
        call, read = Module.__call__, Module.__getattr__

        def module_call(mod: Module, *args: Any, **kwargs: Any) -> Any:
            place = getattr(getattr(mod, "forward", mod), "__globals__", {})
            _autowrap_check(patcher, place, self._autowrap_function_ids)
            return self.call_module(mod, functools.partial(call, mod), args, kwargs)

        def module_getattr(mod: Module, name: str) -> Any:
            return self.getattr(name, read(mod, name), cache)

        with _Patcher() as patcher:
            patcher.patch_method(Module, "__getattr__", module_getattr)
            patcher.patch_method(Module, "__call__", module_call)
            _patch_wrapped_functions(patcher)
            for place in (names, *map(vars, self._autowrap_search)):
                _autowrap_check(patcher, place, self._autowrap_function_ids)
            _State.tracing += 1  # type: ignore[attr-defined]
            try:
                yield
            finally:
                _State.tracing -= 1  # type: ignore[attr-defined]

    def __deepcopy__(self, memo: dict[int, Any]) -> Tracer:
        made = Tracer.__new__(type(self))
        memo[id(self)] = made
        vars(made).update(vars(self))
        return made


def _tensors_of(root: Module) -> dict[Any, str]:
    """Returns the names of tensors that are plain attributes."""
    found: dict[Any, str] = {}
    for prefix, module in root.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, cograd.Tensor):
                found[value] = f"{prefix}.{name}".lstrip(".")
    return found


def _annotation(function: Any, name: str) -> Any:
    """Returns an annotation; this package has them as text, and Any where torch has none."""
    kind = function.__annotations__.get(name)
    if isinstance(kind, str) and is_own(function.__module__ or ""):
        try:
            kind = eval(kind, function.__globals__)
        except NameError:  # a name for type checkers alone
            return None
    return None if kind is Any else kind


def _assert_is_none(value: object, msg: str) -> None:
    if value is not None:
        raise AssertionError(msg)


def _positional(function: Any, analysed: Any, count: int) -> Callable[..., Any]:
    """Returns a function that accepts keyword-only and starred parameters by position."""
    code = analysed.__code__
    stars = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    if not code.co_kwonlyargcount and not stars:
        return function  # type: ignore[no-any-return]
    flags = code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    changed = code.replace(
        co_argcount=count, co_posonlyargcount=0, co_kwonlyargcount=0, co_flags=flags
    )
    made = FunctionType(
        changed, analysed.__globals__, analysed.__name__, None, analysed.__closure__
    )
    made.__annotations__ = analysed.__annotations__
    return made
