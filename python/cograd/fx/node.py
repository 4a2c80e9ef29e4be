# SPDX-License-Identifier: BSD-3-Clause
"""A node: one input, call, attribute or result of a graph."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import cograd
from cograd._functions.checks import _assert
from cograd.fx._names import is_own, qualified_name, type_text
from cograd.fx.immutable_collections import immutable_dict, immutable_list
from cograd.fx.operator_schemas import ArgsKwargsPair, normalize_function, normalize_module

if TYPE_CHECKING:
    from cograd.fx.graph import Graph

__all__ = ["Argument", "Node", "Target", "has_side_effect", "map_aggregate", "map_arg"]

Argument = Any
Target = "Callable[..., Any] | str"
BaseArgumentTypes = (
    str,
    int,
    float,
    bool,
    complex,
    cograd.dtype,
    cograd.Tensor,
    cograd.device,
    cograd.memory_format,
    cograd.layout,
)
base_types = BaseArgumentTypes
_OPS = (
    "placeholder",
    "call_method",
    "call_module",
    "call_function",
    "get_attr",
    "output",
    "root",
)
_legal_ops = dict.fromkeys(_OPS)
_F = TypeVar("_F", bound=Callable[..., Any])
_side_effectful_functions: set[Any] = {_assert, operator.setitem}
_SETTERS = frozenset(("manual_seed", "seed", "set_grad_enabled", "_set_grad_enabled"))
# torch's elimination drops in-place calls whose result is unused; then later reads are wrong.
_IN_PLACE = re.compile(r"(?!_).*[^_]_|__setitem__|__i\w+__")


def has_side_effect(fn: _F) -> _F:
    """Declares that calls of ``fn`` do something: dead code elimination keeps them."""
    _side_effectful_functions.add(fn)
    return fn


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """Applies ``fn`` inside of tuples, lists, dicts and slices; they become immutable."""
    if isinstance(a, tuple):
        parts = [map_aggregate(item, fn) for item in a]
        if isinstance(a, cograd.Size) and not all(type(part) is int for part in parts):
            return tuple(parts)
        return type(a)._make(parts) if hasattr(a, "_make") else type(a)(parts)
    if isinstance(a, list):
        return immutable_list(map_aggregate(item, fn) for item in a)
    if isinstance(a, dict):
        return immutable_dict((key, map_aggregate(item, fn)) for key, item in a.items())
    if isinstance(a, slice):
        return slice(*(map_aggregate(part, fn) for part in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """Applies ``fn`` to each node in nested arguments."""
    if not callable(fn):
        raise AssertionError("torch.fx.map_arg(a, fn): fn must be a callable")
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


def _format_arg(arg: Any, max_list_len: float = float("inf")) -> str:
    """Returns an argument as the listing of a graph shows it."""
    if hasattr(arg, "_custom_fx_repr_fn"):
        return str(arg._custom_fx_repr_fn())
    if isinstance(arg, (list, tuple)):
        shown = [_format_arg(a) for i, a in enumerate(arg) if i < max_list_len]
        if len(arg) > max_list_len:
            shown.append(f"...[total_len={len(arg)}]")
        if isinstance(arg, list):
            return f"[{', '.join(shown)}]"
        return f"({', '.join(shown)}{',' if len(arg) == 1 else ''})"
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{k}: {_format_arg(v)}" for k, v in arg.items()) + "}"
    return f"%{arg}" if isinstance(arg, Node) else str(arg)


def _get_qualified_name(func: Any) -> str:
    return qualified_name(func)


_type_repr = type_text


class Node:
    """One operation of a graph.

    ``op`` says which: ``placeholder`` is an input named ``target``; ``get_attr`` reads the module's
    attribute ``target``; ``call_function``, ``call_method`` and ``call_module`` call the function,
    method or submodule ``target``; ``output`` returns ``args[0]``. ``args`` and ``kwargs`` may have
    nodes in nested containers; ``users`` has the nodes that use this one. ``meta`` is free.
    """

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        return_type: Any = None,
    ) -> None:
        if op not in _legal_ops:
            raise AssertionError(f"op '{op}' is not in _legal_ops")
        if op == "call_function" and not callable(target):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type "
                f"{type(target).__name__} but a Callable is expected"
            )
        if op != "call_function" and not isinstance(target, str):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type "
                f"{type(target).__name__} but a str is expected"
            )
        self.graph = graph
        self.name = name
        self.op = op
        self.target = target
        self.type = return_type
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._repr_fn: Callable[[Node], str] | None = None
        self._input_nodes: dict[Node, None] = {}
        self._prev = self._next = self
        self._erased = False
        self._set_arguments(args, kwargs)

    @property
    def prev(self) -> Node:
        """The node before this one."""
        return self._prev

    @property
    def next(self) -> Node:
        """The node after this one."""
        return self._next

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments. Assign new ones to change them."""
        return self._args

    @args.setter
    def args(self, value: Iterable[Any]) -> None:
        self._set_arguments(value, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        """The arguments by name. Assign new ones to change them."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, value: Mapping[str, Any]) -> None:
        self._set_arguments(self._args, value)

    def _set_arguments(self, args: Iterable[Any], kwargs: Mapping[str, Any]) -> None:
        """Replaces all arguments, and tells the nodes in them."""
        new_args = tuple(args)
        for used in self._input_nodes:
            used.users.pop(self, None)
        self._input_nodes = {}

        def use(node: Node) -> Node:
            self._input_nodes.setdefault(node)
            node.users.setdefault(self)
            return node

        self._args: tuple[Any, ...] = map_arg(new_args, use)
        self._kwargs: dict[str, Any] = map_arg(dict(kwargs), use)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments, each once."""
        return list(self._input_nodes)

    @property
    def stack_trace(self) -> str | None:
        """Returns where the program made this node, if the tracer recorded it."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def _unlink(self) -> None:
        self.graph._positions = None
        self._prev._next, self._next._prev = self._next, self._prev

    def prepend(self, x: Node) -> None:
        """Moves ``x`` to the place before this node."""
        if self.graph is not x.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if x is self:
            return
        x._unlink()
        self.graph._positions = None
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x

    def append(self, x: Node) -> None:
        """Moves ``x`` to the place after this node."""
        if self is not x:
            self._next.prepend(x) if self._next is not x else None

    def update_arg(self, idx: int, arg: Any) -> None:
        """Replaces the positional argument at ``idx``."""
        args = list(self._args)
        args[idx] = arg
        self.args = args

    def insert_arg(self, idx: int, arg: Any) -> None:
        """Inserts a positional argument before the one at ``idx``."""
        if not 0 <= idx <= len(self._args):
            raise AssertionError("insert_args index must be between 0 and len(self.args)")
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def update_kwarg(self, key: str, arg: Any) -> None:
        """Replaces the argument named ``key``, or adds it."""
        self.kwargs = {**self._kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Uses ``new_input`` where the arguments have ``old_input``."""
        self._run_replace_hooks(old_input, new_input)

        def swap(node: Node) -> Node:
            return new_input if node is old_input else node

        self._set_arguments(map_arg(self._args, swap), map_arg(self._kwargs, swap))

    def _run_replace_hooks(self, old: Node, new: Node) -> None:
        for hook in getattr(self.graph.owning_module, "_replace_hooks", ()):
            hook(old=old, new=new.name, user=self)

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] | None = None,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Replaces this node by another one in all its users.

        Args:
            delete_user_cb: says which users to change; all of them by default.
            propagate_meta: copies ``meta``, which ``replace_with`` must lack.

        Returns:
            The changed users.
        """
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    "Called node.replace_all_uses_with(replace_with, propagate_meta=True), but "
                    "replace_with already has .meta keys"
                )
            replace_with.meta.update(self.meta)
        users = [u for u in self.users if delete_user_cb is None or delete_user_cb(u)]
        for user in users:
            user.replace_input_with(self, replace_with)
        return users

    def _rename(self, candidate: str) -> None:
        if candidate != self.name:
            self.name = self.graph._graph_namespace.create_name(candidate, None)
            self.graph._graph_namespace._rename_object(self, self.name)

    def is_impure(self, impure_random: bool = True) -> bool:
        """Returns whether dead code elimination must keep this node."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            return self.target in _side_effectful_functions or self._writes(impure_random)
        if self.op == "call_method":
            return bool(_IN_PLACE.fullmatch(self.target))
        if self.op == "call_module":
            owner = self.graph.owning_module
            if owner is None:
                raise AssertionError("self.graph.owning_module not set for purity check")
            return bool(getattr(owner.get_submodule(self.target), "_is_impure", False))
        return False

    def _writes(self, impure_random: bool) -> bool:
        """Returns whether the function, if it is one of this package, changes anything."""
        name = getattr(self.target, "__name__", "")
        if not is_own(getattr(self.target, "__module__", None) or ""):
            return False
        draws = impure_random and name.startswith("rand")
        options = self._kwargs.get("inplace") or "out" in self._kwargs
        return draws or bool(options) or name in _SETTERS or bool(_IN_PLACE.fullmatch(name))

    def normalized_arguments(
        self,
        root: Any,
        arg_types: tuple[Any, ...] | None = None,
        kwarg_types: dict[str, Any] | None = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> ArgsKwargsPair | None:
        """Returns the arguments of a call with names and defaults filled in; None if unknown."""
        if self.op == "call_function":
            return normalize_function(
                self.target, self._args, self._kwargs, arg_types, kwarg_types,
                normalize_to_only_use_kwargs,
            )  # fmt: skip
        if self.op == "call_module":
            return normalize_module(
                root, self.target, self._args, self._kwargs, normalize_to_only_use_kwargs
            )
        return None

    def _pretty_print_target(self, target: Any) -> str:
        if isinstance(target, str):
            return target
        if getattr(target, "__module__", None) == "builtins":
            return f"builtins.{target.__name__}"
        return qualified_name(target)

    def format_node(
        self,
        placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None,
        *,
        include_tensor_metadata: bool = False,
    ) -> str | None:
        """Returns the line for this node in the listing of its graph.

        With lists as arguments, inputs and the type of the result are appended to these instead.
        """
        kind = f"{type_text(self.type)} " if self.type is not None else ""
        target = self._pretty_print_target(self.target)
        head = f"%{self.name} : {kind}[num_users={len(self.users)}] = {self.op}[target={target}]"
        if self.op == "placeholder":
            if placeholder_names is not None:
                shown = f" : {type_text(self.type)}" if self.type is not None else ""
                default = f"(default={self._args[0]})" if self._args else ""
                placeholder_names.append(f"{self.target}{shown}{default}")
                return None
            return head + (f"(default={self._args[0]})" if self._args else "")
        if self.op == "get_attr":
            return head
        if self.op == "output":
            if self.type is not None and maybe_return_typename:
                maybe_return_typename[0] = f" -> {type_text(self.type)}"
            return f"return {self._args[0]}"
        return f"{head}(args = {_format_arg(self._args)}, kwargs = {_format_arg(self._kwargs)})"

    def __repr__(self) -> str:
        return self.name if self._repr_fn is None else self._repr_fn(self)

    def __lt__(self, other: Node) -> bool:
        """Returns whether this node comes before the other one."""
        order = self.graph._order()
        return order[self] < order[other]

    def __gt__(self, other: Node) -> bool:
        return other < self

    def __le__(self, other: Node) -> bool:
        return self is other or self < other

    def __ge__(self, other: Node) -> bool:
        return self is other or self > other
