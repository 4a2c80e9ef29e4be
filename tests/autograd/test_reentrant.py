# SPDX-License-Identifier: BSD-3-Clause
"""Backward inside backward, concurrent backwards, interruptions and forks."""

import os
import subprocess
import sys
import textwrap
import threading
import time

import pytest
from conftest import leaf, same

import cograd as torch
from cograd.autograd import Function


class Deep(Function):
    """Runs another backward in its own, `depth` levels down."""

    @staticmethod
    def forward(ctx, x, depth):
        ctx.depth = depth
        return x * 1

    @staticmethod
    def backward(ctx, g):
        if ctx.depth > 0:
            with torch.enable_grad():
                inner = leaf([1.0])
                y = Deep.apply(inner, ctx.depth - 1)
                y.sum().backward()
            g = g * inner.grad
        return g, None


@pytest.mark.parametrize("depth", [1, 59, 60, 61, 150, 1000])
def test_depth(depth):
    x = leaf([2.0])
    Deep.apply(x, depth).sum().backward()
    assert same(x.grad, [1.0])


@pytest.mark.slow
def test_depth_ten_thousand():
    x = leaf([2.0])
    Deep.apply(x, 10_000).sum().backward()
    assert same(x.grad, [1.0])


def test_depth_through_hooks():
    left = [300]
    x = leaf([1.0])

    def hook(g):
        if left[0] > 0:
            left[0] -= 1
            with torch.enable_grad():
                y = x * 1
                y.register_hook(hook)
                y.sum().backward()
        return g

    y = x * 1
    y.register_hook(hook)
    y.sum().backward()
    assert left == [0]
    assert same(x.grad, [301.0])


def test_error_at_depth_travels_unchanged():
    class Special(Exception):
        pass

    class Fails(Function):
        @staticmethod
        def forward(ctx, x, depth):
            ctx.depth = depth
            return x * 1

        @staticmethod
        def backward(ctx, g):
            if ctx.depth == 0:
                raise Special("bottom")
            with torch.enable_grad():
                y = Fails.apply(leaf([1.0]), ctx.depth - 1)
                y.sum().backward()
            return g, None

    nodes = torch._C._live_nodes()
    with pytest.raises(Special, match="bottom"):
        Fails.apply(leaf([1.0]), 130).sum().backward()
    assert torch._C._live_nodes() == nodes


def test_modes_hold_on_the_thread_that_takes_over():
    seen = []

    class Look(Function):
        @staticmethod
        def forward(ctx, x, depth):
            ctx.depth = depth
            return x * 1

        @staticmethod
        def backward(ctx, g):
            seen.append((torch.is_grad_enabled(), torch.is_inference_mode_enabled()))
            if ctx.depth > 0:
                with torch.enable_grad():
                    y = Look.apply(leaf([1.0]), ctx.depth - 1)
                    y.sum().backward()
            return g, None

    packed = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(1) or t, lambda t: t):
        Look.apply(leaf([1.0]), 70).sum().backward()

    class Square(Look):
        @staticmethod
        def backward(ctx, g):
            if ctx.depth > 0:
                with torch.enable_grad():
                    y = Square.apply(leaf([1.0]), ctx.depth - 1)
                    y.sum().backward()
            else:
                with torch.enable_grad():
                    leaf([1.0]).exp()
            return g, None

    assert seen == [(False, False)] * 71
    del packed[:]
    with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(1) or t, lambda t: t):
        Square.apply(leaf([1.0]), 70).sum().backward()
    assert packed == [1]


def test_same_graph_again_inside_itself():
    x = leaf([1.0, 2.0])
    y = x * x
    again = [True]

    def hook(g):
        if again[0]:
            again[0] = False
            with torch.enable_grad():
                y.sum().backward(retain_graph=True)

    y.register_hook(hook)
    y.sum().backward()
    assert same(x.grad, [4.0, 8.0])


def test_queued_callbacks_belong_to_the_innermost_run():
    order = []
    x = leaf([1.0])

    def outer(g):
        torch._C._queue_callback(lambda: order.append("outer done"))
        with torch.enable_grad():
            y = x * 2
            y.register_hook(inner)
            y.sum().backward()
        order.append("outer hook")

    def inner(g):
        torch._C._queue_callback(lambda: order.append("inner done"))

    y = x * 1
    y.register_hook(outer)
    y.sum().backward()
    assert order == ["inner done", "outer hook", "outer done"]


# --- threads -----------------------------------------------------------------------------------


def run_threads(n, target):
    errors = []

    def guarded(i):
        try:
            target(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not any(t.is_alive() for t in threads)
    return errors


def test_shared_leaf_from_many_threads():
    x = leaf([1.0, 1.0])

    def work(i):
        for _ in range(50):
            (x * (i + 1)).sum().backward()

    assert run_threads(8, work) == []
    assert same(x.grad, [50.0 * 36, 50.0 * 36])


def test_one_graph_from_many_threads():
    x = leaf([1.0, 2.0])
    y = Deep.apply((x * x).exp().log(), 2)
    for _ in range(20):
        y = y * 1.0
    total = y.sum()

    def work(i):
        for _ in range(20):
            total.backward(retain_graph=True)

    assert run_threads(6, work) == []
    assert same(x.grad, [120 * 2.0, 120 * 4.0], tol=1e-9)


def test_one_of_several_backwards_fails():
    class Picky(Function):
        @staticmethod
        def forward(ctx, x, bad):
            ctx.bad = bad
            return x * 1

        @staticmethod
        def backward(ctx, g):
            time.sleep(0.001)
            if ctx.bad:
                raise ValueError("this one")
            return g, None

    x = leaf([1.0])

    def work(i):
        y = x * 1
        for _ in range(10):
            y = Picky.apply(y, False)
        Picky.apply(y, i == 3).sum().backward()

    errors = run_threads(6, work)
    assert [type(e) for e in errors] == [ValueError]
    assert same(x.grad, [5.0])


def test_deep_runs_from_several_threads():
    def work(i):
        x = leaf([2.0])
        Deep.apply(x, 150).sum().backward()
        assert same(x.grad, [1.0])

    assert run_threads(4, work) == []


# --- interruption ------------------------------------------------------------------------------


def script(body, timeout=60):
    code = "import cograd as torch, os, signal, threading, time, sys\n" + textwrap.dedent(body)
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=timeout
    )


# A background job of a shell starts with SIGINT ignored, and Python keeps it so.
INTERRUPT = """
signal.signal(signal.SIGINT, signal.default_int_handler)

def later(seconds):
    threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
"""


def test_keyboard_interrupt_stops_a_long_backward():
    done = script(
        INTERRUPT
        + """
x = torch.ones(300, 300, requires_grad=True)
y = x
for _ in range(1500):
    y = (y @ x) * 1e-3
total = y.sum()
later(0.1)
start = time.time()
try:
    total.backward(retain_graph=True)
    print("finished", time.time() - start)
except KeyboardInterrupt:
    print("stopped", time.time() - start < 2.0)
# The graph is as good as before.
a = torch.ones(3, requires_grad=True)
(a * 2).sum().backward()
print(a.grad.tolist(), x.grad is None)
z = (y * 0).sum()
"""
    )
    assert done.stdout.splitlines()[0] == "stopped True", done.stdout + done.stderr
    assert done.stdout.splitlines()[1] == "[2.0, 2.0, 2.0] True"


def test_an_interrupted_graph_can_run_again():
    done = script(
        INTERRUPT
        + """
x = torch.ones(300_000, requires_grad=True)
y = x
for _ in range(400):
    y = y * 1.0
total = y.sum()
later(0.05)
stopped = 0
try:
    for _ in range(100):
        total.backward(retain_graph=True)
except KeyboardInterrupt:
    stopped = 1
x.grad = None
total.backward()
print(stopped, x.grad.unique().tolist())
"""
    )
    assert done.stdout.split("\n")[0] == "1 [1.0]", done.stdout + done.stderr


def test_keyboard_interrupt_reaches_a_deep_run():
    done = script(
        INTERRUPT
        + """
class Endless(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1
    @staticmethod
    def backward(ctx, g):
        time.sleep(0.001)
        with torch.enable_grad():
            y = Endless.apply(torch.ones(1, requires_grad=True))
            y.sum().backward()
        return g

later(0.5)
start = time.time()
try:
    Endless.apply(torch.ones(1, requires_grad=True)).sum().backward()
except KeyboardInterrupt:
    print("stopped", time.time() - start < 20)
"""
    )
    assert done.stdout.strip() == "stopped True", done.stdout + done.stderr


# --- fork --------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork_after_use():
    done = script(
        """
torch.autograd.set_num_backward_threads(2)
x = torch.ones(20000, requires_grad=True)
def step():
    a = x
    b = x
    for _ in range(20):
        a = a * 1.0
        b = b * 1.0
    x.grad = None
    (a + b).sum().backward()
    return x.grad[0].item()
stop = []
def busy():
    while not stop:
        y = torch.ones(4, requires_grad=True)
        (y * y).sum().backward()
t = threading.Thread(target=busy)
t.start()
assert step() == 2.0
codes = []
for _ in range(20):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if step() == 2.0 else 1)
    codes.append(os.waitpid(pid, 0)[1])
stop.append(1)
t.join()
print(set(codes), step())
""",
        timeout=100,
    )
    assert done.stdout.strip() == "{0} 2.0", done.stdout + done.stderr
