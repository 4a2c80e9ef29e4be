# SPDX-License-Identifier: BSD-3-Clause
"""Builds the inspect.Signature of an op from the texts of its forms."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Sequence
from functools import reduce
from numbers import Number
from operator import or_
from typing import Any

import cograd

__all__ = ["schema_type", "signature"]


def _names() -> dict[str, Any]:
    """Returns what the texts name: types, and dtypes as defaults."""
    words = {
        "Any": Any,
        "Generator": cograd.Generator,
        "Number": Number,
        "Sequence": Sequence,
        "Tensor": cograd.Tensor,
        "cograd": cograd,
        "torch": cograd,
    }
    builtin = (bool, float, int, list, str, tuple)
    return {**words, **{t.__name__: t for t in builtin}, "__builtins__": {}}


def schema_type(word: str) -> Any:
    """Returns Python's type for one of a schema: ``Sequence[int] | None`` for "int[]?"."""
    if word.endswith("?"):
        return schema_type(word[:-1]) | None
    if word.endswith("]"):
        return Sequence[schema_type(word[: word.rindex("[")])]  # type: ignore[misc]
    types = {
        "Device": cograd.device,
        "Generator": cograd.Generator,
        "Scalar": Number,
        "ScalarType": cograd.dtype,
        "SymInt": int,
        "Tensor": cograd.Tensor,
        "bool": bool,
        "float": float,
        "int": int,
        "str": str,
    }
    return types.get(word, Any)


def _evaluated(node: ast.expr | None, names: dict[str, Any]) -> Any:
    """Returns the value of an expression of a text; its text if it names something unknown."""
    if node is None:
        return inspect.Parameter.empty
    if isinstance(node, ast.Name) and node.id not in names:  # a dtype
        return getattr(cograd, node.id, node.id)
    try:
        return eval(compile(ast.Expression(node), "signature", "eval"), names)
    except (AttributeError, NameError, TypeError):
        return ast.unparse(node)


def _parsed(text: str, names: dict[str, Any]) -> inspect.Signature:
    """Parses "(x: Tensor, *, n: int = 1) -> Tensor"; "*size, *, n" means "*size, n"."""
    text = re.sub(r"(\*\w+[^,]*), \*(?=,)", r"\1", text)
    tree = ast.parse(f"def f{text}: pass").body[0]
    assert isinstance(tree, ast.FunctionDef)
    args, made = tree.args, []
    first = [None] * (len(args.args) - len(args.defaults))
    rows: list[tuple[ast.arg, ast.expr | None, Any]] = []
    kinds = inspect.Parameter
    for arg, default in zip(args.args, [*first, *args.defaults], strict=True):
        rows.append((arg, default, kinds.POSITIONAL_OR_KEYWORD))
    if args.vararg:
        rows.append((args.vararg, None, kinds.VAR_POSITIONAL))
    for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        rows.append((arg, default, kinds.KEYWORD_ONLY))
    for arg, default, kind in rows:
        value, hint = _evaluated(default, names), _evaluated(arg.annotation, names)
        made.append(inspect.Parameter(arg.arg, kind, default=value, annotation=hint))
    result = _evaluated(tree.returns, names)
    return inspect.Signature(made, return_annotation=result)


def _either(hints: Sequence[Any]) -> Any:
    """Returns the union of annotations, or none if there are none."""
    known = [hint for hint in hints if hint is not inspect.Parameter.empty]
    try:
        return reduce(or_, known) if known else inspect.Parameter.empty
    except TypeError:  # a type that is only a text
        return " | ".join(dict.fromkeys(map(str, known)))


def signature(text: str, forms: Sequence[str]) -> inspect.Signature:
    """Returns a signature with types.

    Args:
        text: names and defaults of all forms together, "(x, n=1, *, out=None)".
        forms: the signature of each form with types, "(x: Tensor, n: int = 1) -> Tensor".
    """
    names = _names()
    names.update(dtype=cograd.dtype, device=cograd.device)
    parsed = [_parsed(form, names) for form in forms]
    if len(parsed) == 1:
        return parsed[0]
    merged = _parsed(text, names)
    parameters = []
    for parameter in merged.parameters.values():
        forms_of_it = [f.parameters.get(parameter.name) for f in parsed]
        hints = [form.annotation for form in forms_of_it if form is not None]
        hint = _either([*hints, None] if parameter.default is None else hints)
        parameters.append(parameter.replace(annotation=hint))
    result = _either([form.return_annotation for form in parsed])
    return merged.replace(parameters=parameters, return_annotation=result)
