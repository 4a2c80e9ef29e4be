# SPDX-License-Identifier: BSD-3-Clause
"""Converts C++ from strings to one translation unit that registers its functions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cograd.utils.cpp_extension._job import GENERATED, Job, Source

if TYPE_CHECKING:
    from cograd.utils.cpp_extension._read_cpp import Declaration

MAIN = "main.cpp"


def function_docs(
    functions: str | Sequence[str] | Mapping[str, str] | None,
) -> dict[str, str] | None:
    """Returns {C++ name: docstring or ""} for the argument `functions`.

    Raises:
        TypeError: not a string, a list of strings or a dict of strings.
        ValueError: a name is not a C++ name.
    """
    if functions is None:
        return None
    if isinstance(functions, str):
        functions = [functions]
    if isinstance(functions, Mapping):
        result = dict(functions)
    elif isinstance(functions, Sequence):
        result = dict.fromkeys(functions, "")
    else:
        raise TypeError(
            "functions: expected a name, a list of names or a dict from name to docstring, got "
            f"{type(functions).__name__}"
        )
    for name, doc in result.items():
        if not isinstance(name, str) or not isinstance(doc, str):
            raise TypeError(f"functions: expected strings, got {name!r}: {doc!r}")
        if not re.fullmatch(r"(?:::)?[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*", name):
            raise ValueError(f"functions: {name!r} is not the name of a C++ function")
    return result


def quote(text: str) -> str:
    """Returns a C++ string literal."""
    if "\n" in text or len(text) > 200:
        delimiter = "doc"
        while f'){delimiter}"' in text:
            delimiter += "_"
        return f'R"{delimiter}({text}){delimiter}"'
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\r", "") + '"'


def registration(code: str, functions: Mapping[str, str], name: str, python: bool) -> str:
    """Returns the C++ code that registers functions, as ops of `name` or as a pybind11 module."""
    from cograd.utils.cpp_extension import _read_cpp

    source = _read_cpp.read(code)
    lines = []
    for function, given in functions.items():
        short = function.rpartition("::")[2]
        struct = _read_cpp.find_struct(source, function)
        found = struct or _read_cpp.find_function(source, function)
        doc = given or (found.doc if found else "")
        if python:
            lines.append(_pybind(function, short, found, struct is not None, doc))
            continue
        arguments = [quote(short)]
        if struct is None:
            arguments.append(f"&{function}")
        arguments.append(quote(_read_cpp.signature(found)) if found else '""')
        if doc:
            arguments.append(quote(doc))
        template = f"<{function}>" if struct is not None else ""
        lines.append(f"  m.def{template}({', '.join(arguments)});")
    opening = f"PYBIND11_MODULE({name}, m) {{" if python else f"COGRAD_LIBRARY({name}, m) {{"
    return "\n".join([opening, *lines, "}", ""])


def _pybind(
    function: str,
    short: str,
    found: Declaration | None,
    is_struct: bool,
    doc: str,
) -> str:
    from cograd.utils.cpp_extension import _read_cpp

    target = f"&{function}::apply" if is_struct else f"&{function}"
    arguments = [quote(short), target, quote(doc or short)]
    if found is not None and all(p.name for p in found.parameters) and not is_struct:
        for i, parameter in enumerate(found.parameters):
            argument = f"::pybind11::arg({quote(_read_cpp.python_name(parameter.name, i))})"
            default = f" = {parameter.default}" if parameter.default else ""
            if default and parameter.default.startswith("{"):
                kind = re.sub(r"^const |[&]+$", "", parameter.type).strip()
                default = f" = {kind}{parameter.default}"
            arguments.append(argument + default)
    return f"  m.def({', '.join(arguments)});"


class Kernels:
    """Texts in CUDA C++ that are compiled when their kernels are first called."""

    def __init__(self, texts: Sequence[str], options: Sequence[str]) -> None:
        several = len(texts) > 1
        labels = [f"cuda_sources[{i}]" if several else "cuda_sources" for i in range(len(texts))]
        for label, text in zip(labels, texts, strict=True):
            _refuse_host_code(label, text)
        self.text = "\n".join(
            f'#line 1 "{label}"\n{text}' for label, text in zip(labels, texts, strict=True)
        )
        self.options = list(options)

    def names(self) -> list[str]:
        """Returns the names of kernels that are no templates; raises if one cannot be called."""
        from cograd import _C

        names = _C._cuda_kernel_names(self.text)
        for name in names:
            _C._cuda_kernel(self.text, name, self.options, [])
        return names

    def declarations(self) -> str:
        """Returns C++ that declares the kernels as objects, and their text as `cuda_text`."""
        options = ", ".join(quote(option) for option in self.options)
        lines = [
            "#include <cograd/cuda.h>",
            f"static const char* const cuda_text = {quote(self.text)};",
        ]
        lines += [
            f"[[maybe_unused]] static const ::cograd::cuda::Kernel {name}(cuda_text, "
            f'"{name}", {{{options}}});'
            for name in self.names()
        ]
        return "\n".join([*lines, ""])


_HOST_CODE = re.compile(
    r"<<<|^[ \t]*#[ \t]*include[ \t]*<(?:torch|ATen|c10|cograd/extension)", re.M
)


def _refuse_host_code(label: str, text: str) -> None:
    """Raises NotImplementedError for what nvcc would compile for the CPU."""
    found = _HOST_CODE.search(text)
    if found:
        line = text.count("\n", 0, found.start()) + 1
        raise NotImplementedError(
            f"{label}:{line}: '{found[0].strip()}' is code for the CPU, but NVRTC compiles "
            "cuda_sources for the GPU alone. Call the kernel in cpp_sources by its name: "
            "scale(cograd::cuda::threads(n), y, x, n)"
        )


def make_job(
    name: str,
    cpp_sources: Sequence[str],
    functions: Mapping[str, str] | None,
    *,
    kernels: Kernels | None = None,
    no_implicit_headers: bool,
    caller: str,
    **options: object,
) -> Job:
    """Returns the job that compiles inline sources."""
    several = len(cpp_sources) > 1
    parts = [
        (f"cpp_sources[{i}]" if several else "cpp_sources", text)
        for i, text in enumerate(cpp_sources)
    ]
    code = "\n".join(cpp_sources)
    source = Source(MAIN, None, code.encode(), "c++")
    job = Job(name, [source], **options)  # type: ignore[arg-type]
    if functions:
        job.registers = True
        job.has_python_entry = job.uses_python
    declared = kernels.declarations() if kernels else ""
    job.extra = (tuple((functions or {}).items()), no_implicit_headers, declared)
    job.parts = parts
    job.caller = caller
    job.prepare = lambda: _write_unit(job, source, functions or {}, no_implicit_headers, declared)
    return job


def _write_unit(
    job: Job,
    source: Source,
    functions: Mapping[str, str],
    no_implicit_headers: bool,
    kernels: str,
) -> None:
    """Writes the source text to compile; not called if the result is cached."""
    chunks: list[str] = []
    if not no_implicit_headers:
        if job.torch_compat:
            chunks.append("#include <torch/extension.h>\n")
        else:
            header = "cograd/python.h" if job.uses_python else "cograd/extension.h"
            chunks.append(f"#include <{header}>\n")
    if kernels:
        chunks.append(f'#line 1 "{GENERATED}"\n{kernels}')
    for label, text in job.parts:
        chunks.append(f'#line 1 "{label}"\n{text}\n')
        job.files[label] = text.encode()
    if functions:
        code = "\n".join(text for _, text in job.parts)
        generated = registration(code, functions, job.name, job.uses_python)
        chunks.append(f'#line 1 "{GENERATED}"\n{generated}')
        job.files[GENERATED] = generated.encode()
    source.data = "".join(chunks).encode()
    job.files[MAIN] = source.data
