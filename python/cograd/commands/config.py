# SPDX-License-Identifier: BSD-3-Clause
"""``python -m cograd config``: prints how cograd was built, or what a compiler needs.

Without options it prints what ``cograd.show_config()`` prints. The options are those of
pybind11-config, and print one line each, in the order of the help.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
from collections.abc import Callable, Sequence

import cograd

__all__ = ["main"]


def _includes(compat: bool) -> str:
    from cograd.utils import cpp_extension

    folders = cpp_extension.include_paths(with_torch_compat=compat)
    return shlex.join(f"-I{folder}" for folder in folders)


def _includedir(_compat: bool) -> str:
    from cograd.utils import cpp_extension

    return cpp_extension.include_paths()[0]


def _cflags(compat: bool) -> str:
    own = " -DCOGRAD_TORCH_COMPAT=1" if compat else ""
    # Not -std=: C sources need the same flags, and every compiler's default has been C++17 or later
    # since GCC 11 and clang 16.
    return f"{_includes(compat)} -fPIC -fvisibility=hidden{own}"


def _ldflags(compat: bool) -> str:
    library = _libdir(compat)
    # libcograd.so finds its own dependencies, so linking a program need not resolve them.
    flags = ["-lcograd", f"-Wl,-rpath,{library}", "-Wl,--allow-shlib-undefined"]
    return shlex.join([f"-L{library}", *flags])


def _libdir(_compat: bool) -> str:
    from cograd.utils import cpp_extension

    return cpp_extension.library_paths()[0]


def _cmakedir(_compat: bool) -> str:
    return os.path.join(cograd.utils.cmake_prefix_path, "cograd")


def _debugger(_compat: bool) -> str:
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "_debugger.py")


# Option -> its help, and the function that returns its line.
_OPTIONS: dict[str, tuple[str, Callable[[bool], str]]] = {
    "version": ("version of cograd", lambda _: cograd.__version__),
    "includes": ("flags for the compiler that find the headers: -I...", _includes),
    "includedir": ("directory of the headers", _includedir),
    "cflags": ("--includes and the other flags for compiling", _cflags),
    "ldflags": ("flags for linking: -L... -lcograd, with the run path", _ldflags),
    "libdir": ("directory of libcograd.so", _libdir),
    "cmakedir": (
        'directory of cogradConfig.cmake: cmake -Dcograd_DIR="$(python -m cograd config '
        '--cmakedir)"',
        _cmakedir,
    ),
    "debugger": ("file for gdb's `source` and lldb's `command script import`", _debugger),
}


def main(arguments: Sequence[str]) -> int:
    """Prints the configuration, or the lines of the options, and returns 0."""
    parser = argparse.ArgumentParser(
        prog="python -m cograd config",
        description="Prints how cograd was built; with options, what a compiler needs.",
    )
    parser.add_argument("--json", action="store_true", help="the configuration as one JSON object")
    for name, (text, _) in _OPTIONS.items():
        spellings = [f"--{name}"]
        if name.endswith("dir"):  # nanobind has --cmake_dir and --include_dir
            spellings += [f"--{name[:-3]}_dir", f"--{name[:-3]}-dir"]
        parser.add_argument(*spellings, action="store_true", help=text)
    parser.add_argument(
        "--with-torch-compat", action="store_true", help="flags for sources that use torch's names"
    )
    given = parser.parse_args(arguments)
    lines = [f(given.with_torch_compat) for n, (_, f) in _OPTIONS.items() if getattr(given, n)]
    if (lines and given.json) or (given.with_torch_compat and not lines):
        parser.error("--json goes alone; --with-torch-compat goes with --includes or --cflags")
    if lines:
        print("\n".join(lines))
    elif given.json:
        print(json.dumps(cograd.show_config(mode="dicts"), indent=2))
    else:
        cograd.show_config()
    return 0
