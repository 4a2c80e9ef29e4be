# SPDX-License-Identifier: BSD-3-Clause
"""Headers for modules that use pybind11 or Python's C API, and their precompiled form.

`cograd/python.h` with pybind11 takes seconds to parse. The first such build also precompiles it
in parallel into the cache, once for each set of flags that it depends on.
"""

from __future__ import annotations

import os
import shutil
import time
from typing import NamedTuple

from cograd.utils.cpp_extension import _cache, _compiler, _paths
from cograd.utils.cpp_extension._cache import BuildLock
from cograd.utils.cpp_extension._compile import Command
from cograd.utils.cpp_extension._job import ExtensionError, Job, digest

FOLDER = ".precompiled"
HEADER = "cograd_python.h"


class Precompiling:
    """The command that precompiles the header, to be run in parallel with the first build."""

    def __init__(self, job: Job, folder: str, command: list[str], lock: BuildLock) -> None:
        self.folder, self.lock = folder, lock
        self.temporary = _cache.make_temporary(os.path.dirname(folder))
        with open(os.path.join(self.temporary, HEADER), "w", encoding="utf-8") as file:
            name = "torch/python.h" if job.torch_compat else "cograd/python.h"
            file.write(f"#include <{name}>\n")
        self.output = f"{HEADER}.gch"
        arguments = [*command, "-x", "c++-header", "-MD", "-MF", "deps", HEADER, "-o", self.output]
        label = f"{name}, for later builds"
        self.command = Command(arguments, label, self.temporary, optional=True)

    def finish(self, status: int) -> None:
        """Publishes the header if it compiled, and cleans up."""
        try:
            if status == 0:
                self._publish()
        except OSError:
            pass  # the next build tries again
        finally:
            shutil.rmtree(self.temporary, ignore_errors=True)
            self.lock.release()

    def _publish(self) -> None:
        deps = _cache.read_depfile(os.path.join(self.temporary, "deps"))
        record = {
            "name": HEADER,
            "file": self.output,
            "kind": "header",
            "size": os.path.getsize(os.path.join(self.temporary, self.output)),
            "digest": "",
            "compiler": "",
            "deps": [_cache.stamp_file(d) for d in sorted(set(deps))],
            "built": time.time(),
        }
        _cache.write_record(self.temporary, record)
        os.chmod(self.temporary, 0o755)
        _cache.publish(self.temporary, self.folder)


class Prelude(NamedTuple):
    """The flags that use the precompiled header, its files, or the command that creates it."""

    flags: list[str]
    deps: list[str]
    beside: Precompiling | None


def precompiled(job: Job) -> Prelude:
    """Returns the precompiled header for a job, or the command that creates it.

    The first build compiles without it while another core creates it. All fields are empty for a
    job without pybind11, and if precompiling does not work.

    Raises:
        ExtensionError: the sources use pybind11, which is not installed.
    """
    texts = [s.text for s in job.sources if s.language == "c++"]
    if not any("pybind11" in t.lower() or "py::" in t or "cograd/python.h" in t for t in texts):
        return Prelude([], [], None)
    if _compiler.pybind11_include() is None:
        raise ExtensionError(
            f"{job.name}: the sources use pybind11, which is not installed; "
            "run pip install pybind11, or list the functions in `functions`"
        )
    if job.debug or not os.path.exists(os.path.join(_paths.include_dir(), "cograd", "python.h")):
        return Prelude([], [], None)
    flags = _compiler.compile_flags(job, "c++")
    flags = [f for f in flags if not f.startswith("-D") or f == _compiler.COMPAT]
    defines = [f for f in job.cflags if f.startswith(("-D", "-U"))]
    flags = [*flags, *defines, *_compiler.include_flags(_without_user_folders(job))]
    compiler = _compiler.compiler_command()
    inputs = (_compiler.identity(compiler), flags, _paths.python_tag())
    key = digest(repr(inputs).encode())[:20]
    root = os.path.join(os.path.dirname(job.directory), FOLDER)
    if job.explicit:
        root = os.path.join(_paths.build_root(), FOLDER)
    folder = os.path.join(root, key)
    record = _cache.read_record(folder)
    if record is not None and _valid(folder):
        flags = ["-include", os.path.join(folder, HEADER)]
        return Prelude(flags, [dep[0] for dep in record["deps"]], None)
    try:
        os.makedirs(root, exist_ok=True)
        _cache.sweep(root)
        lock = BuildLock(os.path.join(root, f"{key}.lock"))
        if lock.acquire_now():
            try:
                beside = Precompiling(job, folder, [*compiler, *flags], lock)
                return Prelude([], [], beside)
            except OSError:
                lock.release()
    except OSError:
        pass  # the cache cannot be written
    return Prelude([], [], None)


def _without_user_folders(job: Job) -> Job:
    import copy

    plain = copy.copy(job)
    plain.includes = []
    return plain


def _valid(folder: str) -> bool:
    """Returns whether a precompiled header exists and its headers have not changed."""
    record = _cache.read_record(folder)
    if record is None:
        return False
    try:
        if os.path.getsize(os.path.join(folder, f"{HEADER}.gch")) != record["size"]:
            return False
        return all(_cache.stamp_file(dep[0])[3] == dep[3] for dep in record["deps"])
    except OSError:
        return False
