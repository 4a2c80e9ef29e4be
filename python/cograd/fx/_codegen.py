# SPDX-License-Identifier: BSD-3-Clause
"""Writes the Python source of a graph."""

from __future__ import annotations

import math
import re
import typing
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import NoneType
from typing import Any, NamedTuple

import cograd
from cograd.fx import _pytree as fx_pytree
from cograd.fx._names import Namespace, is_own, qualified_name, resolve, root_name, type_text
from cograd.fx.node import Node, map_arg

__all__ = ["BUILTINS", "CodeGen", "PyTreeCodeGen", "PyTreeInfo", "PythonCode", "format_target"]


@dataclass
class PythonCode:
    """The source of a graph's function, the globals that it needs, and its lines' nodes."""

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None = None
    _prologue_start: int = 0


pytree = fx_pytree.pytree


class CustomBuiltin(NamedTuple):
    """A global of all generated code, and the statement that imports it."""

    import_str: str
    obj: Any


BUILTINS = {
    "inf": CustomBuiltin("from math import inf", math.inf),
    "nan": CustomBuiltin("from math import nan", math.nan),
    "NoneType": CustomBuiltin("NoneType = type(None)", NoneType),
    "torch": CustomBuiltin("import torch", cograd),
    "device": CustomBuiltin("from torch import device", cograd.device),
    "fx_pytree": CustomBuiltin("import torch.fx._pytree as fx_pytree", fx_pytree),
    "pytree": CustomBuiltin("import torch.utils._pytree as pytree", pytree),
}

_BINARY = {
    "add": "+", "sub": "-", "mul": "*", "floordiv": "//", "truediv": "/", "mod": "%", "pow": "**",
    "lshift": "<<", "rshift": ">>", "and_": "&", "or_": "|", "xor": "^", "matmul": "@",
    "eq": "==", "ne": "!=", "lt": "<", "gt": ">", "le": "<=", "ge": ">=",
}  # fmt: skip
_UNARY = {"pos": "+", "neg": "-", "invert": "~"}
_INPLACE = {
    f"i{name.rstrip('_')}": f"{sign}="
    for name, sign in _BINARY.items()
    if name not in ("eq", "ne", "lt", "gt", "le", "ge")
}
_FRAME = re.compile(r'File "(.+)", line (\d+), in (.+)\n\s*(.*)')


def format_target(base: str, target: str) -> str:
    """Returns the expression for the attribute ``target`` of ``base``: ``self.a``."""
    for part in target.split("."):
        base = f"{base}.{part}" if part.isidentifier() else f'getattr({base}, "{part}")'
    return base


def _last_frame(trace: str) -> str:
    """Returns the innermost call of a stack trace as a comment."""
    found = _FRAME.findall(trace)
    if not found:
        return ""
    file, line, name, code = found[-1]
    return f"File: {file}:{line} in {name}, code: {code.strip()}"


def _kind_of(meta: Any) -> str:
    """Returns a tensor's dtype and shape: ``f32[2, 3]``."""
    return f"{_SHORT.get(str(meta.dtype).rpartition('.')[2], '?')}{list(meta.shape)}"


_SHORT = {f"{k}{n}": f"{k[0]}{n}" for k in ("float", "int", "uint") for n in (8, 16, 32, 64)}
_SHORT |= {f"complex{n}": f"c{n}" for n in (32, 64, 128)} | {"bool": "b8", "bfloat16": "bf16"}


@dataclass
class _Writer:
    """Holds what the generator knows while it writes one function."""

    root: str
    namespace: Namespace
    verbose: bool
    shapes: bool
    globals: dict[str, Any] = field(default_factory=dict)
    wrapped: dict[str, None] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)
    returns: str = ""
    last_used: dict[Node, list[Node]] = field(default_factory=dict)
    trace: str | None = None

    def add_global(self, hint: str, obj: Any) -> str:
        """Makes ``obj`` a global; returns the expression for it."""
        if obj is cograd.device:
            return "device"
        if is_own(getattr(obj, "__module__", None) or ""):
            path = qualified_name(obj) if hasattr(obj, "__name__") else hint
            root, _, rest = path.partition(".")
            if resolve(rest) is obj:
                self.globals.setdefault(root, cograd)
                return path
        name = hint.replace(".", "_")
        if name in self.globals and self.globals[name] is obj:
            return name
        name = self.namespace.create_name(name, obj)
        self.globals[name] = obj
        return name

    def type_of(self, kind: Any) -> str:
        """Returns the expression for a type in an annotation."""
        if kind == ():
            return "()"
        origin, args = typing.get_origin(kind), typing.get_args(kind)
        text = type_text(kind)
        if origin is None or not args:
            return self.add_global(text, kind)
        if text.partition("[")[0].rpartition(".")[2] == "Optional":
            return self._generic("typing.Union", typing.Union, args)
        if not hasattr(kind, "__origin__"):  # int | None
            return "|".join(self.type_of(arg) for arg in args)
        name = getattr(kind, "_name", None)
        alias = getattr(typing, name, None) if name and text.startswith("typing.") else None
        return self._generic(text.partition("[")[0], alias or origin, args)

    def _generic(self, hint: str, origin: Any, args: Iterable[Any]) -> str:
        inner = ",".join("..." if arg is ... else self.type_of(arg) for arg in args)
        return f"{self.add_global(hint, origin)}[{inner}]"

    def value(self, arg: Any) -> str:
        """Returns the expression for an argument."""
        if isinstance(arg, Node):
            return repr(arg)
        if isinstance(arg, tuple) and hasattr(arg, "_fields"):
            kind = self.add_global(qualified_name(type(arg)), type(arg))
            return f"{kind}({', '.join(map(self.value, arg))})"
        if isinstance(arg, Enum):
            enum = type(arg)
            return f"{self.add_global(enum.__name__, enum)}.{arg.name}"
        if isinstance(arg, cograd.Size):
            return f"({', '.join(map(repr, arg))}{',' if len(arg) == 1 else ''})"
        if isinstance(arg, tuple):
            return f"({', '.join(map(self.value, arg))}{',' if len(arg) == 1 else ''})"
        if isinstance(arg, list):
            return f"[{', '.join(map(self.value, arg))}]"
        if isinstance(arg, dict):
            return "{" + ", ".join(f"{k!r}: {self.value(v)}" for k, v in arg.items()) + "}"
        if isinstance(arg, slice):
            parts = map(self.value, (arg.start, arg.stop, arg.step))
            return f"slice({', '.join(parts)})"
        return self._constant(arg)

    def _constant(self, arg: Any) -> str:
        if isinstance(arg, (cograd.dtype, cograd.layout, cograd.memory_format)):
            self.globals.setdefault(root_name(), cograd)
        elif callable(arg) and hasattr(arg, "__name__") and not isinstance(arg, cograd.Tensor):
            return self.add_global(qualified_name(arg), arg)  # torch's code has <class 'int'>
        return repr(arg)

    def arguments(self, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
        """Returns the text between the brackets of a call."""
        named = (f"{name} = {self.value(arg)}" for name, arg in kwargs.items())
        return ", ".join([*map(self.value, args), *named])


class CodeGen:
    """Writes a graph as a function; subclasses change its signature and its result."""

    _body_transformer: Callable[[list[str]], list[str]] | None = None
    _func_name = "forward"

    def gen_fn_def(
        self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False
    ) -> str:
        """Returns the function's first line."""
        names = free_vars if free_vars[:1] == ["self"] else ["self", *free_vars]
        text = ", ".join(names)
        if expanded_def:
            text = "\n" + "".join(f"    {name},\n" for name in names)
        return f"def {self._func_name}({text}){maybe_return_annotation}:"

    def generate_output(
        self,
        output_args: Any,
        *,
        descs: Sequence[str] | None = None,
        repr_fn: Callable[[Any], str] | None = None,
    ) -> str:
        """Returns the statement that ends the function."""
        return f"return {(repr_fn or repr)(output_args)}"

    def process_inputs(self, *args: Any) -> Any:
        """Returns the values of the graph's inputs for arguments of the function."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """Returns the function's result for the graph's result."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Returns globals that the statements of this class need."""
        return []

    def _gen_python_code(
        self,
        nodes: Any,
        root_module: str,
        namespace: Namespace,
        *,
        verbose: bool = False,
        expanded_def: bool = False,
        **options: Any,
    ) -> PythonCode:
        writer = _Writer(root_module, namespace, verbose, verbose)
        for name, builtin in BUILTINS.items():
            writer.globals[name] = builtin.obj
        for name, value in self.additional_globals():
            writer.add_global(name, value)
        writer.last_used = _last_uses(nodes)
        lines: dict[int, int | None] = {}
        for i, node in enumerate(nodes):
            if verbose:
                _add_comment(writer, node)
            start = len(writer.body)
            self._statement(writer, node)
            for text in range(start, len(writer.body)):
                lines[text] = i
            _add_deletions(writer, node)
        body = writer.body or ["pass\n"]
        if self._body_transformer is not None:
            body = self._body_transformer(body)
        head = self.gen_fn_def(writer.inputs, writer.returns, expanded_def=expanded_def)
        code = "".join(body).lstrip("\n")
        indented = "\n".join("    " + line for line in code.split("\n"))
        names = "".join(
            f'{root_name()}.fx._symbolic_trace.wrap("{name}")\n' for name in writer.wrapped
        ).rstrip("\n")
        source = f"\n{names}\n\n{head}\n{indented}"
        start = source[: source.index(head)].count("\n") + 1 + head.count("\n")
        return PythonCode(source, writer.globals, _line_map(body, lines, start), start)

    def _statement(self, writer: _Writer, node: Node) -> None:
        """Adds the statements of a node."""
        kind = "" if node.type is None else f" : {writer.type_of(node.type)}"
        if not kind and writer.shapes:
            meta = node.meta.get("val", node.meta.get("tensor_meta"))
            if hasattr(meta, "dtype") and hasattr(meta, "shape"):
                kind = f': "{_kind_of(meta)}"'
        if node.op == "placeholder":
            default = f" = {writer.value(node.args[0])}" if node.args else ""
            writer.inputs.append(f"{node.target}{kind}{default}")
            raw = node.target.replace("*", "")
            if raw != repr(node):
                writer.body.append(f"{node!r} = {raw}\n")
        elif node.op == "output":
            if node.type is not None:
                writer.returns = f" -> {writer.type_of(node.type)}"
            writer.body.append(self.generate_output(node.args[0], repr_fn=writer.value))
        else:
            writer.body.append(_call(writer, node, kind))


def _call(writer: _Writer, node: Node, kind: str) -> str:
    """Returns the assignment of a call or an attribute."""
    args, kwargs = node.args, node.kwargs
    place = f"{node!r}{kind}"
    if node.op == "call_method":
        rest = writer.arguments(args[1:], kwargs)
        return f"{place} = {writer.value(args[0])}.{node.target}({rest})"
    if node.op in ("call_module", "get_attr"):
        text = f"{place} = {format_target(writer.root, node.target)}"
        return text if node.op == "get_attr" else f"{text}({writer.arguments(args, kwargs)})"
    target = node.target
    name = getattr(target, "__name__", "")
    if getattr(target, "__module__", None) == "_operator" and not kwargs:
        text = _operator_text(writer, name, args, place, repr(node))
        if text:
            return text
    if target is getattr and len(args) == 2 and _is_name(args[1]):
        writer.add_global("getattr", getattr)
        return f"{place} = {writer.value(args[0])}.{args[1]}"
    shown = writer.add_global(_hint(target), target)
    if node.meta.get("is_wrapped"):
        writer.wrapped.setdefault(shown)
        writer.globals.setdefault(root_name(), cograd)
    return f"{place} = {shown}({writer.arguments(args, kwargs)})"


def _hint(target: Any) -> str:
    """Returns the name for a global function: ``math_sqrt``, ``_operator_abs``."""
    if getattr(target, "__module__", None) == "_operator":
        return f"_operator.{target.__name__}"
    return qualified_name(target)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value.isidentifier()


def _operator_text(writer: _Writer, name: str, args: Any, place: str, node: str) -> str:
    """Returns the statement for a function of ``operator`` that has a sign, or ""."""
    shown = [writer.value(arg) for arg in args]
    if name in _BINARY and len(args) == 2:
        return f"{place} = {shown[0]} {_BINARY[name]} {shown[1]}"
    if name in _UNARY and len(args) == 1:
        return f"{place} = {_UNARY[name]}{shown[0]}"
    if name in _INPLACE and len(args) == 2:
        return f"{shown[0]} {_INPLACE[name]} {shown[1]};  {place} = {shown[0]}"
    if name == "getitem" and len(args) == 2:
        return f"{place} = {shown[0]}[{shown[1]}]"
    if name == "setitem" and len(args) == 3:
        return f"{shown[0]}[{shown[1]}] = {shown[2]};  {place} = {shown[0]}"
    return ""


def _last_uses(nodes: Any) -> dict[Node, list[Node]]:
    """Returns, for each node, the nodes that no later one uses."""
    seen: set[Node] = set()
    found: dict[Node, list[Node]] = {}

    def use(value: Node, user: Node) -> Node:
        if value not in seen:
            seen.add(value)
            found.setdefault(user, []).append(value)
        return value

    for node in reversed(nodes):
        map_arg(node.args, lambda value, user=node: use(value, user))  # type: ignore[misc]
        map_arg(node.kwargs, lambda value, user=node: use(value, user))  # type: ignore[misc]
    return found


def _add_deletions(writer: _Writer, node: Node) -> None:
    """Drops the values that the rest does not use, so that their memory is freed."""
    if node.op == "placeholder":
        return
    if node.op == "output":
        writer.body.append("\n")
        return
    done = list(writer.last_used.get(node, []))
    if not node.users:
        done.append(node)
    text = " = ".join([*map(repr, done), "None"])
    writer.body.append(f";  {text}\n" if done else "\n")


def _add_comment(writer: _Writer, node: Node) -> None:
    """Says where the program made the nodes that follow."""
    if node.op in ("placeholder", "output"):
        return
    trace = node.stack_trace or ""
    said = _last_frame(trace) or "No stacktrace found for following nodes"
    if said != writer.trace:
        writer.trace = said
        writer.body.append(f"\n# {said}\n")


def _line_map(body: list[str], lines: dict[int, int | None], first: int) -> dict[int, int | None]:
    """Returns the node's number for each line of the source."""
    found: dict[int, int | None] = {}
    line = first
    for i, text in enumerate(body):
        if i in lines:
            found[line] = lines[i]
        line += text.count("\n")
    return found


class PyTreeInfo(NamedTuple):
    """The structure of a function's arguments and of its result."""

    orig_args: list[str]
    in_spec: Any
    out_spec: Any


class PyTreeCodeGen(CodeGen):
    """Writes a function that takes containers apart and puts its result into one."""

    def __init__(self, pytree_info: PyTreeInfo) -> None:
        self.pytree_info = pytree_info

    def process_inputs(self, *args: Any) -> Any:
        """Returns the leaves of the arguments."""
        return fx_pytree.tree_flatten_spec(list(args), self.pytree_info.in_spec)

    def process_outputs(self, outputs: Any) -> Any:
        """Returns the result as the traced function did."""
        if self.pytree_info.out_spec is None:
            return outputs
        leaves = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        return pytree.tree_unflatten(list(leaves), self.pytree_info.out_spec)

    def gen_fn_def(
        self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False
    ) -> str:
        """Returns the first line, and the one that flattens."""
        names = self.pytree_info.orig_args
        named = names if names[:1] == ["self"] else ["self", *names]
        head = super().gen_fn_def(list(named), maybe_return_annotation, expanded_def=expanded_def)
        if not free_vars:
            return head
        bare = [name.split(":")[0].split("=")[0].strip().replace("*", "") for name in free_vars]
        given = [name for name in named if name != "self"]
        text = f"fx_pytree.tree_flatten_spec([{', '.join(given)}], self._in_spec)"
        return f"{head}\n    {', '.join(bare)}, = {text}"

    def generate_output(
        self,
        output_args: Any,
        *,
        descs: Sequence[str] | None = None,
        repr_fn: Callable[[Any], str] | None = None,
    ) -> str:
        """Returns the statement that puts the result together."""
        shown = (repr_fn or repr)(output_args)
        if self.pytree_info.out_spec is None:
            return f"return {shown}"
        return f"return pytree.tree_unflatten({shown}, self._out_spec)"
