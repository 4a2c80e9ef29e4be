# SPDX-License-Identifier: BSD-3-Clause
"""Writes the `.pyi` of a built module: real argument names, Python types, docstrings."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cograd.utils.cpp_extension import _declarations
from cograd.utils.cpp_extension._declarations import Code, Declaration, Parameter
from cograd.utils.cpp_extension._job import Job

_NAMESPACES = re.compile(r"\b(?:std|torch|at|c10|cograd|pybind11|py)::(?:autograd::)?")
_SCALARS = {
    "void": "None",
    "bool": "bool",
    "string": "str",
    "string_view": "str",
    "char*": "str",
    "Tensor": "Tensor",
    "Variable": "Tensor",
    "Scalar": "int | float | bool",
    "ScalarType": "dtype",
    "Dtype": "dtype",
    "DType": "dtype",
    "dtype": "dtype",
    "Device": "device",
    "variable_list": "list[Tensor]",
    "tensor_list": "list[Tensor]",
    "TensorList": "Sequence[Tensor]",
    "IntArrayRef": "Sequence[int]",
    "IntList": "Sequence[int]",
    "object": "Any",
    "dict": "dict[Any, Any]",
    "list": "list[Any]",
}
_INTEGERS = re.compile(
    r"(?:(?:un)?signed )?(?:char|short|int|long)(?: (?:long|int))*|u?int(?:8|16|32|64|ptr)?_t|"
    r"s?size_t|ptrdiff_t|unsigned|signed"
)
_DEFINITION = re.compile(r"\bm\s*\.\s*(?:def|impl)\s*(?P<template><[^()]*?>)?\s*\(")
_BLOCK = re.compile(r"\b(?:(?:COGRAD|TORCH)_LIBRARY\w*|PYBIND11_MODULE)\s*\(")


def python_type(kind: str, is_result: bool = False) -> str:
    """Returns the Python type of a C++ type; `Any` if there is no counterpart."""
    kind = _NAMESPACES.sub("", kind)
    kind = re.sub(r"\b(?:const|volatile|struct|typename)\b", " ", kind)
    kind = re.sub(r"\s+", " ", kind.replace("&", " ")).strip().replace(" *", "*")
    if kind in _SCALARS:
        found = _SCALARS[kind]
        return found.replace("Sequence", "list") if is_result else found
    if kind in ("float", "double", "long double"):
        return "float"
    if _INTEGERS.fullmatch(kind):
        return "int"
    template = re.fullmatch(r"(\w+)<(.*)>", kind)
    if template is None:
        return "Any"
    outer = template.group(1)
    inner = [python_type(part, is_result) for part in _declarations.split_commas(template.group(2))]
    if outer in ("vector", "ArrayRef", "List", "span", "array", "initializer_list"):
        return f"{'list' if is_result else 'Sequence'}[{inner[0]}]"
    if outer == "optional":
        return f"{inner[0]} | None"
    if outer in ("tuple", "pair"):
        return f"tuple[{', '.join(inner)}]"
    if outer in ("map", "unordered_map", "Dict") and len(inner) > 1:
        return f"{'dict' if is_result else 'Mapping'}[{inner[0]}, {inner[1]}]"
    return "Any"


def _parameters(declaration: Declaration) -> str:
    defaults = dict(
        part.partition("=")[::2]
        for part in _declarations.split_commas(_declarations.signature(declaration))
    )
    parts = []
    for i, parameter in enumerate(declaration.parameters):
        name = _declarations.python_name(parameter.name, i)
        kind = python_type(parameter.type)
        if parameter.type.replace("const ", "").startswith("std::optional"):
            kind = python_type(parameter.type)
        default = defaults.get(name, "")
        if default == "None" and not kind.endswith("None") and kind != "Any":
            kind += " | None"
        if i == declaration.keyword_from:
            parts.append("*")
        parts.append(f"{name}: {kind}" + (f" = {default}" if default else ""))
    return ", ".join(parts)


def function_stub(name: str, declaration: Declaration | None, doc: str) -> str:
    """Returns the stub of one function."""
    if declaration is None:
        text = f"def {name}(*args: Any, **kwargs: Any) -> Any:"
    else:
        result = python_type(declaration.result, True) if declaration.result else "Any"
        text = f"def {name}({_parameters(declaration)}) -> {result}:"
        doc = doc or declaration.doc
    if not doc:
        return f"{text} ...\n"
    body = doc.replace("\\", "\\\\").replace('"""', '\\"\\"\\"').strip()
    body = body.replace("\n", "\n    ")
    return f'{text}\n    """{body}"""\n'


def _string(text: str) -> str | None:
    match = re.fullmatch(r'\s*"((?:[^"\\]|\\.)*)"\s*', text)
    return match.group(1).replace('\\"', '"') if match else None


def _lambda(text: str) -> Declaration | None:
    """Parses `[](Tensor x) -> Tensor {...}`."""
    match = re.match(r"\s*\[[^\]]*\]\s*\(", text)
    if match is None:
        return None
    close = _declarations.matching(text, match.end() - 1)
    if close < 0:
        return None
    result = re.match(r"\s*(?:mutable\s*)?(?:->\s*([^{]+))?\{", text[close + 1 :])
    kind = (result.group(1) or "").strip() if result else ""
    return Declaration(kind, _declarations.parse_parameters(text[match.end() : close]), "")


def _named(declaration: Declaration, names: str) -> Declaration:
    """Applies the parameter string of `m.def("f", &f, "x, alpha=1.0")` to a declaration."""
    given = [n for n in _declarations.split_commas(names) if n != "/"]
    star = given.index("*") if "*" in given else None
    given = [n for n in given if n != "*"]
    if len(given) != len(declaration.parameters):
        return declaration
    parameters = []
    for text, old in zip(given, declaration.parameters, strict=True):
        name, _, default = text.partition("=")
        parameters.append(Parameter(old.type, name.strip(), default.strip() or old.default))
    return declaration._replace(parameters=tuple(parameters), keyword_from=star)


def _schema(text: str) -> tuple[str, Declaration | None]:
    """Splits torch's `m.def("f(Tensor x, float a=1) -> Tensor")` into name and declaration."""
    name, bracket, _ = text.partition("(")
    if not bracket:
        return text, None
    arguments, _, result = text[len(name) + 1 :].rpartition(") -> ")
    parameters: list[Parameter] = []
    star = None
    for part in _declarations.split_commas(arguments):
        if part == "*":
            star = len(parameters)
        match = re.fullmatch(r"(.+?)\s+(\w+)\s*(?:=\s*(.*))?", part)
        if match is None:
            continue
        parameters.append(
            Parameter(_schema_type(match.group(1)), match.group(2), match.group(3) or "")
        )
    return name.rpartition("::")[2].strip(), Declaration(
        _schema_type(result), tuple(parameters), "", star
    )


def _schema_type(text: str) -> str:
    text = re.sub(r"\([a-z]*!?\)", "", text.strip())
    if text.endswith("?"):
        return f"optional<{_schema_type(text[:-1])}>"
    if text.startswith("(") and text != "()":
        return f"tuple<{', '.join(map(_schema_type, text[1:-1].split(',')))}>"
    if text.endswith("]"):
        return f"vector<{_schema_type(text[: text.rindex('[')])}>"
    return {"float": "double", "str": "string", "()": "void", "": "void"}.get(text, text)


def definitions(source: Code) -> Iterator[tuple[str, Declaration | None, str]]:
    """Yields the registrations of a source: (name, declaration or None, docstring)."""
    for match in _DEFINITION.finditer(source.shape):
        close = _declarations.matching(source.shape, match.end() - 1)
        if close < 0:
            continue
        arguments = _declarations.split_commas(source.code[match.end() : close])
        first = _string(arguments[0]) if arguments else None
        if first is None:
            continue
        name, declaration = _schema(first)
        rest = arguments[1:]
        if match["template"]:
            declaration = _declarations.find_struct(source, match["template"][1:-1].strip())
        elif rest and _string(rest[0]) is None:
            target = rest.pop(0).lstrip("&").strip()
            found = _lambda(target)
            if found is None and re.fullmatch(r"[\w:]+", target):
                owner, _, method = target.rpartition("::")
                found = (
                    _declarations.find_struct(source, owner)
                    if method == "apply"
                    else _declarations.find_function(source, target)
                )
            declaration = declaration or found
        strings = [s for s in map(_string, rest) if s is not None]
        named = [a for a in rest if re.match(r"(?:py|pybind11)::arg\(|::pybind11::arg\(", a)]
        doc = strings[-1] if strings else ""
        if declaration is not None and strings and not named and "PYBIND11" not in source.code:
            declaration = _named(declaration, strings[0])
            doc = strings[1] if len(strings) > 1 else ""
        yield name, declaration, doc


def module_stub(job: Job) -> str:
    """Returns the complete stub of a job's module."""
    stubs: dict[str, str] = {}
    for source in job.sources:
        if source.language == "link" or not _BLOCK.search(source.text):
            continue
        for name, declaration, doc in definitions(_declarations.read(source.text)):
            if name.isidentifier() and name not in stubs:
                stubs[name] = function_stub(name, declaration, doc)
    text = "\n".join(stubs.values())
    head = [f'"""{job.name}: a cograd extension; written by cograd.utils.cpp_extension."""', ""]
    imports = [n for n in ("Mapping", "Sequence") if re.search(rf"\b{n}\[", text)]
    if imports:
        head.append(f"from collections.abc import {', '.join(imports)}")
    if re.search(r"\bAny\b", text):
        head.append("from typing import Any")
    ours = [n for n in ("Tensor", "device", "dtype") if re.search(rf"\b{n}\b", text)]
    if ours:
        head += [*([""] if len(head) > 2 else []), f"from cograd import {', '.join(ours)}"]
    return "\n".join([*head, "", text]).rstrip("\n") + "\n"
