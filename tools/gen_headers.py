# SPDX-License-Identifier: BSD-3-Clause
"""Writes the C++ functions and methods of every op (csrc/include/cograd/ops*) from the op table.

With --check, gen_headers.py writes nothing and reports the files that differ from the installed
build.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import cograd._C as _C

ROOT = Path(__file__).resolve().parents[1]
INCLUDE = ROOT / "csrc" / "include" / "cograd"

CPP_KEYWORDS = {
    "bool",
    "char",
    "double",
    "float",
    "int",
    "long",
    "short",
    "and",
    "or",
    "not",
    "xor",
}
DEFAULT = "ext::box_default()"
FACTORY = ["dtype", "layout", "device", "pin_memory", "requires_grad"]
TYPES = {
    "Tensor": ("const Tensor&", "const Tensor&"),
    "TensorOrScalar": ("const TensorOrScalar&", "const std::optional<TensorOrScalar>&"),
    "Tensors": ("TensorList", "TensorList"),
    "Scalar": ("const Scalar&", "const std::optional<Scalar>&"),
    "Int": ("int64_t", "std::optional<int64_t>"),
    "Double": ("double", "std::optional<double>"),
    "Bool": ("bool", "std::optional<bool>"),
    "Dim": ("int64_t", "std::optional<int64_t>"),
    "Ints": ("const Ints&", "const OptInts&"),
    "Dims": ("const Ints&", "const OptInts&"),
    "Shape": ("const Ints&", "const OptInts&"),
    "DType": ("DType", "std::optional<DType>"),
    "String": ("std::string_view", "std::optional<std::string_view>"),
}
# The functions ext::box_*, which make a cograd_value of an argument, are no overloads of one name:
# overload resolution would take most of the time to parse the headers.
BOXES = {
    "Tensor": "tensor",
    "TensorOrScalar": "operand",
    "Tensors": "tensors",
    "Scalar": "scalar",
    "Int": "int",
    "Double": "double",
    "Bool": "bool",
    "Dim": "int",
    "Ints": "ints",
    "Dims": "ints",
    "Shape": "ints",
    "DType": "dtype",
    "String": "string",
}
RESERVED = {"default": "default_"}
SHORT = ("arange", "eye")  # factories that torch also has with fewer parameters before the options


class Parameter:
    """Holds a C++ parameter: its declaration with the default, and the expression that boxes it."""

    def __init__(self, arg: dict[str, Any]) -> None:
        nullable = arg["nullable"] or arg["default"] == "None"
        self.name = RESERVED.get(arg["name"], arg["name"])
        if self.name in CPP_KEYWORDS:
            self.name += "_"
        self.type = TYPES[arg["kind"]][1 if nullable else 0]
        self.default = default_of(arg)
        self.box = (
            f"ext::box_{'opt_' if nullable and arg['kind'] != 'Tensor' else ''}{BOXES[arg['kind']]}"
        )

    def declaration(self) -> str:
        tail = "" if self.default is None else f" = {self.default}"
        return f"{self.type} {self.name}{tail}"


def default_of(arg: dict[str, Any]) -> str | None:
    """Returns the default of a parameter as C++ text; None if it has no default."""
    text = arg["default"]
    if text is None:
        return None
    if text == "None":
        return "{}" if arg["kind"] in ("Tensor", "Ints", "Dims", "Shape") else "std::nullopt"
    if text in ("True", "False"):
        value = text.lower()
    elif text == "()":
        value = "{}"
    elif text[0] in "'\"":
        value = f'"{text[1:-1]}"'
    elif "inf" in text:
        value = "-__builtin_inf()" if text.startswith("-") else "__builtin_inf()"
    else:
        value = text
    if arg["kind"] in ("Scalar", "TensorOrScalar"):
        return f"Scalar({value})"
    return value


def result_type(record: dict[str, Any]) -> str:
    """Returns the C++ type of an op's result."""
    kind = record["result"]
    if kind == "Tensor":
        return "Tensor"
    if kind == "Tuple" and record["num_results"] > 1:
        return "std::tuple<" + ", ".join(["Tensor"] * record["num_results"]) + ">"
    if kind in ("List", "Tuple"):
        return "std::vector<Tensor>"
    return {"Bool": "bool", "Int": "int64_t", "Double": "double"}[kind]


class Op:
    """Writes an op record as C++ text."""

    def __init__(self, record: dict[str, Any]) -> None:
        self.name = record["name"]
        self.result = result_type(record)
        self.parameters: list[Parameter] = []
        self.passed: list[str] = []
        args = record["args"]
        names = [a["name"] for a in args]
        factory = names[names.index("dtype") :][:5] == FACTORY if "dtype" in names else False
        for arg in args:
            if factory and arg["name"] in FACTORY:
                self.add_factory(arg["name"])
            elif arg["kind"] in ("Generator", "Device") or arg["name"] in (
                "memory_format",
                "layout",
                "pin_memory",
                "non_blocking",
            ):
                self.passed.append(DEFAULT)
            else:
                p = Parameter(arg)
                self.parameters.append(p)
                self.passed.append(f"{p.box}({p.name})")
        while self.passed and self.passed[-1] == DEFAULT:
            self.passed.pop()

    def add_factory(self, name: str) -> None:
        if name == "dtype":
            options = {"name": "options", "kind": "Tensor", "nullable": False, "default": None}
            p = Parameter(options)
            p.type, p.default = "const TensorOptions&", "{}"
            self.parameters.append(p)
            self.passed.append("ext::box_opt_dtype(options.dtype_opt())")
        elif name == "device":
            self.passed.append("ext::box_device(options)")
        elif name == "requires_grad":
            self.passed.append("ext::box_bool(options.requires_grad())")
        else:
            self.passed.append(DEFAULT)

    def types(self) -> tuple[str, ...]:
        return tuple(p.type for p in self.parameters)

    def ordered(self) -> bool:
        """Returns True if no required parameter follows one with a default, as C++ requires."""
        seen = False
        for p in self.parameters:
            seen |= p.default is not None
            if seen and p.default is None:
                return False
        return True

    def function(self) -> str:
        params = ", ".join(p.declaration() for p in self.parameters)
        return (
            f"inline {self.result} {self.name}({params}) {{ "
            f'static ext::OpRef op("{self.name}"); '
            f"return {self.call(self.passed)}; }}\n"
        )

    def short_function(self) -> str:
        """Returns the overload without the defaults before `options`, as in eye(n, options)."""
        *others, options = self.parameters
        given = [p for p in others if p.default is None]
        params = ", ".join([*(p.declaration() for p in given), f"{options.type} {options.name}"])
        passed = ", ".join([p.default or p.name for p in others] + [options.name])
        return f"inline {self.result} {self.name}({params}) {{ return {self.name}({passed}); }}\n"

    def method(self, inplace: bool) -> str:
        name = self.name + ("_" if inplace else "")
        params = ", ".join(p.declaration() for p in self.parameters[1:])
        passed = [a.replace("(self)", "(*this)") for a in self.passed]
        body = f'static ext::OpRef op("{name}"); '
        if inplace:
            body += f"op.run({self.boxed(passed)}); return self();"
            return f"Tensor& {name}({params}) const {{ {body} }}\n"
        body += f"return {self.call(passed)};"
        return f"{self.result} {name}({params}) const {{ {body} }}\n"

    def call(self, passed: list[str]) -> str:
        """Returns the expression that calls the op.

        Only results other than one Tensor use a template, because every extension instantiates it.
        """
        if self.result == "Tensor":
            return f"op.tensor({self.boxed(passed)})"
        return f"ext::unboxed<{self.result}>(op.run_any({self.boxed(passed)}))"

    @staticmethod
    def boxed(passed: list[str]) -> str:
        return "{" + ", ".join(passed) + "}"


def usable(op: Op, record: dict[str, Any]) -> bool:
    """Returns True if a C++ function can have the op's name and parameters."""
    return op.ordered() and record["cpp"] and record["name"] not in CPP_KEYWORDS


def first_is_self(record: dict[str, Any]) -> bool:
    """Returns True if the op can be a method of Tensor."""
    args = record["args"]
    return (
        bool(args) and args[0]["kind"] in ("Tensor", "TensorOrScalar") and not args[0]["nullable"]
    )


def generate() -> dict[str, str]:
    """Returns the text of each generated file, by its name."""
    functions: list[str] = []
    methods: list[str] = []
    seen: set[tuple[Any, ...]] = set()
    # Sorts by name, because the table's order is that in which the files were linked.
    for record in sorted(_C._op_table(), key=lambda r: r["name"]):
        if record["internal"] and record["name"] not in ("zero", "linalg_vector_norm"):
            continue
        op = Op(record)
        if op.parameters and first_is_self(record):
            op.passed[0] = f"{op.parameters[0].box}(self)"
            op.parameters[0].name = "self"
        if not usable(op, record):
            continue
        key = ("f", op.name, op.types())
        public = record["function"] or record["namespace"] == "_nn"
        if key not in seen and public and not record["internal"]:
            seen.add(key)
            functions.append(op.function())
            if op.name in SHORT and len(op.parameters) > 2:
                functions.append(op.short_function())
        if not first_is_self(record):
            continue
        if record["method"] and ("m", *key[1:]) not in seen:
            seen.add(("m", *key[1:]))
            methods.append(op.method(inplace=False))
        if record["inplace"] and ("i", *key[1:]) not in seen:
            seen.add(("i", *key[1:]))
            methods.append(op.method(inplace=True))
    head = (
        "// SPDX-License-Identifier: BSD-3-Clause\n// Generated by tools/gen_headers.py: {what}\n"
    )
    return {
        "ops.h": head.format(what="every op as a function.")
        + '#pragma once\n#include "cograd/tensor.h"\n\n// clang-format off\n'
        + "namespace cograd {\ninline namespace abi1 {\n\n"
        + "".join(functions)
        + "\n}  // inline namespace abi1\n}  // namespace cograd\n",
        "ops_methods.inc": head.format(what="every op as a method; the inside of class Tensor.")
        + "// clang-format off\n"
        + "".join(methods),
    }


def main() -> int:
    """Writes or compares the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    status = 0
    for name, text in generate().items():
        path = INCLUDE / name
        if path.exists() and path.read_text() == text:
            continue
        if check:
            print(f"{path.relative_to(ROOT)} is out of date; run: make stubs")
            status = 1
        else:
            path.write_text(text)
            print(f"wrote {path.relative_to(ROOT)}")
    return status


if __name__ == "__main__":
    sys.exit(main())
