# SPDX-License-Identifier: BSD-3-Clause
"""Makes every allocation of every program fail once, which must raise and leave nothing behind.

The preloaded fail_alloc.cpp makes cograd's allocations fail (malloc, operator new), and CPython's
hook those of Python objects. Each try runs in a new thread, whose lists of free blocks are empty.
"""

import ctypes
import gc
import math
import mmap
import os
import subprocess
import sys
import threading
import time
import warnings
from functools import partial

import cograd as torch
from cograd import _C
from fuzz.hunt import Child, outcome_of
from fuzz.programs import PROGRAMS

HERE = os.path.dirname(os.path.abspath(__file__))


def build(folder):
    """Builds the library to preload; returns its path."""
    made = os.path.join(folder, "libfail_alloc.so")
    source = os.path.join(HERE, "fail_alloc.cpp")
    if not os.path.exists(made) or os.path.getmtime(made) < os.path.getmtime(source):
        command = [os.environ.get("CXX", "g++"), "-O1", "-fPIC", "-shared", "-o", made, source]
        subprocess.run(command, check=True)
    return made


# The hunter `interpreter` omits these. In the first two, CPython 3.11 leaks the arguments of a call
# if it has no memory for a cell; in the third, safetensors panics.
NOT_OURS = ("transforms", "jacobians", "files")


class Core:
    """Fails allocations made by libcograd, _C and the C++ library on their behalf."""

    def __init__(self):
        self.library = ctypes.CDLL(None)
        self.library.fail_alloc_arm.argtypes = (ctypes.c_long, ctypes.c_long)
        self.library.fail_alloc_range.argtypes = (ctypes.c_size_t,) * 3
        self.library.fail_alloc_disarm.restype = ctypes.c_long
        with open("/proc/self/maps") as file:
            for line in file:
                if "x" in line.split()[1] and any(
                    n in line for n in ("libcograd.so", "/_C.", "libstdc++")
                ):
                    lo, hi = (int(a, 16) for a in line.split()[0].split("-"))
                    # pybind11 frees an object twice if it has no memory to register it.
                    self.library.fail_alloc_range(lo, hi, 24 if "/_C." in line else 0)
        self.arm, self.disarm = self.library.fail_alloc_arm, self.library.fail_alloc_disarm


class Interpreter:
    """Fails allocations of Python objects and buffers."""

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
    """Runs the program with failing allocations, then without. Returns whether it raised."""
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
            if not isinstance(error, (MemoryError, RuntimeError, ImportError, BufferError)):
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
    """Returns the number of allocations that the program makes in a new thread."""
    total = []

    def body():
        core.arm(-1, 0)
        program()
        total.append(core.disarm())

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    return total[0]


def counted_by_interpreter(program):
    """Returns about how many allocations of Python objects the program needs to succeed."""
    import _testcapi

    low, high = 0, 1 << 16
    while low < high:  # does it succeed if all allocations after the first `middle` fail?
        middle = (low + high) // 2
        kind, _ = outcome_of(partial(_starved, program, middle, _testcapi))
        low, high = (low, middle) if not kind else (middle + 1, high)
    return low


def _starved(program, allowed, api):
    api.set_nomemory(allowed, 0)
    try:
        program()
    except MemoryError:
        os._exit(9)
    finally:
        api.remove_mem_hooks()


def sweep(program, failing, end, count, report, step, start):
    """Tries every step-th n of [start, end). After a fault a new child goes on behind it.

    Returns (tries, exceptions, faults).
    """
    tries, faults, n = 0, 0, start
    raised = mmap.mmap(-1, 8)

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
            time.sleep(0.002)
        kind, at, text = seen
        tries += (at - n) // step + 1
        if not kind:
            break
        faults += 1
        report(f"{program.__name__}, allocation {at} (and {count - 1} more): {kind}: {text[:1500]}")
        n = at + step
    return tries, int.from_bytes(raised[:8], "little"), faults


def main(seconds=None, seed=0, hunter="allocations", report=print, only=""):
    """Tries all programs in this process, which has the library preloaded; returns the faults.

    If the time is short, only every second, fourth, ... allocation fails; the seed gives the first.
    """
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    core, interpreter = Core(), Interpreter()
    plans, total = [], [0, 0, 0]
    for program in PROGRAMS:
        if only not in program.__name__:
            continue
        program()
        end = counted(program, core)
        if hunter == "allocations":
            plans += [(program, core, end, 1), (program, core, end, 1000)]
        elif program.__name__ not in NOT_OURS:
            plans += [(program, interpreter, counted_by_interpreter(program), 1)]
    each = 0.04  # seconds that a try takes, roughly
    wanted = sum(end for _, _, end, _ in plans) * each / seconds if seconds else 1
    step = 1 << max(0, math.ceil(math.log2(max(wanted, 1))))
    report(f"{hunter}: every {step}. of {sum(p[2] for p in plans)}, from {seed % step}")
    for program, failing, end, count in plans:
        got = sweep(program, failing, end, count, report, step, seed % step)
        total = [a + b for a, b in zip(total, got)]
    report(f"{hunter}: {total[0]} tries, {total[1]} exceptions, {total[2]} findings")
    return total[2]


if __name__ == "__main__":
    sys.exit(min(main(float(sys.argv[1]), int(sys.argv[2]), sys.argv[3]), 100))
