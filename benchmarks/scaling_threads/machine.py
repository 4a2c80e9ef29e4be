# SPDX-License-Identifier: BSD-3-Clause
"""Compiles machine.c and calls it: the machine's peak rates, and the cost of cograd's pool."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("machine.c")
COPIED = 1 << 25  # bytes of each thread's array, more than its part of the caches


def build(folder: Path) -> Path | None:
    """Returns the shared library, compiled into `folder`; None if there is no compiler."""
    target = folder / "machine.so"
    if target.exists() and target.stat().st_mtime > SOURCE.stat().st_mtime:
        return target
    compiler = next(filter(shutil.which, (os.environ.get("CC", "cc"), "gcc")), None)
    if compiler is None:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    flags = ["-O2", "-shared", "-fPIC", "-pthread", "-Wno-psabi"]
    subprocess.run([compiler, *flags, str(SOURCE), "-o", str(target)], check=True)
    return target


def folder() -> Path:
    """Returns where the library is kept between runs."""
    return Path(tempfile.gettempdir()) / f"cograd-machine-{os.getuid()}"


def library(path: str) -> Any:
    """Loads the library and declares its functions."""
    lib = ctypes.CDLL(path)
    lib.machine_rate.restype = lib.machine_back_to_back.restype = ctypes.c_double
    lib.machine_rate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64]
    lib.machine_back_to_back.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
    number = ctypes.POINTER(ctypes.c_double)
    lib.machine_hand_off.argtypes = [
        *(ctypes.c_void_p, ctypes.c_int, ctypes.c_double, ctypes.c_double),
        *(ctypes.c_int, ctypes.c_int, number, number),
    ]
    return lib


def rates(path: str, threads: int) -> dict[str, float]:
    """Returns multiplications (float32) and copied bytes in a second, with so many threads."""
    lib = library(path)
    best = {"multiplications": 0.0, "nbytes": 0.0}
    for _ in range(3):
        for copies, name in enumerate(best):
            best[name] = max(best[name], lib.machine_rate(threads, copies, COPIED))
    return best


def hand_off(path: str, module: Any, threads: int) -> dict[str, float]:
    """Returns what a parallel loop of one chunk for each thread costs, in seconds."""
    lib = library(path)
    core = Path(module._C.__file__).parent / "lib" / "libcograd.so"
    loop = ctypes.cast(ctypes.CDLL(str(core)).cograd_parallel_for, ctypes.c_void_p)
    module.set_num_threads(threads)
    least, mean = ctypes.c_double(), ctypes.c_double()

    def measure(each: float, pause: float, sleeps: bool, rounds: int) -> tuple[float, float]:
        lib.machine_hand_off(loop, threads, each, pause, sleeps, rounds, least, mean)
        return least.value, mean.value

    lib.machine_back_to_back(loop, threads, 1000)
    result = {
        "empty loop, back to back": min(
            lib.machine_back_to_back(loop, threads, 2000) for _ in range(5)
        )
    }
    for what, each in (("empty loop", 0.0), ("beyond 20 us for each thread", 2e-5)):
        result[f"{what}, after 100 us of work"] = measure(each, 1e-4, False, 300)[0] - each
        result[f"{what}, after 12 ms of sleep, mean"] = measure(each, 12e-3, True, 30)[1] - each
    return result
