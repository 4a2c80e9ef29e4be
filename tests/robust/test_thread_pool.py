# SPDX-License-Identifier: BSD-3-Clause
"""The thread pool under Python: interrupts, the end of the interpreter, rest after work, forks."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import cograd as torch

PRELUDE = """
import os, signal, sys, threading, time
import cograd as torch
torch.set_num_threads(8)
"""


def run(code, **env):
    """Runs the code in a new interpreter; returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(code)],
        env={**os.environ, **env}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def test_interrupts_during_loops(threads):
    """A signal never reaches a worker, and after the exception the pool goes on."""
    threads(8)
    x = torch.ones(300_000)
    for _ in range(5):
        timer = threading.Timer(0.05, signal.raise_signal, [signal.SIGINT])
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            while True:
                (x + 1).sum()
        timer.join()
        assert (x + 1).sum() == 600_000


def test_the_interpreter_ends_while_loops_run():
    text = run("""
        def work():
            x = torch.ones(500_000)
            while True:
                x.exp().sum()
        for _ in range(2):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(0.3)
        print("end")
        """)
    assert text == "end"


def test_two_python_threads_compute_at_once(threads):
    threads(4)
    x = torch.arange(400_000, dtype=torch.float64)
    results = []

    def work(k):
        results.append(all(float((x * k).sum()) == k * float(x.sum()) for _ in range(30)))

    workers = [threading.Thread(target=work, args=(k,)) for k in (1, 2, 4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert results == [True] * 3


def test_forked_children_start_without_workers():
    """In a new interpreter: libraries that other tests load may start threads in children."""
    text = run("""
        x = torch.ones(400_000)
        x.exp()
        for _ in range(5):
            child = os.fork()
            if child == 0:
                before = len(os.listdir("/proc/self/task"))
                right, started, deadline = True, False, time.monotonic() + 30
                while right and not started and time.monotonic() < deadline:
                    right = float((x + 1).sum()) == 800_000
                    started = len(os.listdir("/proc/self/task")) > 1
                os._exit((before != 1) + 2 * (not right) + 4 * (not started))
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), end="")
        """)
    assert text == "00000"


def test_lapack_starts_no_threads_and_leaves_none_spinning():
    """OpenBLAS's own threads burned 20 ms of CPU time each after a decomposition."""
    text = run("""
        torch.set_num_threads(1)
        x = torch.randn(500, 500)
        a = x @ x.t() + 500 * torch.eye(500)
        torch.linalg.cholesky(a), torch.linalg.svd(a[:200, :200])
        before = time.process_time()
        time.sleep(0.1)
        print(len(os.listdir("/proc/self/task")), time.process_time() - before < 0.005)
        """)
    assert text == "1 True"


WORK = {"add": lambda x: x + 1, "sum": lambda x: x.sum(0), "sort": lambda x: x.sort(0)[0]}


@pytest.mark.parametrize("work", WORK.values(), ids=list(WORK))
def test_loops_progress_beside_processes_that_spin(threads, work):
    threads(8)
    spin = "while True: pass"
    load = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(2 * os.cpu_count())]
    try:
        x = torch.ones(1000, 300)
        expected = work(x)
        start = time.monotonic()
        for _ in range(20):
            assert torch.equal(work(x), expected)
        assert time.monotonic() - start < 60
    finally:
        for process in load:
            process.kill()
            process.wait()
