# SPDX-License-Identifier: BSD-3-Clause
"""Signatures of ops: parsed from text, inferred from annotations, formatted as text."""

from __future__ import annotations

import ast
import collections.abc
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Union

import cograd
from cograd import Tensor
from cograd._base import op_signature

__all__ = ["REQUIRED", "Argument", "Schema", "infer", "infer_schema", "parse"]

REQUIRED = inspect.Parameter.empty
_SIMPLE: dict[Any, str] = {
    int: "SymInt",
    float: "float",
    bool: "bool",
    str: "str",
    cograd.dtype: "ScalarType",
    cograd.device: "Device",
}
_NUMBERS = frozenset((int, float, bool))
_SEQUENCES = (list, collections.abc.Sequence)
_RETURNS = {"Tensor", "Tensor[]", "SymInt", "float", "bool", "Scalar"}
# Type names that schemas may use, and their canonical names.
_SYNONYMS = {"int": "SymInt", "complex": "Scalar", "number": "Scalar"}


@dataclass(frozen=True)
class Argument:
    """One parameter; its type is, for example, "Tensor", "Tensor?", "Tensor[]" or "SymInt"."""

    name: str
    type: str
    default: Any = REQUIRED
    keyword_only: bool = False
    mutated: bool = False

    @property
    def is_tensor(self) -> bool:
        """True if the argument is a tensor or None."""
        return self.type in ("Tensor", "Tensor?")

    @property
    def is_tensor_list(self) -> bool:
        """True if the argument holds several tensors."""
        return self.type.startswith("Tensor") and "[]" in self.type

    def text(self, index: int) -> str:
        """Formats the argument for a schema; a mutated tensor is annotated (a<index>!)."""
        kind = self.type
        if self.mutated:
            kind = kind.replace("Tensor", f"Tensor(a{index}!)", 1)
        if self.default is REQUIRED:
            return f"{kind} {self.name}"
        default = f'"{self.default}"' if isinstance(self.default, str) else repr(self.default)
        return f"{kind} {self.name}={default.removeprefix('cograd.')}"


@dataclass(frozen=True)
class Schema:
    """The signature of an op; ``str()`` formats "name(Tensor x, float a=1.0) -> Tensor"."""

    name: str
    arguments: tuple[Argument, ...] = ()
    returns: tuple[str, ...] = ()
    _text: dict[str, str] = field(default_factory=dict, compare=False, repr=False)

    def __str__(self) -> str:
        parts, star = [], False
        for index, argument in enumerate(self.arguments):
            if argument.keyword_only and not star:
                parts.append("*")
                star = True
            parts.append(argument.text(index))
        returns = self.returns[0] if len(self.returns) == 1 else f"({', '.join(self.returns)})"
        return f"{self.name}({', '.join(parts)}) -> {returns}"

    @property
    def is_mutable(self) -> bool:
        """True if an argument is written."""
        return any(argument.mutated for argument in self.arguments)

    def signature(self) -> inspect.Signature:
        """Returns the signature for inspect.signature and help()."""
        kinds = inspect.Parameter
        return inspect.Signature(
            [
                kinds(
                    argument.name,
                    kinds.KEYWORD_ONLY if argument.keyword_only else kinds.POSITIONAL_OR_KEYWORD,
                    default=argument.default,
                    annotation=op_signature.schema_type(argument.type),
                )
                for argument in self.arguments
            ],
            return_annotation=self._result(),
        )

    def _result(self) -> Any:
        """Returns the type of the result, for the signature."""
        found = [op_signature.schema_type(word) for word in self.returns]
        if len(found) == 1:
            return found[0]
        return tuple[tuple(found)] if found else None  # type: ignore[misc]


# ---------------------------------------------------------------------- annotations


def _type_name(annotation: Any) -> str | None:
    """Returns the schema's type name for an annotation, or None."""
    if annotation is Tensor:
        return "Tensor"
    if annotation in _SIMPLE:
        return _SIMPLE[annotation]
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (Union, types.UnionType):
        rest = [a for a in args if a is not type(None)]
        if _NUMBERS.issuperset(rest) and len(rest) > 1:
            inner: str | None = "Scalar"
        elif len(rest) == 1:
            inner = _type_name(rest[0])
        else:
            return None
        return inner if inner is None or len(rest) == len(args) else f"{inner}?"
    if origin in _SEQUENCES and len(args) == 1:
        inner = _type_name(args[0])
        return None if inner is None or "[]" in inner else f"{inner}[]"
    return None


def _return_types(annotation: Any) -> tuple[str, ...] | None:
    if annotation in (None, type(None)):
        return ()
    if typing.get_origin(annotation) is tuple:
        names = [_type_name(part) for part in typing.get_args(annotation)]
    else:
        names = [_type_name(annotation)]
    return None if any(n not in _RETURNS for n in names) else tuple(str(n) for n in names)


def infer(fn: Callable[..., Any], mutates_args: str | Iterable[str], name: str = "") -> Schema:
    """Infers the schema of an annotated function; raises as ``infer_schema``."""
    signature = inspect.signature(fn)

    def fail(text: str) -> typing.NoReturn:
        raise ValueError(f"infer_schema(func): {text} Got func with signature {signature})")

    try:
        hints = typing.get_type_hints(fn)
    except (NameError, TypeError) as error:
        fail(f"The annotations cannot be evaluated ({error}).")
    unknown = mutates_args == "unknown"
    if isinstance(mutates_args, str) and not unknown:
        raise ValueError("infer_schema(func): mutates_args must be a list of names or 'unknown'.")
    mutated = set() if unknown else set(mutates_args)
    if extra := mutated - set(signature.parameters):
        fail(
            f"{extra} in mutates_args were not found in the custom op's signature. mutates_args "
            "should contain the names of all args that the custom op mutates, or just the string "
            "'unknown' if you don't know."
        )
    arguments = []
    for parameter in signature.parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            fail("We do not support positional-only args, varargs, or varkwargs.")
        if parameter.annotation is REQUIRED:
            fail(f"Parameter {parameter.name} must have a type annotation.")
        kind = _type_name(hints[parameter.name])
        if kind is None:
            fail(
                f"Parameter {parameter.name} has unsupported type {hints[parameter.name]}. The "
                "valid types are Tensor, int, float, bool, str, dtype, device, int | float | bool, "
                "and X | None or list[X] of these."
            )
        writes = parameter.name in mutated or (unknown and kind.startswith("Tensor"))
        if writes and not kind.startswith("Tensor"):
            fail(f"Parameter {parameter.name} is in mutates_args but is not a Tensor.")
        arguments.append(
            Argument(
                parameter.name,
                kind,
                parameter.default,
                parameter.kind is parameter.KEYWORD_ONLY,
                writes,
            )
        )
    if signature.return_annotation is inspect.Signature.empty:
        fail("No return type annotation was provided. Please add one.")
    returns = _return_types(hints.get("return"))
    if returns is None:
        fail(
            f"Return has unsupported type {hints.get('return')}. The valid types are Tensor, int, "
            "float, bool, list[Tensor], tuples of these and None."
        )
    return Schema(name, tuple(arguments), returns)


def infer_schema(
    prototype_function: Callable[..., Any],
    /,
    *,
    mutates_args: str | Iterable[str],
    op_name: str | None = None,
) -> str:
    """Infers the schema of a function, as text, from its annotations.

    Args:
        mutates_args: names of the tensors that the function writes, or "unknown" for all.
        op_name: name before the parenthesis.

    Raises:
        ValueError: an annotation is missing or has a type that ops do not support.
    """
    return str(infer(prototype_function, mutates_args, op_name or ""))


# ---------------------------------------------------------------------- text


def _canonical(kind: str) -> str:
    """Replaces a type name by its canonical name: "int[]" by "SymInt[]"."""
    base = re.match(r"\w+", kind)
    assert base is not None  # the parser has checked the word
    return _SYNONYMS.get(base[0], base[0]) + kind[base.end() :]


def _default(value: str | None) -> Any:
    """Evaluates a default that the parser has read."""
    if value is None:
        return REQUIRED
    value = {"true": "True", "false": "False", "none": "None"}.get(value, value)
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return getattr(cograd, value.rpartition(".")[2])  # a dtype


def parse(text: str, name: str = "") -> Schema:
    """Parses "name(Tensor x, float a=1.0, *, Tensor(a!) out) -> Tensor"; the name is optional.

    Raises:
        ValueError: the text cannot be parsed.
    """
    found = cograd._C._parse_schema(text)
    if not found["has_result"]:
        raise ValueError(f"schema {text!r}: expected 'name(type name, ...) -> type'")
    arguments = tuple(
        Argument(
            a["name"],
            _canonical(a["type"]),
            _default(a["default"]),
            a["keyword_only"],
            a["mutated"],
        )
        for a in found["args"]
    )
    returns = tuple(_canonical(kind) for kind in found["returns"])
    return Schema(name or found["name"], arguments, returns)
