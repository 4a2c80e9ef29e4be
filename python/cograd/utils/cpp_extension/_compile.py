# SPDX-License-Identifier: BSD-3-Clause
"""Runs compilers in parallel, and shortens the output of one that fails to the relevant lines."""

from __future__ import annotations

import os
import queue
import re
import shlex
import subprocess
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from cograd._base.progress import Progress
from cograd.utils.cpp_extension import _cache
from cograd.utils.cpp_extension._job import GENERATED, CompileError, Job


class Command(NamedTuple):
    """A command to run.

    Attributes:
        args: its arguments.
        label: its name in messages.
        folder: its working directory, "" for the common one.
        optional: whether the others continue if it fails; it is killed if one of them fails.
    """

    args: list[str]
    label: str
    folder: str = ""
    optional: bool = False


class Result(NamedTuple):
    """The exit status of a command and everything it printed."""

    command: Command
    status: int
    output: str


def max_jobs(count: int) -> int:
    """Returns how many of `count` compilers run at once: MAX_JOBS, or the available cores.

    Raises:
        ValueError: MAX_JOBS is not a positive number.
    """
    given = os.environ.get("MAX_JOBS", "").strip()
    if given:
        if not given.isdigit() or int(given) < 1:
            raise ValueError(f"MAX_JOBS={given!r}: expected a positive number")
        return max(1, min(int(given), count))
    return max(1, min(len(os.sched_getaffinity(0)), count))


def run_all(
    commands: Sequence[Command],
    folder: str,
    *,
    title: str,
    verbose: bool = False,
    beat: Callable[[], None] | None = None,
) -> list[Result]:
    """Runs commands in parallel; starts no further one after the first failure.

    Args:
        commands: the commands to run.
        folder: the working directory.
        title: for the progress line.
        verbose: prints each command and its output.
        beat: called about once a second.

    Returns:
        The results of the commands that ran, in the order of `commands`.
    """
    finished: queue.SimpleQueue[tuple[int, Result]] = queue.SimpleQueue()
    processes: dict[int, subprocess.Popen[bytes]] = {}
    env = {**os.environ, "LC_ALL": "C"}

    def follow(index: int, process: subprocess.Popen[bytes]) -> None:
        output = process.communicate()[0].decode("utf-8", errors="replace")
        finished.put((index, Result(commands[index], process.returncode, output)))

    def start(index: int) -> None:
        if verbose:
            print(f"cograd: {shlex.join(commands[index].args)}", flush=True)
        process = subprocess.Popen(
            commands[index].args,
            cwd=commands[index].folder or folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        processes[index] = process
        threading.Thread(target=follow, args=(index, process), daemon=True).start()

    waiting = list(range(len(commands)))
    limit = max_jobs(len(commands))
    results: dict[int, Result] = {}
    progress = Progress(f"cograd: building {title}", len(commands))
    failed = False
    try:
        while processes or (waiting and not failed):
            while waiting and len(processes) < limit and not failed:
                start(waiting.pop(0))
            try:
                index, result = finished.get(timeout=0.25)
            except queue.Empty:
                if beat is not None:
                    beat()
                progress.update(len(results), ", ".join(commands[i].label for i in processes))
                continue
            del processes[index]
            results[index] = result
            failed = failed or (result.status != 0 and not result.command.optional)
            if failed:
                for i, process in processes.items():
                    if commands[i].optional:
                        process.kill()
            if verbose and result.output.strip():
                print(result.output.rstrip(), flush=True)
    finally:
        progress.close()
        for process in processes.values():  # an exception, such as Ctrl-C
            process.kill()
            process.wait()
    return [results[i] for i in sorted(results)]


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
_AMBIGUOUS = re.compile(
    r"error: (?:reference to|call of overloaded|call to) ['‘](\w+)(?:\([^'’]*\))?['’] is ambiguous"
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
    """Drops errors inside a library that have the same origin in the user's code."""
    seen: set[str] = set()
    result = []
    for i in errors:
        block = blocks[i]
        if _cache.is_system(block.file):
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
    return "\n".join(x if len(x) <= MAX_WIDTH else x[:MAX_WIDTH] + " ..." for x in shown)


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
    missing = re.findall(r"functions:\d+:.*error: ['‘](\w+)['’] (?:was not|has not)", output)
    # A function whose declaration has an error is not missing: that error is the cause.
    written = "" if not _blocks_elsewhere(output) else "\n".join(part for _, part in job.parts)
    for name in dict.fromkeys(missing):
        if not re.search(rf"\b{name}\s*\(", written):
            hints.append(f"functions names {name!r}, but the sources do not declare it")
    if f"{GENERATED}:" in output and not missing:
        hints.append(
            "the error is in the code that registers `functions`: a parameter or result has a "
            "type that cograd cannot convert, or the function is overloaded"
        )
    return hints


def _blocks_elsewhere(output: str) -> bool:
    """Returns whether there are errors outside the code that registers functions."""
    return any(b.kind == "error" and b.file != GENERATED for b in _blocks(output))


def _ambiguous(output: str) -> list[str]:
    """Returns hints for names of the user's that are cograd's, too."""
    return [
        f"{name!r} is also cograd::{name}: rename yours, or name what you use of cograd instead of "
        "`using namespace cograd;`"
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
    bad = {re.sub(r"\s|, ?void>$|>$", "", t) for t in _ARGUMENT.findall(output)}
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
    std = re.findall(r"error: ['‘](\w+)['’] is not a member of ['‘]std['’]", output)
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
    match = re.search(r"fatal error: ([^:]+): No such file", output)
    if match:
        header = match.group(1)
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
