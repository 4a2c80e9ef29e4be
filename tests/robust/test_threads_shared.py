# SPDX-License-Identifier: BSD-3-Clause
"""Tests what threads share besides graphs: tensors' objects, modules, transforms, op names."""

import gc
import os
import signal
import sys
import threading
import time
import weakref

import pytest
from conftest import leaf, same
from test_threads import in_threads

import cograd as torch
from cograd import func, nn
from cograd.autograd import Function, forward_ad


@pytest.fixture(autouse=True)
def switch_often():
    """Makes the interpreter switch threads as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_a_tensor_has_one_object_however_many_threads_ask():
    """Only the graph keeps the leaves: their objects come and go as threads access them."""
    leaves = [leaf([float(i)]) for i in range(20)]
    for i, x in enumerate(leaves):
        x.number = i  # attributes are in the object, which must not be recreated without them
    nodes = [(x * 2).grad_fn.next_functions[0][0] for x in leaves]
    del leaves, x

    def work(k):
        for _ in range(100):
            for i, node in enumerate(nodes):
                one, other = node.variable, node.variable
                assert one is other
                assert one.number == i
                del one, other

    in_threads(work)
    assert [node.variable.number for node in nodes] == list(range(20))


def test_objects_of_nodes_are_one_and_end_with_their_users():
    y = leaf([1.0]) * 2

    def work(k):
        for _ in range(300):
            one, other = y.grad_fn, y.grad_fn
            assert one is other
            assert one.next_functions[0][0] is other.next_functions[0][0]
        return weakref.ref(one)

    refs = in_threads(work)
    gc.collect()
    assert all(ref() is None for ref in refs)


def test_a_shared_module_gets_every_threads_gradient():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).double()
    x = torch.randn(5, 4, dtype=torch.float64)
    model(x).sum().backward()
    once = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()

    def work(k):
        for _ in range(40):
            model(x).sum().backward()

    in_threads(work)
    for p, g in zip(model.parameters(), once, strict=True):
        assert torch.allclose(p.grad, g * 40 * 8, rtol=1e-12)


def test_grad_is_there_while_another_thread_adds_to_it():
    x = torch.ones(1_000_000, requires_grad=True)
    x.sum().backward()
    seen = []

    def add():
        for _ in range(60):
            (x * 2).sum().backward()

    thread = threading.Thread(target=add)
    thread.start()
    while thread.is_alive():
        seen.append(x.grad is None)
    thread.join()
    assert seen and not any(seen)
    assert (x.grad == 1 + 2 * 60).all()


def test_a_cleared_grad_holds_what_came_afterwards_only():
    x = torch.ones(300_000, requires_grad=True)
    x.sum().backward()
    taken, ended = [], threading.Event()

    def add():
        for _ in range(100):
            (x * 2).sum().backward()
        ended.set()

    thread = threading.Thread(target=add)
    thread.start()
    while not ended.is_set():
        before = x.grad
        x.grad = None
        taken.append(before)
    thread.join()
    taken.append(x.grad)
    # Each addition is in a tensor that was removed, or lies between the two reads.
    total = sum(int(g[0].item()) for g in taken if g is not None)
    assert total <= 1 + 2 * 100
    assert all(bool((g == g[0]).all()) for g in taken if g is not None)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_a_child_adds_where_a_thread_of_its_parent_was_adding():
    x = torch.ones(2_000_000, requires_grad=True)
    x.sum().backward()
    ended = threading.Event()

    def add():
        while not ended.is_set():
            (x * 2).sum().backward()

    thread = threading.Thread(target=add)
    thread.start()
    try:
        for _ in range(20):
            time.sleep(0.003)
            child = os.fork()
            if child == 0:
                signal.alarm(30)  # ends a child that would wait forever
                (x * 2).sum().backward()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        ended.set()
        thread.join()


def test_transforms_of_several_threads_do_not_meet():
    x = torch.linspace(0.1, 1.0, 6, dtype=torch.float64)

    def f(v):
        return (v.sin() * v).sum()

    expected = func.grad(f)(x), func.hessian(f)(x), func.vmap(func.grad(f))(x.reshape(3, 2))
    tangent = torch.ones_like(x)
    _, slope = func.jvp(f, (x,), (tangent,))

    def work(k):
        for _ in range(10):
            assert torch.equal(func.grad(f)(x), expected[0])
            assert torch.allclose(func.hessian(f)(x), expected[1], rtol=1e-12)
            assert torch.equal(func.vmap(func.grad(f))(x.reshape(3, 2)), expected[2])
            assert torch.equal(func.jvp(f, (x,), (tangent,))[1], slope)
            with forward_ad.dual_level():
                dual = forward_ad.make_dual(x, tangent * (k + 1))
                got = forward_ad.unpack_dual(f(dual)).tangent
            assert got.item() == pytest.approx(slope.item() * (k + 1), rel=1e-12)

    in_threads(work, count=4)


def test_writes_to_own_views_of_a_shared_leaf():
    x = leaf([1.0, 2.0, 3.0])

    def work(k):
        for _ in range(50):
            y = x * 1
            y[k % 3].mul_(5.0)
            y.view(3).add_(1.0)
            y.sum().backward()

    in_threads(work, count=6)
    assert same(x.grad, [50 * 2 * (5 + 1 + 1)] * 3)


def test_a_view_of_a_written_base_learns_of_it_on_any_thread():
    for _ in range(50):
        x = leaf([1.0, 2.0])
        base = x * 1
        view = base[0]
        base.mul_(3.0)
        in_threads(lambda k, v=view: (v * float(k + 1)).backward(retain_graph=True), count=4)
        assert same(x.grad, [3 * (1 + 2 + 3 + 4), 0])


def test_ops_are_registered_while_others_call_theirs():
    made = {}

    @torch.library.custom_op("t_threads_shared::before", mutates_args=())
    def before(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    before.register_autograd(lambda ctx, g: g * 2)

    def work(k):
        x = leaf([1.0])
        for i in range(10):
            if k % 2:

                @torch.library.custom_op(f"t_threads_shared::op_{k}_{i}", mutates_args=())
                def op(x: torch.Tensor, i: int = i) -> torch.Tensor:
                    return x * (i + 1)

                op.register_autograd(lambda ctx, g, i=i: (g * (i + 1), None))
                made[k, i] = op
                op(x).backward()
            else:
                for _ in range(20):
                    torch.ops.t_threads_shared.before(x).backward()
        return x.grad.item()

    results = in_threads(work, count=4)
    assert results == [400.0, 55.0, 400.0, 55.0]
    assert all(made[k, i](leaf([1.0])).item() == i + 1 for k, i in made)


def test_classes_of_functions_come_and_go_beside_those_that_run():
    x = leaf([2.0])

    def work(k):
        for i in range(30):

            class Scale(Function):
                @staticmethod
                def forward(ctx, x, by=float(i)):
                    return x * by

                @staticmethod
                def backward(ctx, g, by=float(i)):
                    return g * by

            Scale.apply(x).backward()
            del Scale

    in_threads(work, count=4)
    assert same(x.grad, [4 * sum(range(30))])
    gc.collect()


def test_graphs_are_made_and_dropped_while_all_is_collected():
    x = leaf([1.0, 2.0])
    stop = threading.Event()

    def collect():
        while not stop.is_set():
            gc.collect()

    collector = threading.Thread(target=collect)
    collector.start()

    def work(k):
        alive = []
        for i in range(60):
            y = (x * 2).exp().log()
            y.grad_fn.metadata["self"] = y  # garbage that only the collector frees
            y.register_hook(lambda g, y=y: None)
            alive.append((y.sum(), weakref.ref(y)))
            if i % 7 == 0:
                root, _ = alive.pop(0)
                root.backward()
        for root, ref in alive:
            assert ref() is not None
            root.backward()
        return [ref for _, ref in alive]

    try:
        refs = [ref for some in in_threads(work, count=3) for ref in some]
    finally:
        stop.set()
        collector.join()
    assert torch.allclose(x.grad, torch.full((2,), 2.0 * 60 * 3, dtype=torch.float64))
    gc.collect()
    assert all(ref() is None for ref in refs)
