# SPDX-License-Identifier: BSD-3-Clause
"""Reports how this build was made and what it found on this machine."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from typing import Any

import cograd
from cograd._base import build_info
from cograd._base.preload import openblas_path

__all__ = ["parallel_info", "show", "show_config"]

_VARIABLES = (
    *("COGRAD_ISA", "COGRAD_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"),
    *("OPENBLAS_CORETYPE", "OPENBLAS_NUM_THREADS"),
)


def _openblas(function: str) -> str:
    """Calls an OpenBLAS getter without arguments; the library is already in the process."""
    path = openblas_path()
    if path is None:
        return "unknown"
    ask = getattr(ctypes.CDLL(path), f"scipy_openblas_get_{function}")
    ask.restype = ctypes.c_char_p
    text: bytes = ask()
    return text.decode().strip()


def _binaries() -> str:
    file: str = cograd._C.__file__
    return os.path.dirname(file)


def config() -> dict[str, dict[str, Any]]:
    """Returns the sections of ``show_config`` as plain dicts."""
    processor, chosen = cograd._C._isa()
    return {
        "cograd": {
            "version": cograd.__version__,
            "abi": ".".join(map(str, cograd._C._abi_version())),
            "library": os.path.join(_binaries(), "lib", "libcograd.so"),
        },
        "compiler": {
            "name": build_info.compiler,
            "flags": build_info.flags,
            "build type": build_info.build_type,
            "sanitizers": build_info.sanitize or "none",
            "lto": build_info.lto,
        },
        "build dependencies": {
            "pybind11": build_info.pybind11,
            "openblas": build_info.openblas,
        },
        "blas": {
            "name": "scipy-openblas32",
            "library": openblas_path() or "not found",
            "configuration": _openblas("config"),
            "core": _openblas("corename"),
            "lapack": "OpenBLAS",
            "integers": "32 bits",
        },
        "simd": {
            "built": build_info.isa_levels.split(";"),
            "processor": processor,
            "chosen": chosen,
        },
        "threads": {
            "cograd": cograd.get_num_threads(),
            "reason": cograd._C._threads_reason(),
            "processors": _processors(),
            "parallel loops": "own pool",
        },
        "python": {
            "version": platform.python_version(),
            "implementation": platform.python_implementation(),
            "executable": sys.executable,
            "free-threaded": not getattr(sys, "_is_gil_enabled", lambda: True)(),
        },
        "machine": {
            "platform": platform.platform(),
            "architecture": platform.machine(),
            "byte order": sys.byteorder,
            "libc": " ".join(platform.libc_ver()).strip() or "unknown",
        },
        "variables": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
    }


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def show() -> str:
    """Returns the configuration as text, with a heading per section and a line per fact."""
    lines = []
    for section, facts in config().items():
        if not facts:
            continue
        lines.append(f"{section}:")
        for name, value in facts.items():
            text = ", ".join(value) if isinstance(value, list) else value
            lines.append(f"  {name}: {text}")
    return "\n".join(lines)


def parallel_info() -> str:
    """Returns the number of compute threads and of processors, as text."""
    threads = config()["threads"]
    return "\n".join(
        [
            f"threads: {threads['cograd']} of {threads['processors']} processors",
            f"reason: {threads['reason']}",
            f"parallel loops: {threads['parallel loops']}",
        ]
    )


def show_config(mode: str = "stdout") -> dict[str, dict[str, Any]] | None:
    """Prints how this cograd was built, and what it found on this machine.

    Sections: the version and ABI, compiler and flags, the versions of the build dependencies, the
    BLAS in use, the vector instruction levels (built, supported by this processor, chosen),
    threads, Python, the machine, and the environment variables that are set.

    Args:
        mode: ``"stdout"`` prints and returns None; ``"dicts"`` returns a dict of dicts.

    Raises:
        ValueError: ``mode`` is neither.
    """
    if mode == "stdout":
        print(show())
        return None
    if mode == "dicts":
        return config()
    raise ValueError(f"show_config(): mode must be 'stdout' or 'dicts', but got {mode!r}")
