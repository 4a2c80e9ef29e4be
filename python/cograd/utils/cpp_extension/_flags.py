# SPDX-License-Identifier: BSD-3-Clause
"""The flags for compiling and linking a job, and the paths of the headers for Python."""

from __future__ import annotations

import importlib.util
import os

from cograd._preload import openblas_path
from cograd.utils.cpp_extension import _paths
from cograd.utils.cpp_extension._errors import ExtensionError
from cograd.utils.cpp_extension._job import Job

_OPTIMISE = ("-O2",)
_DEBUG = ("-O1", "-g", "-fno-omit-frame-pointer", "-DCOGRAD_DEBUG", "-D_GLIBCXX_ASSERTIONS")
_CODE = ("-fPIC", "-fvisibility=hidden", "-pipe")
# The headers need C++17, which parses a third faster; code written for torch may use C++20.
_CXX = ("-std=c++17", "-fvisibility-inlines-hidden")
_CXX_TORCH = ("-std=c++20", "-fvisibility-inlines-hidden")
_C = ("-std=gnu17",)
COMPAT = "-DCOGRAD_TORCH_COMPAT=1"
_LINK = ("-Wl,-O1", "-Wl,--as-needed")


def compile_flags(job: Job, language: str) -> list[str]:
    """Returns the flags for compiling one source of this job, except includes."""
    flags = [*(_DEBUG if job.debug else _OPTIMISE), *_CODE]
    flags += _C if language != "c++" else _CXX_TORCH if job.torch_compat else _CXX
    if job.sanitizers:
        flags += [f"-fsanitize={','.join(job.sanitizers)}", "-fno-sanitize=vptr"]
    flags.append(f"-DCOGRAD_EXTENSION_NAME={job.name}")
    if job.torch_compat:
        flags += [COMPAT, f"-DTORCH_EXTENSION_NAME={job.name}"]
    foreign = ("-std=c++", "-std=gnu++") if language == "c" else ("-std=c1", "-std=c2", "-std=gnu1")
    return flags + [f for f in job.cflags if not f.startswith(foreign)]


def include_flags(job: Job) -> list[str]:
    """Returns the -I flags: the user's directories first, then cograd's, then Python's.

    The latter are system directories, so that the user's -Wall and -Werror do not apply to them.
    """
    flags = [f"-I{folder}" for folder in job.includes]
    for folder in _paths.include_paths(with_torch_compat=job.torch_compat):
        flags.append(f"-isystem{folder}")
    if job.uses_python:
        flags += [f"-isystem{folder}" for folder in include_dirs()]
    return flags


def link_flags(job: Job) -> list[str]:
    """Returns the flags of the link step, except objects and output."""
    library = _paths.library_dir()
    flags = [*_LINK, f"-L{library}", "-lcograd", *openblas_flags()]
    if job.standalone:
        flags = [*flags, f"-Wl,-rpath,{library}"]
    else:
        flags = ["-shared", *flags]
        if not job.uses_python and not job.sanitizers:
            flags.append("-Wl,-z,defs")
    if job.sanitizers:
        flags.append(f"-fsanitize={','.join(job.sanitizers)}")
    return flags + job.ldflags


def openblas_flags() -> list[str]:
    """Returns the flags with which the linker finds the libraries that libcograd.so needs."""
    path = openblas_path()
    return [f"-Wl,-rpath-link,{os.path.dirname(path)}"] if path else []


def python_include() -> str:
    """Returns the directory that contains Python.h.

    Raises:
        ExtensionError: it is not installed.
    """
    import sysconfig

    path = sysconfig.get_paths()["include"]
    if not os.path.exists(os.path.join(path, "Python.h")):
        raise ExtensionError(
            f"a source uses Python's C API, but {path} has no Python.h; install it, for example: "
            "apt-get install python3-dev. A module whose functions are listed in `functions`, or "
            "registered by COGRAD_LIBRARY, does not need it"
        )
    return path


def pybind11_include() -> str | None:
    """Returns the directory of pybind11's headers, None if the package is not installed."""
    spec = importlib.util.find_spec("pybind11")
    if spec is None or spec.origin is None:
        return None
    path = os.path.join(os.path.dirname(spec.origin), "include")
    return path if os.path.isdir(path) else None


def include_dirs() -> list[str]:
    """Returns the directories of Python's headers and, if it is installed, pybind11's."""
    pybind11 = pybind11_include()
    return [python_include(), *([pybind11] if pybind11 else [])]
