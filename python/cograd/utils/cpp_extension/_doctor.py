# SPDX-License-Identifier: BSD-3-Clause
"""Checks whether extensions can be built on this machine, and reports what is missing."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
import time

from cograd import __version__
from cograd.utils.cpp_extension import _compiler, _flags, _helpers, _job, _paths
from cograd.utils.cpp_extension._errors import ExtensionError

PROBE = "cograd::Tensor cograd_probe(const cograd::Tensor& x) { return x + x; }\n"


class _Report:
    """Prints one line per check and records whether one failed."""

    def __init__(self) -> None:
        self.failed = False

    def ok(self, what: str, text: str) -> None:
        print(f"ok    {what}: {text}")

    def note(self, what: str, text: str) -> None:
        print(f"note  {what}: {text}")

    def bad(self, what: str, text: str) -> None:
        self.failed = True
        print(f"FAIL  {what}: {text}")


def run(root: str) -> int:
    """Runs every check and returns 0 if extensions can be built."""
    report = _Report()
    major, minor = _job.abi_version()
    report.ok("cograd", f"{__version__}, ABI {major}.{minor}, Python {sys.version.split()[0]}")
    _files(report)
    found = _compilers(report)
    _cache(report, root)
    _optional(report, found)
    if found and not report.failed:
        _probe(report)
    print("extensions can be built" if not report.failed else "see the lines with FAIL")
    return int(report.failed)


def _files(report: _Report) -> None:
    try:
        header = os.path.join(_paths.include_dir(), "cograd", "extension.h")
    except FileNotFoundError as e:
        report.bad("headers", str(e))
        return
    if os.path.exists(header):
        report.ok("headers", header)
    else:
        report.bad("headers", f"{header} is missing; reinstall cograd")
    library = os.path.join(_paths.library_dir(), "libcograd.so")
    if os.path.exists(library):
        report.ok("library", library)
    else:
        report.bad("library", f"{library} is missing; reinstall cograd")


def _compilers(report: _Report) -> bool:
    try:
        command = _compiler.compiler_command()
    except ExtensionError as e:
        report.bad("C++ compiler", str(e))
        return False
    line = _compiler.version_line(command)
    good, version = _helpers.get_compiler_abi_compatibility_and_version(shlex.join(command))
    if not line:
        report.bad(
            "C++ compiler", f"{shlex.join(command)} does not run. {_compiler.install_hint()}"
        )
    elif not good:
        text = ".".join(map(str, version)) or "an unknown version"
        report.bad(
            "C++ compiler",
            f"{line} has {text}; C++20 needs GCC 10 or Clang 13. {_compiler.install_hint()}",
        )
    else:
        report.ok("C++ compiler", f"{shlex.join(command)}: {line}")
    try:
        report.ok("C compiler", shlex.join(_compiler.compiler_command("c")))
    except ExtensionError as e:
        report.note("C compiler", f"only needed for .c files: {e}")
    return bool(line)


def _cache(report: _Report, root: str) -> None:
    try:
        os.makedirs(root, exist_ok=True)
        with tempfile.TemporaryFile(dir=root):
            pass
    except OSError as e:
        report.bad("cache", f"{root} cannot be written ({e.strerror}); set {_paths.ROOT_VARIABLE}")
        return
    report.ok("cache", root)


def _optional(report: _Report, found: bool) -> None:
    pybind11 = _flags.pybind11_include()
    if pybind11 is None:
        report.note("pybind11", "only needed for PYBIND11_MODULE: pip install pybind11")
    else:
        report.ok("pybind11", pybind11)
    try:
        report.ok("Python.h", _flags.python_include())
    except ExtensionError as e:
        report.note("Python.h", f"only needed for PYBIND11_MODULE: {e}")
    if not found:
        return
    asan = _compiler.runtime_library(_compiler.compiler_command(), "libasan.so")
    if asan is None:
        report.note("debug=True", "the compiler has no libasan.so; UBSAN alone is used")
    else:
        text = f"for AddressSanitizer run LD_PRELOAD={asan} ASAN_OPTIONS=detect_leaks=0 python ..."
        report.note("debug=True", text)


def _probe(report: _Report) -> None:
    """Builds, loads and calls an op in a separate cache."""
    import cograd
    from cograd.utils import cpp_extension

    with tempfile.TemporaryDirectory(prefix="cograd_doctor-") as folder:
        start = time.perf_counter()
        try:
            module = cpp_extension.load_inline(
                "cograd_doctor", PROBE, functions="cograd_probe", build_directory=folder
            )
            value = module.cograd_probe(cograd.ones(2)).sum().item()
        except (ExtensionError, ImportError) as e:
            report.bad("probe", str(e))
            return
        seconds = time.perf_counter() - start
    if value == 4.0:
        report.ok("probe", f"an op was compiled, loaded and called in {seconds:.1f} s")
    else:
        report.bad("probe", f"the op returned {value}, expected 4.0")
