# SPDX-License-Identifier: BSD-3-Clause
"""Every allocation of every program fails once: an exception, a whole state and no leak.

Ours (malloc, operator new) fail through the preloaded fail_alloc.cpp, those of Python objects
through CPython's own hook. Each try is a thread of its own, whose lists of free blocks are empty.
"""

import ctypes
import gc
import os
import subprocess
import sys
import threading
import warnings

import cograd as torch
from cograd import _C
from fuzz.hunt import Child
from fuzz.programs import PROGRAMS

HERE = os.path.dirname(os.path.abspath(__file__))


def build(folder):
    """The path of the library to preload."""
    made = os.path.join(folder, "libfail_alloc.so")
    source = os.path.join(HERE, "fail_alloc.cpp")
    if not os.path.exists(made) or os.path.getmtime(made) < os.path.getmtime(source):
        command = [os.environ.get("CXX", "g++"), "-O1", "-fPIC", "-shared", "-o", made, source]
        subprocess.run(command, check=True)
    return made


class Core:
    """Fails allocations made by libcograd, _C and the C++ library on their behalf."""

    def __init__(self):
        self.library = ctypes.CDLL(None)
        self.library.fail_alloc_arm.argtypes = (ctypes.c_long, ctypes.c_long)
        self.library.fail_alloc_range.argtypes = (ctypes.c_size_t, ctypes.c_size_t)
        self.library.fail_alloc_disarm.restype = ctypes.c_long
        with open("/proc/self/maps") as file:
            for line in file:
                if "x" in line.split()[1] and any(
                    n in line for n in ("libcograd.so", "/_C.", "libstdc++")
                ):
                    lo, hi = (int(a, 16) for a in line.split()[0].split("-"))
                    self.library.fail_alloc_range(lo, hi)
        self.arm, self.disarm = self.library.fail_alloc_arm, self.library.fail_alloc_disarm


class Interpreter:
    """Fails allocations of Python objects and buffers."""

    most = 100_000  # of which a program makes fewer

    def __init__(self):
        import _testcapi

        self.api, self.n = _testcapi, -1

    def arm(self, n, count):
        self.n = n
        if n >= 0:
            self.api.set_nomemory(n, n + count)

    def disarm(self):
        self.api.remove_mem_hooks()
        return 0


class Fault(Exception):
    pass


def attempt(program, want, failing, n, count):
    """One run with failing allocations, then one without. Whether an exception was raised."""
    seen = []

    def body():
        base = _C._live_nodes()
        error = None
        failing.arm(n, count)
        try:
            got = program()
        except BaseException as e:
            failing.disarm()
            error = e
        else:
            failing.disarm()
            if got != want:
                seen.append(Fault(f"gave {got} for {want}"))
        if error is not None:
            if not isinstance(error, (MemoryError, RuntimeError, ImportError)):
                seen.append(error)
            text = f"{type(error).__name__}: {error}"
            seen.append(text)
            error.__traceback__ = None
        del error
        gc.collect()
        if not torch.is_grad_enabled() or torch.is_inference_mode_enabled():
            seen.append(Fault("a mode was left switched"))
        if _C._live_nodes() != base:
            seen.append(Fault(f"{_C._live_nodes() - base} nodes were left behind"))
        again = program()
        if again != want:
            seen.append(Fault(f"afterwards it gave {again} for {want}"))
        gc.collect()
        if _C._live_nodes() != base:
            seen.append(Fault(f"{_C._live_nodes() - base} nodes were left behind afterwards"))

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    for s in seen:
        if isinstance(s, BaseException):
            raise Fault(f"allocation {n}: {type(s).__name__}: {s}; {[str(x) for x in seen]}")
    return bool(seen)


def counted(program, core):
    """How many allocations the program makes in a new thread."""
    total = []

    def body():
        core.arm(-1, 0)
        program()
        total.append(core.disarm())

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    return total[0]


def sweep(program, failing, end, count, report, step=1):
    """All n of [0, end), in children that start anew behind a fault. (tries, exceptions, faults)"""
    tries, faults, n = 0, 0, 0
    raised = __import__("mmap").mmap(-1, 8)

    def work(i):
        if attempt(program, want, failing, i, count):
            raised[:8] = (int.from_bytes(raised[:8], "little") + 1).to_bytes(8, "little")

    want = program()
    program()
    while n < end:
        child = Child(work, n, end, step)
        seen = None
        while seen is None:
            seen = child.poll()
            __import__("time").sleep(0.002)
        kind, at, text = seen
        tries += (at - n) // step + 1
        if not kind:
            break
        faults += 1
        report(f"{program.__name__}, allocation {at} (and {count - 1} more): {kind}: {text[:1500]}")
        n = at + step
    return tries, int.from_bytes(raised[:8], "little"), faults


def main(only="", report=print, which=("core", "python"), step=1, limit=None):
    """(tries, exceptions, faults) of all programs; this process has the library preloaded."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    total = [0, 0, 0]
    core = Core() if "core" in which else None
    for program in PROGRAMS:
        if only and only not in program.__name__:
            continue
        program()
        plans = []
        if core:
            end = counted(program, core)
            plans += [("core", core, end, 1), ("core", core, end, 1000)]
        if "python" in which:
            plans += [("python", Interpreter(), limit or 3000, 1)]
        for name, failing, end, count in plans:
            got = sweep(program, failing, end, count, report, step)
            total = [a + b for a, b in zip(total, got)]
            report(f"{name} {program.__name__}: {got[0]} tries, {got[1]} raised, {got[2]} faults")
    return total


if __name__ == "__main__":
    sys.exit(main())
