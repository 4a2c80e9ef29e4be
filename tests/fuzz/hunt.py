# SPDX-License-Identifier: BSD-3-Clause
"""Runs cases in forked children: records each case before it runs, limits memory, ends hangs."""

import faulthandler
import gc
import mmap
import os
import resource
import signal
import struct
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass

import cograd as torch
from cograd._base import build_info
from fuzz import leaks
from fuzz.cases import generate
from fuzz.execute import Wrong, run_and_check

SANITIZED = bool(build_info.sanitize)
PATIENCE = 40 if SANITIZED else 20  # seconds that one call may take
MEMORY = 1 << 30  # bytes of address space that a child may add to what is in use


@dataclass
class Finding:
    kind: str
    seed: int
    text: str
    case: object = None
    before: int = 0  # cases that the child had run before


def limits():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not SANITIZED:  # the sanitizer reserves terabytes of address space
        with open("/proc/self/statm") as file:
            now = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))


class Child:
    """A forked process that runs the cases [first, end) and records which one is running."""

    def __init__(self, work, first, end, step=1, patience=None):
        self.patience = patience or PATIENCE
        self.note = mmap.mmap(-1, 4096)
        self.note[:16] = struct.pack("qq", first, 0)
        self.step, self.err = step, tempfile.TemporaryFile()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self._run(work, first, end)
        self.seen, self.since = first, time.monotonic()

    def _run(self, work, first, end):
        code = 3
        try:
            gc.freeze()
            os.setsid()
            os.dup2(self.err.fileno(), 2)
            os.dup2(os.open(os.devnull, os.O_RDWR), 1)
            faulthandler.enable(self.err)
            faulthandler.register(signal.SIGUSR1, self.err)
            warnings.simplefilter("ignore")
            limits()
            for i in range(first, end, self.step):
                self.note[:8] = struct.pack("q", i)
                work(i)
                self.note[8:16] = struct.pack("q", i + 1)
            code = 5 if leaks.found() else 0
        except Wrong as e:
            text = str(e).encode(errors="replace")[:3500]
            self.note[64 : 64 + len(text)] = text
            code = 4
        except BaseException as e:
            import traceback

            text = f"{type(e).__name__}: {e}\n{traceback.format_exc()[-2500:]}".encode(
                errors="replace"
            )[:3500]
            self.note[64 : 64 + len(text)] = text
        finally:
            os._exit(code)

    def at(self):
        return struct.unpack("q", self.note[:8])[0]

    def poll(self):
        """Returns None while the child runs, then (kind, case, text); no fault is kind ""."""
        seen = self._look()
        if seen is not None:
            self.err.close()
        return seen

    def _look(self):
        done, status = os.waitpid(self.pid, os.WNOHANG)
        if done:
            return self._ended(status)
        at = self.at()
        if at != self.seen:
            self.seen, self.since = at, time.monotonic()
        elif time.monotonic() - self.since > self.patience:
            os.kill(self.pid, signal.SIGUSR1)
            time.sleep(0.3)
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            return ("hang", at, self._errors())
        return None

    def _ended(self, status):
        said = self.note[64:].rstrip(b"\0").decode(errors="replace")
        if os.WIFSIGNALED(status):
            return (signal.Signals(os.WTERMSIG(status)).name, self.at(), self._errors())
        code = os.WEXITSTATUS(status)
        if code == 0:
            return ("", self.at(), "")
        kind = {4: "wrong", 5: "leak"}.get(code, f"exit {code}")
        return (kind, self.at(), said or self._errors())

    def _errors(self):
        self.err.seek(0)
        return self.err.read()[-6000:].decode(errors="replace")

    def stop(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self.err.close()


def outcome_of(work, seconds=None, memory=None):
    """Runs `work()` in a child; returns (kind, text) of its fault, or ("", "")."""
    child = Child(lambda i: work(), 0, 1)
    end = time.monotonic() + (seconds or PATIENCE + 5)
    while time.monotonic() < end:
        seen = child.poll()
        if seen is not None:
            return seen[0], seen[2]
        time.sleep(0.002)
    child.stop()
    return "hang", ""


def in_order(targets, first, end, batch=1500):
    """Runs the cases of these seeds one after the other, as a child of a hunt does."""
    for i in range(first, end):
        run_seed(targets, i, batch)


def run_seed(targets, i, batch=1500):
    torch.set_num_threads(1 + (i // batch) % 2)
    return run_and_check(generate(targets, i))


def run_many(
    work, first, end, *, jobs=2, batch=1500, seconds=None, found=None, most=50, patience=None
):
    """Runs work(i) for i from `first` in children, `batch` in each; a fault ends only its child.

    Calls `found(kind, i, text, before)` for each fault. Returns how many cases ran.
    """
    began, ran, faults, running, following = time.monotonic(), 0, 0, {}, first

    def over():
        return faults >= most or (seconds is not None and time.monotonic() - began > seconds)

    while True:
        while not over() and len(running) < jobs and (end is None or following < end):
            last = following + batch if end is None else min(following + batch, end)
            running[Child(work, following, last, 1, patience)] = (following, last)
            following = last
        if not running:
            return ran
        for child, (start, last) in list(running.items()):
            seen = child.poll()
            if seen is None:
                if over() and seconds is not None and time.monotonic() - began > seconds + 5:
                    child.stop()
                    ran += child.at() - start
                    del running[child]
                continue
            del running[child]
            kind, at, text = seen
            ran += at + 1 - start
            if not kind:
                continue
            faults += found(kind, at, text, at - start)
            if at + 1 < last and not over():
                running[Child(work, at + 1, last, 1, patience)] = (at + 1, last)
        time.sleep(0.005)


def hunt(targets, seed, seconds=60.0, calls=None, jobs=2, report=print, most=50):
    """Runs cases seed, seed + 1, ... until a limit; returns (calls, results, findings)."""
    findings, good = [], mmap.mmap(-1, 8 * 1024)

    def work(i):
        if run_seed(targets, i) == "ok":
            at = os.getpid() % 1024 * 8  # one place for each child
            good[at : at + 8] = struct.pack("q", struct.unpack("q", good[at : at + 8])[0] + 1)

    def found(kind, at, text, before):
        case = generate(targets, at)
        if kind == "hang" and "Huge(" in case.text():
            return 0  # a sum over 2**60 elements is no fault
        if "allocator is out of memory" in text:
            return 0  # the sanitizer's `new` ends the process instead of raising
        findings.append(Finding(kind, at, text, case, before))
        report(f"seed {at} (before: {before}): {kind}: {case.text()}\n    {text.strip()[:1500]}")
        return 1

    end = None if calls is None else seed + calls
    ran = run_many(work, seed, end, jobs=jobs, seconds=seconds, found=found, most=most)
    return ran, sum(struct.unpack("1024q", good[:])), findings
