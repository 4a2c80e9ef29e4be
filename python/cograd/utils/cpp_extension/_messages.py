# SPDX-License-Identifier: BSD-3-Clause
"""Shortens the output of a compiler that fails to the relevant lines, and adds hints."""

from __future__ import annotations

import difflib
import os
import re
import shlex

from cograd.utils.cpp_extension import _cache
from cograd.utils.cpp_extension._compile import Result
from cograd.utils.cpp_extension._job import GENERATED, CompileError, Job

MAX_ERRORS = 5
MAX_LINES = 60
MAX_WIDTH = 300

_HEAD = re.compile(
    r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:(?P<col>\d+):)? "
    r"(?P<kind>fatal error|error|warning|note): "
)
_CONTEXT = re.compile(
    r"^(In file included from |                 from |[^\s:][^:\n]*: In |[^\s:][^:\n]*: At |"
    r"[^\s:][^:\n]*:\d+(?::\d+)?:\s+(?:required|recursively required|in ))"
)
_LINKER = re.compile(
    r"undefined reference|multiple definition|cannot find|relocation|undefined symbol|"
    r"duplicate symbol|ld returned|error:|cc1\w*: |: fatal|: No such file|unrecognized"
)

_UNKNOWN = re.compile(
    r"error: (?:unknown type name ['‘](\w+)['’]|['‘](\w+)['’] "
    r"(?:does not name a type|was not declared|has not been declared))"
)
# Names that are most often written without their namespace.
_PUBLIC = frozenset("ArrayRef IntArrayRef Scalar Tensor TensorOptions".split())

# A static_assert of cograd's headers says what to write.
_ASSERTED = re.compile(r"/cograd/[\w/]+\.h:\d+:\d+: error: static(?: assertion|_assert) failed")
# The type that such an assertion is about, and the line of the program that led to it.
_ARGUMENT = re.compile(r"[Ii]n instantiation of .*?\bext::Argument<(.+)['’]")
_REQUIRED = re.compile(
    r"^([\w.\[\]/-]+):(\d+):\d+:\s+(?:required from here|note: in instantiation)", re.M
)
_DEFINED = re.compile(
    r"\.def\s*(?:<\s*(?P<struct>[\w:]+)\s*>)?\(\s*\"(?P<op>[\w.]+)\"(?:,\s*&?(?P<function>[\w:]+))?"
)
_CLASH = (
    "'{0}' is also cograd::{0}: rename yours, or name what you use of cograd instead of "
    "`using namespace cograd;`"
)
_AMBIGUOUS = re.compile(
    r"error: (?:reference to|call of overloaded|call to) ['‘](\w+)(?:\([^'’]*\))?['’] is ambiguous"
)


_NOT_IN_STD = re.compile(
    r"error: (?:['‘](\w+)['’] is not a member of ['‘]std['’]|"
    r"no (?:template|member|type) named ['‘](\w+)['’] in namespace ['‘]std['’])"
)


class _Block:
    """A diagnostic: the context lines above it, its own lines, and what kind it is."""

    def __init__(self, context: list[str], kind: str, file: str) -> None:
        self.context, self.kind, self.file = context, kind, file
        self.lines: list[str] = []


def _blocks(output: str) -> list[_Block]:
    blocks: list[_Block] = []
    context: list[str] = []
    for line in output.splitlines():
        head = _HEAD.match(line)
        if head:
            kind = "error" if "error" in head["kind"] else head["kind"]
            blocks.append(_Block(context, kind, head["file"]))
            blocks[-1].lines.append(line)
            context = []
        elif _CONTEXT.match(line):
            context.append(line)
        elif blocks and not context:
            blocks[-1].lines.append(line)
        else:
            context.append(line)
    return blocks


def _own(line: str) -> bool:
    """True if a context line is about the user's code rather than a library's."""
    match = re.search(r"(?:from |^)([^\s:][^:]*):", line)
    return match is None or not _cache.is_system(os.path.normpath(match.group(1)))


def _show(block: _Block) -> list[str]:
    own = [c for c in block.context if _own(c) and not c.startswith((" ", "In file"))]
    if _cache.is_system(block.file):
        own += [c for c in block.context if _own(c) and c.startswith((" ", "In file"))]
    limit = 12 if block.kind == "error" else 4
    return own[:6] + block.lines[:limit]


def _distinct(blocks: list[_Block], errors: list[int]) -> list[int]:
    """Drops errors inside a library that have the same origin, or follow from an assertion."""
    seen: set[str] = set()
    result = []
    asserted = any(_ASSERTED.search(blocks[i].lines[0]) for i in errors)
    for i in errors:
        block = blocks[i]
        if _cache.is_system(block.file):
            said = block.lines[0]
            if said in seen or (asserted and not _ASSERTED.search(said)):
                continue
            seen.add(said)
            origin = [c for c in block.context if _own(c) and "required" in c]
            if origin and origin[-1] in seen:
                continue
            seen.update(origin[-1:])
        result.append(i)
    return result


def trim(output: str) -> str:
    """Returns the errors of a compiler's or linker's output with the notes next to them."""
    blocks = _blocks(output)
    errors = [i for i, b in enumerate(blocks) if b.kind == "error"]
    errors = _distinct(blocks, errors)
    shown: list[str] = []
    for i in errors[:MAX_ERRORS]:
        shown += _show(blocks[i])
        notes = 0
        for note in blocks[i + 1 :]:
            if note.kind != "note" or notes == 3:
                break
            if not _cache.is_system(note.file) or notes == 0:
                shown += _show(note)
                notes += 1
    if not errors:
        lines = output.splitlines()
        shown = [line for line in lines if _LINKER.search(line)] or lines[-MAX_LINES:]
    if len(errors) > MAX_ERRORS:
        shown.append(f"... and {len(errors) - MAX_ERRORS} more errors")
    if len(shown) > MAX_LINES:
        shown = [*shown[:MAX_LINES], f"... and {len(shown) - MAX_LINES} more lines"]
    return "\n".join(x if len(x) <= MAX_WIDTH else _shortened(x) for x in shown)


def _shortened(line: str) -> str:
    """Returns the start of a long line; of an assertion, what it says."""
    match = _ASSERTED.search(line)
    said = re.search(r"\".*\"\s*$", line) if match else None
    if match and said:
        return f"{line[: match.end()]}: {said[0]}"
    return line[:MAX_WIDTH] + " ..."


def _where(job: Job) -> list[str]:
    """Returns the line of the Python file at which each inline source starts."""
    if not job.caller or not job.parts:
        return []
    try:
        with open(job.caller, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return []
    result = []
    for label, part in job.parts:
        at = text.find(part) if part.strip() else -1
        if at >= 0:
            line = text.count("\n", 0, at) + 1
            result.append(f"line 1 of {label} is line {line} of {job.caller}")
    return result


def _undeclared(job: Job, output: str) -> list[str]:
    """Returns hints for cograd's names without their namespace, and for undeclared functions."""
    hints = []
    unknown = (match.group(1) or match.group(2) for match in _UNKNOWN.finditer(output))
    for name in dict.fromkeys(unknown):
        if name in _PUBLIC:
            hints.append(f"write cograd::{name}, or `using namespace cograd;` above its first use")
    missing = re.findall(
        r"functions:\d+:.*error: (?:use of undeclared identifier )?['‘](\w+)['’]"
        r"(?: (?:was not|has not)|; did you mean|$)",
        output,
        re.M,
    )
    # A function whose declaration has an error is not missing: that error is the cause.
    written = "" if not _blocks_elsewhere(output) else "\n".join(part for _, part in job.parts)
    for name in dict.fromkeys(missing):
        if not re.search(rf"\b{name}\s*\(", written):
            hints.append(f"functions names {name!r}, but the sources do not declare it")
            near = difflib.get_close_matches(name, _declared(job), 1)
            hints[-1] += f": did you mean {near[0]!r}?" if near else ""
    if f"{GENERATED}:" in output and not missing:
        hints += _unregistered(job, output) or [
            "the error is in the code that registers `functions`: a parameter or result has a "
            "type that cograd cannot convert, or the function is overloaded"
        ]
    return hints


def _declared(job: Job) -> list[str]:
    """Returns names that may be functions or structs of the sources."""
    text = "\n".join(part for _, part in job.parts)
    return re.findall(r"\b(?:struct|class)\s+(\w+)", text) + re.findall(r"\b(\w+)\s*\(", text)


def _unregistered(job: Job, output: str) -> list[str]:
    """Returns hints on why an error is at the registration of a function, if that is known."""
    from cograd import _C
    from cograd.utils.cpp_extension import _read_cpp

    code = _read_cpp.read("\n".join(part for _, part in job.parts))
    lines = job.files.get(GENERATED, b"").decode(errors="replace").splitlines()
    hints = []
    for line in sorted(
        {int(n) for n in re.findall(rf"^{GENERATED}:(\d+):.*error: ", output, re.M)}
    ):
        match = _DEFINED.search(lines[line - 1]) if 0 < line <= len(lines) else None
        name = match and (match["struct"] or match["function"])
        if not name:
            continue
        if re.search(rf"\b(?:struct|class)\s+{name}\b", code.shape):
            hints.append(
                f"{name} is a struct that does not derive from cograd::autograd::Function<{name}>: "
                "only functions and such structs are ops"
            )
        elif re.search(rf"\btemplate\s*<[^;{{}}]*>[^;{{}}()]*\b{name}\s*\(", code.shape):
            hints.append(f"{name} is a template: write a function for the types that the op takes")
        elif len(re.findall(rf"\w[\s&*>]+{name}\s*\([^;{{}}]*\)\s*\{{", code.shape)) > 1:
            hints.append(f"{name} is overloaded: give each function a name of its own")
        elif hasattr(_C._ops, name) and re.search(r"\busing\s+namespace\s+cograd\s*;", code.shape):
            hints.append(_CLASH.format(name))
    return hints


def _blocks_elsewhere(output: str) -> bool:
    """Returns whether there are errors outside the code that registers functions."""
    return any(b.kind == "error" and b.file != GENERATED for b in _blocks(output))


def _ambiguous(output: str) -> list[str]:
    """Returns hints for names of the user's that are cograd's, too."""
    return [
        _CLASH.format(name)
        for name in dict.fromkeys(_AMBIGUOUS.findall(output))
        if re.search(
            rf"\bcograd::(?:\w+::)*{name}\b|/cograd/\w+\.\w+:\d+:\d+: note: .*\n.*\b{name}\b",
            output,
        )
    ]


def _unknown_parameters(job: Job, output: str) -> list[str]:
    """Returns hints that name the op and the parameter whose type ops do not take."""
    from cograd.utils.cpp_extension import _read_cpp

    if "this parameter type is not known" not in output:
        return []
    code = _read_cpp.read("\n".join(data.decode(errors="replace") for data in job.files.values()))
    bad = {re.sub(r"\bconst\b|\s|, ?void>$|>$", "", t) for t in _ARGUMENT.findall(output)}
    hints = []
    for label, line in dict.fromkeys(_REQUIRED.findall(output)):
        text = job.files.get(label, b"").decode(errors="replace").splitlines()
        match = _DEFINED.search(text[int(line) - 1]) if int(line) <= len(text) else None
        if match is None:
            continue
        found = _read_cpp.find_struct(code, match["struct"]) if match["struct"] else None
        found = found or _read_cpp.find_function(code, match["function"] or match["op"])
        for parameter in found.parameters if found else ():
            plain = re.sub(r"\bconst\b|[&\s]", "", parameter.type)
            if plain in bad:
                hints.append(
                    f"parameter {parameter.name!r} of op {match['op']!r} has the type "
                    f"{parameter.type}, which an op cannot take"
                )
    return hints


def _hints(job: Job, output: str) -> list[str]:
    if _ASSERTED.search(output):
        return _unknown_parameters(job, output)
    hints = _ambiguous(output) or _undeclared(job, output)
    std = [a or b for a, b in _NOT_IN_STD.findall(output)]
    if std:
        headers = "<cmath>, <algorithm>, <memory> and the like are not among cograd's headers"
        hints.append(f"include the standard header that declares std::{std[0]}: {headers}")
    spelled = re.search(r"no member named ['‘]((?:to|is)[A-Z]\w*)['’]", output)
    if spelled and not job.torch_compat:
        own = re.sub(r"([A-Z])", r"_\1", spelled[1]).lower()
        hints.append(
            f"{spelled[1]} is torch's name; cograd's has the form {own}. with_torch_compat=True "
            "adds torch's names"
        )
    undefined = dict.fromkeys(re.findall(r"undefined reference to [`'‘]([^'’`]+)['’]", output))
    for name in list(undefined)[:3]:
        hints.append(f"{name} is declared but not defined in the sources or linked libraries")
    match = re.search(r"fatal error: (?:([^:'\n]+): No such file|'([^']+)' file not found)", output)
    if match:
        header = match[1] or match[2]
        if header == "Python.h":
            hints.append("install Python's headers, for example: apt-get install python3-dev")
        elif header.startswith("pybind11/"):
            hints.append("install pybind11: pip install pybind11")
        elif header.startswith(("torch/", "ATen/", "c10/")) and not job.torch_compat:
            hints.append("pass with_torch_compat=True for cograd's version of torch's headers")
        elif header.startswith(("torch/", "ATen/", "c10/")):
            hints.append(f"cograd has no counterpart of torch's header {header}")
        else:
            hints.append("add the directory that contains it to extra_include_paths")
    return hints


def save_log(job: Job, text: str) -> str | None:
    """Writes the complete output beside the entries and returns the path."""
    path = os.path.join(job.directory, "last_error.log")
    temporary = f"{path}.{os.getpid()}"
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError:
        return None
    return path


def failure(job: Job, results: list[Result], folder: str) -> CompileError:
    """Returns the exception for a build with failed commands."""
    failed = [r for r in results if r.status != 0]
    parts = [f"Error building extension {job.name!r}"]
    whole = []
    for result in failed:
        command = shlex.join(result.command.args)
        output = result.output.replace(folder + os.sep, "")
        whole.append(f"{command}\n{result.output}")
        status = f"exit status {result.status}"
        if result.status < 0 or "Killed signal" in output:
            status = f"killed by signal {-result.status if result.status < 0 else 9}"
            if status.endswith(" 9"):
                status += "; most likely memory ran out, try MAX_JOBS=1"
        parts.append(f"{result.command.label} ({status}):\n{trim(output)}".rstrip())
        parts += [f"hint: {hint}" for hint in _hints(job, output)]
    parts += [f"where: {where}" for where in _where(job)]
    text = "\n\n".join(whole)
    log = save_log(job, text)
    command = shlex.join(failed[0].command.args)
    parts.append(f"command: {command}")
    if log:
        parts.append(f"the whole output is in {log}")
    return CompileError("\n".join(parts), job.name, command, text, log)
