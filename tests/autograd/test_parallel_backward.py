# SPDX-License-Identifier: BSD-3-Clause
"""Backward on several threads: equal bits for any number, hooks, errors, fallbacks."""

import os
import subprocess
import sys
import textwrap
import threading

import pytest
from conftest import leaf, same

import cograd as torch
from cograd.autograd import Function, set_num_backward_threads


@pytest.fixture(autouse=True)
def one_thread_again():
    assert torch.autograd.get_num_backward_threads() == 1
    yield
    set_num_backward_threads(1)


SIZE = 20_000  # heavy enough to be worth a thread


def branches(x, w, count=6, depth=8):
    """Returns independent chains that start at x and w and end in one rounding-prone sum."""
    total = None
    for b in range(count):
        y = x * (1.0 + 0.1 * b)
        for k in range(depth):
            y = (y * w).tanh() + x * (0.01 * k)
        part = y.exp().log1p()
        total = part if total is None else total + part * 0.3
    return total.sum()


def gradients(n, make):
    set_num_backward_threads(n)
    torch.manual_seed(0)
    leaves, result = make()
    result.backward()
    return [t.grad.clone() for t in leaves]


def equal_bits(a, b):
    return all(bool((p == q).all()) for p, q in zip(a, b, strict=True))


def make_elementwise():
    x = torch.randn(SIZE, requires_grad=True)
    w = torch.randn(SIZE, requires_grad=True)
    return [x, w], branches(x, w)


def make_matrices():
    x = torch.randn(160, 160, requires_grad=True)
    ws = [torch.randn(160, 160, requires_grad=True) for _ in range(5)]
    total = None
    for w in ws:
        y = x
        for _ in range(4):
            y = torch.relu(y @ w * 0.1) + x
        total = y if total is None else total + y
    return [x, *ws], (total * total).mean()


def make_layers():
    x = torch.randn(64, 200, requires_grad=True)
    w = torch.randn(200, 200, requires_grad=True)
    b = torch.randn(200, requires_grad=True)
    heads = [torch.softmax(torch.addmm(b, x, w * (1 + i)), 1) for i in range(4)]
    parts = torch.stack(heads).unbind(0)
    return [x, w, b], sum((p * p).sum() for p in parts)


@pytest.mark.parametrize("make", [make_elementwise, make_matrices, make_layers])
@pytest.mark.parametrize("n", [2, 3, 8])
def test_results_do_not_depend_on_the_number_of_threads(make, n):
    alone = gradients(1, make)
    for _ in range(5):
        assert equal_bits(alone, gradients(n, make))


def test_branches_really_run_on_several_threads():
    """The profiler names the thread of each node."""
    set_num_backward_threads(2)
    x = torch.ones(200, 200, requires_grad=True)

    def branch(k):
        y = x * k
        for _ in range(20):
            y = (y @ x).tanh()
        return y.sum()

    loss = sum(branch(k) for k in range(1, 7))
    for _ in range(20):  # a busy machine may give one thread no turn
        with torch.autograd.profiler.profile() as profile:
            loss.backward(retain_graph=True)
        if len({e.thread for e in profile.function_events}) > 1:
            return
    pytest.fail("every node of 20 runs ran on one thread")


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="needs /proc")
def test_loops_and_backward_runs_share_one_pool():
    """The first one that needs threads creates them; the other one creates no more."""
    code = """
import os, cograd as t
def threads():
    return len(os.listdir("/proc/self/task"))
def loop():
    x = t.ones(2_000_000)
    assert (x + x).sum().item() == 4_000_000
def backward():
    x = t.ones(200, 200, requires_grad=True)
    sum(((x * k) @ x).tanh().sum() for k in range(1, 7)).backward()
t.set_num_threads(3)
t.autograd.set_num_backward_threads(3)
start = threads()
for use in FIRST, SECOND:
    use()
    assert threads() == start + 2, (start, threads())
pid = os.fork()
if pid == 0:
    t.set_num_threads(1)
    t.ones(200, 200) @ t.ones(200, 200)  # OpenBLAS starts a thread of its own after a fork
    t.set_num_threads(3)
    start = threads()
    for use in SECOND, FIRST:
        use()
        assert threads() == start + 2, (start, threads())
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
"""
    for first, second in (("loop", "backward"), ("backward", "loop")):
        text = code.replace("FIRST", first).replace("SECOND", second)
        done = subprocess.run(
            [sys.executable, "-c", text], capture_output=True, text=True, timeout=100
        )
        assert done.returncode == 0, done.stderr


def test_loops_and_backward_runs_at_once():
    """Threads that run loops and threads that run backward compete for the same helpers."""
    set_num_backward_threads(3)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        want = gradients(1, make_elementwise)
        set_num_backward_threads(3)
        x = torch.ones(1_000_000)
        failed = []

        def loops():
            for _ in range(30):
                if (x + x).sum().item() != 2_000_000:
                    failed.append("loop")

        def runs():
            for _ in range(10):
                leaves, result = make_elementwise()
                result.backward()
                if not all(bool(torch.isfinite(t.grad).all()) for t in leaves):
                    failed.append("backward")

        threads = [threading.Thread(target=f) for f in (loops, runs, loops, runs)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not failed
        assert equal_bits(gradients(3, make_elementwise), want)
    finally:
        torch.set_num_threads(before)


def test_python_in_the_graph_keeps_a_run_on_one_thread():
    class Where(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            seen.append(threading.get_ident())
            return g

    seen = []
    set_num_backward_threads(3)
    x = torch.ones(SIZE, requires_grad=True)
    sum(Where.apply(x * k).sin().sum() for k in range(8)).backward()
    assert set(seen) == {threading.get_ident()}


def test_grad_with_inputs_and_retained_intermediates():
    def run(n):
        set_num_backward_threads(n)
        torch.manual_seed(0)
        x = torch.randn(SIZE, requires_grad=True)
        w = torch.randn(SIZE, requires_grad=True)
        a = x * w
        a.retain_grad()
        out = branches(a, w, 3, 3)
        first = torch.autograd.grad(out, [x, a], retain_graph=True)
        out.backward()
        return [*first, a.grad, x.grad, w.grad]

    assert equal_bits(run(1), run(2))


def test_second_order_runs_too():
    def run(n):
        set_num_backward_threads(n)
        torch.manual_seed(0)
        x = torch.randn(SIZE, requires_grad=True)
        y = branches(x, x.detach() * 0.5, 3, 2)
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        (g * g).sum().backward()
        return [x.grad]

    assert equal_bits(run(1), run(2))


def test_hooks_and_python_functions_take_part():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * x * g

    def run(n):
        set_num_backward_threads(n)
        torch.manual_seed(0)
        calls = []
        x = torch.randn(SIZE, requires_grad=True)
        parts = []
        for i in range(4):
            y = Double.apply(x * (i + 1))
            y.register_hook(lambda g, i=i: calls.append(i) or g * 2)
            parts.append(y)
        x.register_post_accumulate_grad_hook(lambda t: calls.append("leaf"))
        sum(parts).sum().backward()
        assert sorted(map(str, calls)) == ["0", "1", "2", "3", "leaf"]
        return [x.grad]

    alone = run(1)
    for _ in range(5):
        assert equal_bits(alone, run(2))


@pytest.mark.parametrize("n", [1, 2, 4])
def test_an_error_stops_the_run_and_leaks_nothing(n):
    class Special(Exception):
        pass

    class Fails(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            raise Special("this branch")

    def attempt():
        x = torch.ones(SIZE, requires_grad=True)
        y = branches(x, x, 3, 4) + Fails.apply(x * 2).sum()
        with pytest.raises(Special, match="this branch"):
            y.backward(retain_graph=True)
        return x

    set_num_backward_threads(n)
    attempt()
    nodes = torch._C._live_nodes()
    for _ in range(10):
        attempt()
    assert torch._C._live_nodes() == nodes
    x = torch.ones(SIZE, requires_grad=True)
    branches(x, x, 3, 2).backward()
    assert x.grad is not None


def test_nodes_freed_on_helpers_are_counted():
    set_num_backward_threads(2)
    x = torch.ones(SIZE, requires_grad=True)
    branches(x, x, 4, 4).backward()
    before = torch._C._live_nodes()
    for _ in range(20):
        branches(x, x, 4, 4).backward()
    assert torch._C._live_nodes() == before


def test_several_parallel_backwards_at_once():
    set_num_backward_threads(2)
    expected = gradients(2, make_elementwise)
    errors = []

    def work():
        try:
            for _ in range(3):
                leaves, total = None, None
                x = torch.ones(SIZE, requires_grad=True)
                total = branches(x, x, 3, 3)
                total.backward()
                leaves = x.grad
                assert bool((leaves == reference).all())
        except BaseException as error:
            errors.append(error)

    x = torch.ones(SIZE, requires_grad=True)
    branches(x, x, 3, 3).backward()
    reference = x.grad
    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert errors == []
    assert len(expected) == 2


def test_nested_backward_inside_a_parallel_one():
    set_num_backward_threads(2)
    x = torch.ones(SIZE, requires_grad=True)
    inner = []

    def hook(g):
        with torch.enable_grad():
            z = torch.ones(SIZE, requires_grad=True)
            branches(z, z, 2, 2).backward()
        inner.append(z.grad)

    a = x * 2
    a.register_hook(hook)
    b = x * 3
    b.register_hook(hook)
    (a + b).sum().backward()
    assert len(inner) == 2 and bool((inner[0] == inner[1]).all())


def test_set_multithreading_enabled():
    assert torch.autograd.is_multithreading_enabled()
    with torch.autograd.set_multithreading_enabled(False):
        assert not torch.autograd.is_multithreading_enabled()
        set_num_backward_threads(2)
        idents = set()
        x = torch.ones(SIZE, requires_grad=True)
        parts = []
        for i in range(4):
            y = (x * (i + 1)).exp()
            y.register_hook(lambda g: idents.add(threading.get_ident()))
            parts.append(y)
        sum(parts).sum().backward()
        assert idents == {threading.get_ident()}
    assert torch.autograd.is_multithreading_enabled()


@pytest.mark.parametrize("n", [0, -1])
def test_the_number_must_be_positive(n):
    with pytest.raises(RuntimeError, match="expected a positive number of threads"):
        set_num_backward_threads(n)


def test_small_graphs_stay_on_the_caller():
    set_num_backward_threads(2)
    idents = set()
    x = leaf([1.0, 2.0])
    parts = [x * i for i in range(5)]
    for y in parts:
        if y.requires_grad:
            y.register_hook(lambda g: idents.add(threading.get_ident()))
    sum(parts).sum().backward()
    assert idents == {threading.get_ident()}
    assert same(x.grad, [10.0, 10.0])


def test_branches_that_are_added_one_by_one():
    """An addition comes before each branch; the bits are equal for any number of threads."""

    def run(n):
        set_num_backward_threads(n)
        x = torch.linspace(0, 1, 40_000, requires_grad=True)
        loss = torch.zeros(())
        for k in range(8):
            loss = loss + (x * (k + 1)).sin().exp().sum()
        loss.backward()
        return x.grad

    want = run(1)
    assert all(torch.equal(run(n), want) for n in (2, 3))


def test_collections_during_a_parallel_backward():
    code = """
    import gc, threading
    import cograd as torch
    stop = False
    def churn():
        while not stop:
            gc.collect()
    thread = threading.Thread(target=churn)
    torch.autograd.set_num_backward_threads(4)
    thread.start()
    for _ in range(12):
        x = torch.rand(40_000, requires_grad=True)
        sum((x * k).sin().exp().tanh().sum() for k in range(1, 20)).backward()
    stop = True
    thread.join()
    print("ended")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "ended\n", (done.returncode, done.stderr[-500:])


def test_checkpoints_with_dropout_under_several_threads():
    from cograd.nn import functional
    from cograd.utils.checkpoint import checkpoint

    def block(x):
        return functional.dropout(x.sin().exp(), 0.5).tanh()

    def run(n):
        set_num_backward_threads(n)
        torch.manual_seed(0)
        x = torch.linspace(0, 1, 30_000, requires_grad=True)
        sum(checkpoint(block, x * k, use_reentrant=False).sum() for k in range(1, 7)).backward()
        return x.grad

    want = run(1)
    assert all(torch.equal(run(3), want) for _ in range(5))
