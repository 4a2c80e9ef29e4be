# SPDX-License-Identifier: BSD-3-Clause
"""Runs code in forked children, so that a crash fails a test and does not end the run."""

import gc
import os
import resource
import signal
import time
import warnings

from cograd._base import build_info

GIB = 2**30


def address_space():
    """Returns the bytes of address space that this process has mapped."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def outcome(function, memory=3 * GIB, seconds=30):
    """Runs ``function()`` in a child; returns "ok ...", "SomeError: text", "signal 11", "exit 1" or
    "still running". ``memory`` limits the bytes that the child may map in addition to today's.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        text = "ok"
        try:
            os.close(reading)
            gc.freeze()  # keeps the suite's objects out of collections here
            os.dup2(os.open(os.devnull, os.O_RDWR), 2)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if not build_info.sanitize:  # sanitizers reserve address space themselves
                limit = address_space() + memory
                resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            warnings.simplefilter("ignore")
            text = f"ok {function()!r}"
        except BaseException as error:
            try:
                text = f"{'|'.join(c.__name__ for c in type(error).__mro__)}: {error}"
            except BaseException:
                text = "MemoryError"
        finally:
            os.write(writing, text[:4000].encode(errors="replace"))
            os._exit(0)
    os.close(writing)
    try:
        return _wait(child, seconds) or _read(reading)
    finally:
        os.close(reading)


def _read(reading):
    return os.read(reading, 16000).decode(errors="replace")


def _wait(child, seconds):
    """Returns None if the child ended normally, else a description of its end."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            if os.WIFSIGNALED(status):
                return f"signal {os.WTERMSIG(status)}"
            return f"exit {os.WEXITSTATUS(status)}" if os.WEXITSTATUS(status) else None
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "still running"


def is_error(text):
    """Returns whether an outcome is an exception or a result, not a crash or an endless loop."""
    return not text.startswith(("signal", "exit", "still"))
