# SPDX-License-Identifier: BSD-3-Clause
"""Little memory: every failure is a MemoryError, and the library works afterwards."""

import _thread
import gc
import itertools
import os
import subprocess
import sys
import threading
import time

import pytest
from children import outcome

import cograd as torch
from cograd.autograd import Function

KIB = 2**10
MIB = 2**20


class Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * g * x


def forward():
    return (torch.ones(2**19) + 1).exp().sum()


def backward():
    x = torch.ones(2**18, requires_grad=True)
    ((x * 2).exp() * x).sum().backward()
    return x.grad.sum()


def functions():
    x = torch.ones(2**17, requires_grad=True)
    Square.apply(Square.apply(x)).sum().backward()
    return x.grad.sum()


def indexing():
    x = torch.ones(600, 600)
    x[torch.arange(300)] = 2.0
    return x[x > 1].sum() + x[:, [1, 2, 3]].sum()


def small():
    return sum((torch.ones(4) + i).sum() for i in range(2000))


def long_graph():
    x = torch.ones(4, requires_grad=True)
    y = x
    for _ in range(3000):
        y = y * 1.001
    y.sum().backward()
    return x.grad.sum()


def products():
    x = torch.ones(300, 300, requires_grad=True)
    (x @ x).sum().backward()
    return x.grad.sum()


def decompositions():
    a = torch.eye(200) * 2 + torch.ones(200, 200)
    return torch.linalg.inv(a).sum() + torch.linalg.svd(a[:60, :60])[1].sum()


def joins():
    parts = torch.ones(2**18).chunk(7)
    return torch.cat(parts).sort()[0].cumsum(0)[-1]


WORK = [forward, backward, functions, indexing, small, long_graph, products, decompositions, joins]
LIMITS = [0, 64, 256, 512, *range(1024, 16 * 1024, 1536), *range(16 * 1024, 96 * 1024, 8 * 1024)]
# The last limit must suffice: OpenBLAS needs a stack and a buffer for each thread beyond two.
LIMITS[-1] += 48 * 1024 * max(0, (os.cpu_count() or 1) - 2, torch.get_num_threads() - 2)


def attempt(work, threads):
    """Makes three tries with the available memory; each gives a result or a MemoryError."""
    torch.set_num_threads(threads)
    failures = 0
    for _ in range(3):
        try:
            work()
        except MemoryError:
            failures += 1
        gc.collect()
    torch._C._release_cached_memory()
    assert float((torch.ones(4) + 1).sum()) == 8.0
    return failures


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("work", WORK, ids=lambda f: f.__name__)
def test_every_failure_is_a_memory_error(work, threads):

    torch.linalg.inv(torch.eye(2))
    seen = {}
    for limit in LIMITS:
        text = outcome(lambda: attempt(work, threads), memory=limit * KIB, seconds=60)
        seen[limit] = text
        # If not even the interpreter has a page left, its own MemoryError is acceptable.
        assert text.startswith("ok") or "MemoryError" in text.split(":")[0], (limit, text)
    assert seen[LIMITS[-1]] == "ok 0", seen


@pytest.mark.parametrize("threads", [1, 2])
def test_the_library_goes_on_and_nothing_leaks(threads):
    def starve():
        import resource

        torch.set_num_threads(threads)
        x = torch.ones(2**16, requires_grad=True)
        Square.apply(x)  # x has its accumulator from here on
        nodes = torch._C._live_nodes()
        before = resource.getrlimit(resource.RLIMIT_AS)
        for _ in range(30):
            try:
                y = x
                held = []
                while True:
                    y = Square.apply(y * 1.5)
                    held.append(torch.empty(2**20))
            except MemoryError:
                pass
            del y, held
            gc.collect()
        assert torch._C._live_nodes() == nodes
        assert before == resource.getrlimit(resource.RLIMIT_AS)
        (Square.apply(x) * 2).sum().backward()
        return float(x.grad.sum()) == 4.0 * 2**16

    assert outcome(starve, memory=100 * MIB, seconds=100) == "ok True"


def test_threads_that_cannot_start_are_done_without():
    """Without address space for a stack, the caller does the work alone."""

    def work():
        torch.set_num_threads(8)
        x = torch.ones(2**18, requires_grad=True)
        with pytest.raises(RuntimeError, match="thread"):
            threading.stack_size(64 * MIB)
            threading.Thread(target=print).start()
        ((x * 3).exp().log() * 2).sum().backward()
        return float(x.grad[0])

    text = outcome(work, memory=14 * MIB)
    assert text.startswith("ok 6."), text


def wrong_shapes():
    with pytest.raises(RuntimeError, match="size|shape"):
        torch.ones(2) + torch.ones(3)


def attempt_on_threads(work, count):
    """Gives new threads a result or a MemoryError; returns when they are done, or after 2 s."""
    torch.set_num_threads(2)
    started = ended = 0

    def body():
        nonlocal ended
        try:
            work()
        except (MemoryError, pytest.fail.Exception):
            pass
        finally:
            ended += 1

    for _ in range(count):
        try:  # start() waits forever for a thread that had no memory to begin
            _thread.start_new_thread(body, ())
            started += 1
        except (RuntimeError, MemoryError):
            continue
    until = time.monotonic() + 2
    while ended < started and time.monotonic() < until:
        time.sleep(0.001)


THREAD_LIMITS = [*range(64, 2048, 192), *range(2048, 40_000, 4800)]


@pytest.mark.parametrize(
    "work", [wrong_shapes, backward, products, decompositions], ids=lambda f: f.__name__
)
def test_new_threads_fail_by_a_memory_error(work):
    """The C library ends the process if a thread's variables find no memory."""
    torch.linalg.inv(torch.eye(2))
    for limit in THREAD_LIMITS:
        text = outcome(lambda: attempt_on_threads(work, 4), memory=limit * KIB, seconds=60)
        assert text.startswith("ok") or "MemoryError" in text.split(":")[0], (limit, text)


class Nested(Function):
    """Runs a backward inside its backward, `depth` times."""

    @staticmethod
    def forward(ctx, x, depth):
        ctx.depth = depth
        return x * 1

    @staticmethod
    def backward(ctx, g):
        if ctx.depth > 0:
            with torch.enable_grad():
                x = torch.ones(1, requires_grad=True)
                Nested.apply(x, ctx.depth - 1).sum().backward()
        return g, None


def nested():
    x = torch.ones(1, requires_grad=True)
    Nested.apply(x, 150).sum().backward()
    return x.grad.sum()


def after_a_thread():
    """Gives each work workers whose stack is at hand but whose malloc has nothing.

    The C library keeps the stack of a thread that has ended, so the next thread starts without
    address space; with one thread before, it has one stack and no heap to spare.
    """
    torch.linalg.inv(torch.eye(2))
    thread = threading.Thread(target=print)
    thread.start()
    thread.join()
    for work in WORK:
        fails_by_a_memory_error(work)
    nested()  # a main thread's stack that has to grow ends the process
    fails_by_a_memory_error(nested)


def fails_by_a_memory_error(work):
    for threads, limit in itertools.product((2, 4), (0, 4, 16, 64)):
        text = outcome(lambda: attempt(work, threads), memory=limit * KIB, seconds=60)
        if not text.startswith("ok") and "MemoryError" not in text.split(":")[0]:
            sys.exit(f"{work.__name__}, {threads} threads, {limit} KiB: {text}")


START = (
    "import sys; sys.path[:0] = sys.argv[1:]\nfrom test_out_of_memory import *\nafter_a_thread()"
)


def test_workers_that_start_without_memory():
    """Runs in a new interpreter: other threads of this process have left memory for a worker."""
    folder = os.path.dirname(os.path.abspath(__file__))
    run = subprocess.run(
        [sys.executable, "-c", START, folder, os.path.dirname(folder)],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-500:]


def test_the_error_is_both_a_memory_error_and_a_runtime_error():
    assert issubclass(torch.OutOfMemoryError, MemoryError)
    assert issubclass(torch.OutOfMemoryError, RuntimeError)
    with pytest.raises(torch.OutOfMemoryError, match="out of memory: could not allocate"):
        torch.empty(2**50)
    with pytest.raises(torch.OutOfMemoryError):
        torch.ones(1).expand(2**50).clone()
    assert "exit" not in outcome(lambda: torch.empty(2**50))
