# SPDX-License-Identifier: BSD-3-Clause
"""What only modules written with pybind11 or Python's C API need: headers, and a precompiled one.

`cograd/python.h` with pybind11 takes seconds to read. The first such build keeps GCC's
precompiled form of it in the cache, for each set of flags that it depends on.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable
from typing import Any

from cograd.utils.cpp_extension import _compiler, _entry, _paths
from cograd.utils.cpp_extension._errors import ExtensionError
from cograd.utils.cpp_extension._job import Job, digest

FOLDER = ".precompiled"
HEADER = "cograd_python.h"


def python_include() -> str:
    """Returns the folder that holds Python.h.

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
    """Returns the folder of pybind11's headers, None if the package is not installed."""
    spec = importlib.util.find_spec("pybind11")
    if spec is None or spec.origin is None:
        return None
    path = os.path.join(os.path.dirname(spec.origin), "include")
    return path if os.path.isdir(path) else None


def include_dirs() -> list[str]:
    """Returns the folders of Python's headers and, where it is installed, pybind11's."""
    pybind11 = pybind11_include()
    return [python_include(), *([pybind11] if pybind11 else [])]


def precompiled(job: Job, beat: Callable[[], None] | None) -> tuple[list[str], list[str]]:
    """Makes sure that the precompiled header for a job exists.

    Returns:
        The flags that use it and the files it was made from; two empty lists when the job does
        not use pybind11 or precompiling does not work here.
    """
    texts = [s.text for s in job.sources if s.language == "c++"]
    if not any("pybind11" in t.lower() or "py::" in t or "cograd/python.h" in t for t in texts):
        return [], []
    if pybind11_include() is None:
        raise ExtensionError(
            f"{job.name}: the sources use pybind11, which is not installed; "
            "run pip install pybind11, or list the functions in `functions`"
        )
    if job.debug or not os.path.exists(os.path.join(_paths.include_dir(), "cograd", "python.h")):
        return [], []
    from cograd.utils.cpp_extension import _build
    from cograd.utils.cpp_extension._lock import BuildLock

    flags = [f for f in _build.compile_flags(job, "c++") if not f.startswith("-D")]
    defines = [f for f in job.cflags if f.startswith(("-D", "-U"))]
    flags = [*flags, *defines, *_build.include_flags(_without_user_folders(job))]
    compiler = _compiler.compiler_command()
    inputs = (_compiler.identity(compiler), flags, _paths.python_tag())
    key = digest(repr(inputs).encode())[:20]
    root = os.path.join(os.path.dirname(job.directory), FOLDER)
    if job.explicit:
        root = os.path.join(_paths.build_root(), FOLDER)
    folder = os.path.join(root, key)
    use = ["-include", os.path.join(folder, HEADER)]
    try:
        os.makedirs(root, exist_ok=True)
        record = _valid(folder)
        if record is None:
            with BuildLock(os.path.join(root, f"{key}.lock"), job.verbose) as lock:

                def both() -> None:
                    lock.beat()
                    if beat is not None:
                        beat()

                record = _valid(folder) or _precompile(job, [*compiler, *flags], folder, both)
    except OSError:
        return [], []  # the cache cannot be written: compile without
    if record is None:
        return [], []
    return use, [dep[0] for dep in record]


def _without_user_folders(job: Job) -> Job:
    import copy

    plain = copy.copy(job)
    plain.includes = []
    return plain


def _valid(folder: str) -> list[list[Any]] | None:
    """Returns the stamps of the headers when the precompiled one is still right."""
    record = _entry.read_record(folder)
    if record is None:
        return None
    try:
        if os.path.getsize(os.path.join(folder, f"{HEADER}.gch")) != record["size"]:
            return None
        for dep in record["deps"]:
            if _entry.stamp_file(dep[0])[3] != dep[3]:
                return None
    except OSError:
        return None
    deps: list[list[Any]] = record["deps"]
    return deps


def _precompile(
    job: Job, command: list[str], folder: str, beat: Callable[[], None]
) -> list[list[Any]] | None:
    """Compiles the header and publishes it; None when the compiler refuses."""
    import time

    from cograd.utils.cpp_extension._build import read_depfile
    from cograd.utils.cpp_extension._process import Command, run_all

    root = os.path.dirname(folder)
    _entry.sweep(root)
    temporary = _entry.make_temporary(root)
    try:
        header = os.path.join(temporary, HEADER)
        with open(header, "w", encoding="utf-8") as file:
            file.write("#include <cograd/python.h>\n")
        output = f"{HEADER}.gch"
        arguments = [*command, "-x", "c++-header", "-MD", "-MF", "deps", HEADER, "-o", output]
        results = run_all(
            [Command(arguments, "cograd/python.h, precompiled once")],
            temporary,
            title=job.name,
            verbose=job.verbose,
            beat=beat,
        )
        if results[0].status:
            return None
        with open(os.path.join(temporary, "deps"), encoding="utf-8") as file:
            deps = [d for d in read_depfile(file.read()) if os.path.isabs(d)]
        stamps = [_entry.stamp_file(d) for d in sorted(set(deps)) if not d.startswith(temporary)]
        record = {
            "name": HEADER,
            "file": output,
            "kind": "header",
            "size": os.path.getsize(os.path.join(temporary, output)),
            "digest": "",
            "compiler": "",
            "deps": stamps,
            "built": time.time(),
        }
        _entry.write_record(temporary, record)
        os.chmod(temporary, 0o755)
        _entry.publish(temporary, folder)
        return stamps
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
