# SPDX-License-Identifier: BSD-3-Clause
"""Backward from several Python threads: shared leaves, shared graphs, modes and errors."""

import ctypes
import gc
import itertools
import sys
import threading
import time
import weakref

import numpy as np
import pytest
from conftest import leaf, same

import cograd as torch
from cograd import autograd
from cograd.autograd import Function

THREADS = 8


@pytest.fixture(autouse=True)
def switch_often():
    """Makes the interpreter switch threads as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(function, count=THREADS):
    """Runs function(k) on count threads that start together; raises the first failure."""
    barrier = threading.Barrier(count)
    failures, results = [], [None] * count

    def body(k):
        try:
            barrier.wait(30)
            results[k] = function(k)
        except BaseException as error:  # re-raised in the caller
            failures.append(error)

    threads = [threading.Thread(target=body, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a thread hangs"
    if failures:
        raise failures[0]
    return results


class PySquare(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * g * x


def test_independent_graphs():
    def work(k):
        x = leaf([1.0, 2.0])
        for _ in range(50):
            (x * float(k)).sum().backward()
        return x.grad

    for k, grad in enumerate(in_threads(work)):
        assert same(grad, [50.0 * k] * 2)


@pytest.mark.parametrize("square", [lambda x: x * x, PySquare.apply], ids=["built_in", "python"])
def test_own_graphs_over_a_shared_leaf_lose_no_gradient(square):
    x = leaf([1.0, 2.0])
    x.grad = torch.zeros(2, dtype=torch.float64)

    def work(k):
        for _ in range(100):
            square(x).sum().backward()

    in_threads(work)
    assert same(x.grad, [2 * 100 * THREADS, 4 * 100 * THREADS])


def test_first_gradients_of_a_shared_leaf_are_all_counted():
    for _ in range(50):
        x = leaf([1.0])
        in_threads(lambda k, x=x: (x * float(k + 1)).sum().backward(), count=4)
        assert same(x.grad, [10.0])


def test_one_retained_graph_run_by_all_threads():
    x = leaf([0.5, 1.5])
    y = x
    for _ in range(20):
        y = y.sin() * 1.1
    y = y.sum()
    (expected,) = autograd.grad(y, x, retain_graph=True)

    def work(k):
        return [autograd.grad(y, x, retain_graph=True)[0] for _ in range(20)]

    for grads in in_threads(work):
        assert all(torch.equal(g, expected) for g in grads)


def test_one_retained_graph_accumulating_into_the_leaf():
    x = leaf([1.0, 2.0])
    y = PySquare.apply(x * x).sum()

    def work(k):
        for _ in range(50):
            y.backward(retain_graph=True)

    in_threads(work)
    assert same(x.grad, np.array([4.0, 32.0]) * 50 * THREADS)


def test_shared_trunk_with_own_heads():
    x = leaf(np.linspace(0.1, 1.0, 8))
    trunk = (x * x).sin()

    def work(k):
        total = torch.zeros((), dtype=torch.float64)
        for _ in range(20):
            (g,) = autograd.grad((trunk * float(k)).sum(), x, retain_graph=True)
            total = total + g.sum()
        return total.item()

    v = np.linspace(0.1, 1.0, 8)
    expected = (2 * v * np.cos(v * v)).sum()
    for k, total in enumerate(in_threads(work)):
        assert total == pytest.approx(20 * k * expected, rel=1e-10, abs=1e-12)


def test_diamonds_with_shared_nodes_run_concurrently():
    x = leaf([0.3, 0.7])
    y = x
    for _ in range(30):
        y = (y + y.sin()) * 0.5
    y = y.sum()
    (expected,) = autograd.grad(y, x, retain_graph=True)
    results = in_threads(lambda k: [autograd.grad(y, x, retain_graph=True)[0] for _ in range(30)])
    assert all(torch.equal(g, expected) for grads in results for g in grads)


def test_higher_order_in_threads():
    x = leaf([1.0, 2.0])

    def work(k):
        for _ in range(20):
            (g,) = autograd.grad((x**3).sum(), x, create_graph=True)
            (h,) = autograd.grad(g.sum(), x)
        return h

    assert all(same(h, [6, 12]) for h in in_threads(work))


def test_graph_made_in_one_thread_run_in_another_and_freed_in_a_third():
    x = leaf([1.0, 2.0])
    made = in_threads(lambda k: PySquare.apply(x * float(k + 1)).sum(), count=4)
    in_threads(lambda k: made[k].backward(), count=4)
    assert same(x.grad, np.array([2.0, 4.0]) * (1 + 4 + 9 + 16))
    refs = [weakref.ref(y) for y in made]
    in_threads(lambda k: made.__setitem__(k, None), count=4)
    gc.collect()
    assert all(ref() is None for ref in refs)


def test_error_in_one_thread_leaves_the_others_alone():
    class FailsFor(Function):
        @staticmethod
        def forward(ctx, x, k):
            ctx.k = k
            return x * 1

        @staticmethod
        def backward(ctx, g):
            if ctx.k % 2:
                raise LookupError(ctx.k)
            return g, None

    x = leaf(1.0)

    def work(k):
        for _ in range(25):
            try:
                FailsFor.apply(x * 1, k).backward()
            except LookupError as error:
                assert error.args == (k,)
            else:
                assert k % 2 == 0

    in_threads(work)
    assert same(x.grad, 25.0 * THREADS / 2)


def test_grad_mode_of_threads_does_not_mix():
    x = leaf(2.0)

    def work(k):
        for _ in range(200):
            with torch.set_grad_enabled(k % 2 == 0):
                assert (x * 2).requires_grad == (k % 2 == 0)
        assert torch.is_grad_enabled()

    in_threads(work)


def test_reentrant_backward_in_threads():
    class Inner(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            with torch.enable_grad():
                copy = ctx.saved_tensors[0].detach().requires_grad_()
                (copy**3).sum().backward()
            return g * copy.grad

    def work(k):
        x = leaf([1.0, 2.0])
        for _ in range(20):
            Inner.apply(x).sum().backward()
        return x.grad

    assert all(same(g, [60, 240]) for g in in_threads(work))


def test_hooks_run_on_the_thread_that_called_backward():
    def work(k):
        seen = []
        y = leaf(1.0) * 1
        y.register_hook(lambda g: seen.append(threading.get_ident()))
        y.backward()
        return seen == [threading.get_ident()]

    assert all(in_threads(work))


def test_hooks_registered_while_others_run_backward():
    x = leaf(1.0)
    y = x * 1

    def work(k):
        for _ in range(100):
            if k % 2:
                y.register_hook(lambda g: g).remove()
            else:
                y.backward(retain_graph=True)

    in_threads(work)
    assert same(x.grad, 100.0 * THREADS / 2)


def test_tensors_pass_between_threads_under_collection():
    x = leaf([1.0, 2.0])
    stop = threading.Event()

    def collect():
        while not stop.is_set():
            gc.collect(0)

    collector = threading.Thread(target=collect)
    collector.start()
    try:

        def work(k):
            for _ in range(100):
                y = PySquare.apply(x)
                y.grad_fn.cycle = y
                y.sum().backward(inputs=[x])

        in_threads(work, count=4)
    finally:
        stop.set()
        collector.join()
    assert same(x.grad, [800, 1600])


def test_threads_that_end_leave_no_memory_behind():
    for _ in range(200):
        thread = threading.Thread(target=lambda: (leaf([1.0]) * 2).sum().backward())
        thread.start()
        thread.join()
    x = leaf([3.0])
    (x * x).sum().backward()
    assert same(x.grad, [6.0])


class Heap(ctypes.Structure):
    """The result of mallinfo2."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in """arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks
        keepcost""".split()
    ]


def test_what_a_thread_freed_graphs_with_goes_with_it():
    measure = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if measure is None:
        pytest.skip("this C library has no mallinfo2")
    measure.restype = Heap

    def work():
        x = leaf([1.0])
        torch.stack([x * 2 for _ in range(1000)]).sum().backward()  # all but one wait in a list

    def used(threads):
        for _ in range(threads):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        gc.collect()
        heap = measure()
        return heap.uordblks + heap.hblkhd

    used(20)
    sizes = [used(0), used(40), used(40), used(40)]
    # A leak per thread shows in every round; a growing table of Python's shows in one.
    assert min(b - a for a, b in itertools.pairwise(sizes)) < 40 * 4000


def test_big_tensors_in_threads():
    x = torch.ones(200_000, requires_grad=True)
    x.grad = torch.zeros(200_000)

    def work(k):
        for _ in range(5):
            (x * 2).sum().backward()

    in_threads(work, count=4)
    assert x.grad.min().item() == x.grad.max().item() == 40.0


def test_small_runs_leave_the_interpreter_to_other_threads():
    """A thread that requests the interpreter gets it within a few switch intervals."""
    sys.setswitchinterval(0.005)
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            y = torch.ones(4, requires_grad=True)
            (y * y).sum().backward()

    thread = threading.Thread(target=busy)
    thread.start()
    start = time.monotonic()
    try:
        for _ in range(20):
            time.sleep(0)  # releases the interpreter and requests it again
    finally:
        stop.set()
        thread.join(60)
    assert time.monotonic() - start < 10  # 0.1 s; 46 s when runs took the lock back at once
