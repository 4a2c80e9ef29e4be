# SPDX-License-Identifier: BSD-3-Clause
"""A build's description, the part of its cache key known before compiling, and its errors."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import time
from collections.abc import Callable, Sequence

from cograd import _C, __version__
from cograd.utils.cpp_extension import _paths

GENERATED = "functions"  # the label of the code that load_inline adds
FORMAT = 1  # format of the cache; a change makes every older entry invisible
_C_SUFFIXES = (".c",)
_CXX_SUFFIXES = (".cpp", ".cc", ".cxx", ".c++", ".cp", ".C", ".CPP")
_LINKED_SUFFIXES = (".o", ".a", ".so", ".lo", ".obj")
_GPU_SUFFIXES = (".cu", ".cuh", ".hip", ".sycl", ".metal", ".mm")
_PATH_FLAGS = ("-I", "-L", "-isystem", "-iquote", "-include")
# Environment variables that the compiler and the linker read.
_ENVIRONMENT = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "GCC_EXEC_PREFIX")
_PYTHON = re.compile(
    r"\bPYBIND11_MODULE\b|\bPyMODINIT_FUNC\b|\bPyInit_\w|\bpy(?:bind11)?::|"
    r"#\s*include\s*[<\"](?:pybind11/|Python\.h|cograd/python\.h)"
)
_PYTHON_ENTRY = re.compile(r"\bPYBIND11_MODULE\b|\bPyMODINIT_FUNC\b|\bPyInit_\w")
_TORCH = re.compile(
    r"#\s*include\s*[<\"](?:torch|ATen|c10)/|\b(?:torch|at|c10)::\w|\b(?:TORCH|AT)_[A-Z]+\w*\s*\("
)
_REGISTERS = re.compile(r"\b(?:COGRAD|TORCH)_LIBRARY\w*\s*\(|\bcograd_op_register\s*\(")


def digest(data: bytes) -> str:
    """Returns 128 bits of BLAKE2 in hexadecimal."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def split_flags(flags: str | Sequence[str] | None, argument: str) -> list[str]:
    """Returns compiler flags as a list, with relative paths made absolute.

    A string is split as a shell would; so is an item that clearly contains several flags.


    Raises:
        TypeError: an item is not a string.
    """
    if flags is None:
        return []
    if isinstance(flags, str):
        flags = [flags]
        several = True
    else:
        several = False
    result: list[str] = []
    for flag in flags:
        if not isinstance(flag, str | os.PathLike):
            raise TypeError(
                f"{argument}: expected a list of strings, got an item of {type(flag).__name__}"
            )
        text = os.fspath(flag)
        if several or (text.startswith("-") and " -" in text):
            import shlex

            result += shlex.split(text)
        elif text:
            result.append(text)
    return _absolute(result)


def _absolute(flags: list[str]) -> list[str]:
    result: list[str] = []
    for i, flag in enumerate(flags):
        if i and flags[i - 1] in _PATH_FLAGS and not flag.startswith("-"):
            flag = os.path.abspath(flag)
        elif flag[:2] in ("-I", "-L") and len(flag) > 2 and not flag[2:].startswith(("=", "$")):
            flag = flag[:2] + os.path.abspath(flag[2:])
        elif not flag.startswith("-") and os.path.exists(flag):
            flag = os.path.abspath(flag)
        result.append(flag)
    return result


class Source:
    """One translation unit, or one object to link.

    Attributes:
        label: its name in diagnostics.
        path: the absolute path; None for text from Python.
        data: its content.
        language: "c++", "c", or "link" for objects and archives.
    """

    __slots__ = ("data", "label", "language", "path")

    def __init__(self, label: str, path: str | None, data: bytes, language: str) -> None:
        self.label, self.path, self.data, self.language = label, path, data, language

    @property
    def text(self) -> str:
        """The content as text; bytes that are not UTF-8 are replaced."""
        return self.data.decode("utf-8", errors="replace")


def read_source(path: str | os.PathLike[str]) -> Source:
    """Reads a source file and determines its language from the suffix.

    Raises:
        FileNotFoundError: there is no such file.
        NotImplementedError: it is written for a GPU.
        ValueError: the suffix is unknown.
    """
    name = os.fspath(path)
    full = os.path.abspath(name)
    suffix = os.path.splitext(name)[1]
    if suffix in _GPU_SUFFIXES:
        raise NotImplementedError(
            f"{name}: cograd runs no compiler for GPUs on files; leave it out, and give the text "
            "of kernels for NVIDIA GPUs to load_inline(cuda_sources=...) or cograd.cuda.kernel()"
        )
    if suffix in _C_SUFFIXES:
        language = "c"
    elif suffix in _CXX_SUFFIXES:
        language = "c++"
    elif suffix in _LINKED_SUFFIXES:
        language = "link"
    else:
        known = " ".join((*_CXX_SUFFIXES, *_C_SUFFIXES, *_LINKED_SUFFIXES))
        raise ValueError(f"{name}: unknown kind of source; expected one of {known}")
    try:
        with open(full, "rb") as file:
            data = file.read()
    except (FileNotFoundError, IsADirectoryError) as e:
        raise FileNotFoundError(f"source file {name} does not exist (looked for {full})") from e
    return Source(name, full, data, language)


class Job:
    """All inputs of a build.

    Attributes:
        name: a C++ identifier; also the namespace in `cograd.ops`.
        sources: translation units in order.
        kind: "ops" (an object without Python), "python" (a Python module) or "standalone".
        files: generated files that the compiler needs in its working directory, by name.
        prepare: function that fills `files`; called if compilation is necessary.
        extra: inputs of `prepare` besides the sources.
        parts: labels and texts of inline sources, for messages.
        caller: file that contains the inline sources, "" if unknown.
        directory: the directory of this extension's entries.
        explicit: whether the user chose that directory.
        started: time at which reading the sources began.
    """

    def __init__(
        self,
        name: str,
        sources: Sequence[Source],
        *,
        extra_cflags: str | Sequence[str] | None = None,
        extra_ldflags: str | Sequence[str] | None = None,
        extra_include_paths: str | Sequence[str] | None = None,
        build_directory: str | os.PathLike[str] | None = None,
        verbose: bool = False,
        is_standalone: bool = False,
        keep_intermediates: bool = True,
        with_torch_compat: bool | None = None,
        debug: bool | str = False,
        started: float | None = None,
    ) -> None:
        check_name(name)
        self.started = time.time() if started is None else started
        self.name = name
        self.sources = list(sources)
        self.verbose = verbose
        self.keep = keep_intermediates
        self.cflags = split_flags(extra_cflags, "extra_cflags")
        self.ldflags = split_flags(extra_ldflags, "extra_ldflags")
        if isinstance(extra_include_paths, str | os.PathLike):
            extra_include_paths = [os.fspath(extra_include_paths)]
        self.includes = [os.path.abspath(os.fspath(p)) for p in extra_include_paths or ()]
        texts = [s.text for s in self.sources if s.language != "link"]
        if with_torch_compat is None:
            with_torch_compat = any(_TORCH.search(t) for t in texts)
        self.torch_compat = with_torch_compat
        self.uses_python = any(_PYTHON.search(t) for t in texts)
        self.registers = any(_REGISTERS.search(t) for t in texts)
        self.has_python_entry = any(_PYTHON_ENTRY.search(t) for t in texts)
        self.standalone = is_standalone
        self.sanitizers = sanitizers(debug)
        self.debug = bool(debug)
        self.files: dict[str, bytes] = {}
        self.extra: tuple[object, ...] = ()
        self.prepare: Callable[[], None] = _nothing
        self.parts: list[tuple[str, str]] = []
        self.caller = ""
        self.explicit = build_directory is not None
        if build_directory is not None:
            self.directory = os.path.abspath(os.fspath(build_directory))
        else:
            self.directory = os.path.join(_paths.build_root(), name)

    @property
    def kind(self) -> str:
        """The kind of the result."""
        if self.standalone:
            return "standalone"
        return "python" if self.uses_python else "ops"

    @property
    def has_debug_info(self) -> bool:
        """True if a debugger will look for the sources: `debug`, or a flag such as -g or -ggdb."""
        flags = [f for f in self.cflags if re.fullmatch(r"-g([0-3]|gdb\d?|dwarf.*)?", f)]
        return flags[-1] != "-g0" if flags else self.debug

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages whose compilers are needed; always C++, because its compiler links."""
        has_c = any(s.language == "c" for s in self.sources)
        return ("c++", "c") if has_c else ("c++",)

    @property
    def file_name(self) -> str:
        """The file name of the result."""
        return self.name if self.standalone else f"{self.name}.so"

    def key(self) -> str:
        """Returns 80 bits over all inputs except the compiler and the included files."""
        binding = _paths.python_tag() if self.uses_python else ""
        linked = [_stamp(f) for f in self.ldflags if not f.startswith("-")]
        linked += [_stamp(f) for f in _libraries(self.ldflags)]
        native = _cpu() if any("=native" in f for f in self.cflags) else ""
        flags = (self.cflags, self.ldflags, self.includes, linked, native)
        sources = [(s.label, s.path, s.language, digest(s.data)) for s in self.sources]
        environment = [os.environ.get(name, "") for name in _ENVIRONMENT]
        inputs = (
            FORMAT,
            __version__,
            abi_version(),
            _paths.include_dir(),
            sys.platform,
            os.uname().machine,
            self.name,
            self.kind,
            binding,
            self.torch_compat,
            self.sanitizers,
            self.debug,
            flags,
            sources,
            [label for label, _ in self.parts],
            self.extra,
            environment,
        )
        return digest(repr(inputs).encode())[:20]


def _nothing() -> None:
    pass


def abi_version() -> tuple[int, int]:
    """Returns the ABI of the running cograd as (major, minor)."""
    major, minor = _C._abi_version()
    return int(major), int(minor)


def check_name(name: str) -> None:
    """Checks that a name can be a namespace in C++ and an attribute in Python.

    Raises:
        TypeError: not a string.
        ValueError: not an identifier.
    """
    if not isinstance(name, str):
        raise TypeError(f"name: expected a string, got {type(name).__name__}")
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        raise ValueError(f"name={name!r}: expected an identifier, such as 'my_ops'")


def sanitizers(debug: bool | str) -> tuple[str, ...]:
    """Returns the values of `-fsanitize`: UBSAN for True, and ASAN if its runtime is loaded.

    Raises:
        RuntimeError: `debug="address"`, but the runtime is not loaded.
        ValueError: `debug` is an unknown string.
    """
    if debug is False:
        return ()
    if debug not in (True, "address", "undefined"):
        raise ValueError(f"debug={debug!r}: expected a bool, 'undefined' or 'address'")
    loaded = _has_asan()
    if debug == "address" and not loaded:
        raise RuntimeError(f"debug='address': {asan_hint()}")
    return ("undefined", "address") if loaded and debug != "undefined" else ("undefined",)


def asan_hint() -> str:
    """Returns how to start Python so that AddressSanitizer works."""
    return (
        "the run time of AddressSanitizer has to be in the process from its start. Run: "
        'LD_PRELOAD="$(c++ -print-file-name=libasan.so)" ASAN_OPTIONS=detect_leaks=0 python ...'
    )


def _has_asan() -> bool:
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            return any("libasan.so" in line or "libclang_rt.asan" in line for line in file)
    except OSError:
        return False


def _libraries(flags: list[str]) -> list[str]:
    """Returns the files that the linker may use: each `-l` in each `-L`, and in LIBRARY_PATH."""
    words = iter(flags)
    folders: list[str] = []
    names: list[str] = []
    for word in words:
        if word[:2] in ("-L", "-l"):
            value = word[2:] or next(words, "")
            (folders if word[1] == "L" else names).append(value)
    folders += [f for f in os.environ.get("LIBRARY_PATH", "").split(os.pathsep) if f]
    files = [
        [name[1:]] if name.startswith(":") else [f"lib{name}.so", f"lib{name}.a"] for name in names
    ]
    return [os.path.join(folder, file) for some in files for folder in folders for file in some]


def _stamp(path: str) -> tuple[str, int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return (path, 0, 0)
    return (path, status.st_size, status.st_mtime_ns)


def _cpu() -> str:
    """Returns a text that identifies the CPU for `-march=native`."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            lines = [
                x for x in file if x.startswith(("flags", "Features", "model name", "cpu family"))
            ]
    except OSError:
        return os.uname().machine
    return digest("".join(sorted(set(lines))).encode())


class ExtensionError(RuntimeError):
    """Raised if building an extension fails; a RuntimeError, and the base of the errors below."""


class CompilerNotFoundError(ExtensionError):
    """Raised if there is no compiler for a source file; set CC or CXX, or install one."""


class CompileError(ExtensionError):
    """Raised if the compiler or the linker rejects the sources.

    Attributes:
        name: the extension's name.
        command: the command that failed, in shell syntax.
        output: everything it printed.
        log: path of a file that contains the command and the output, or None.
    """

    def __init__(
        self,
        message: str,
        name: str = "",
        command: str = "",
        output: str = "",
        log: str | None = None,
    ) -> None:
        super().__init__(message)
        self.name = name
        self.command = command
        self.output = output
        self.log = log
