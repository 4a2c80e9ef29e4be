# SPDX-License-Identifier: BSD-3-Clause
"""Scopes of hooks and modes that are entered or left inside one of their own callbacks."""

import threading

import pytest
from conftest import leaf, same

import cograd as torch
from cograd.autograd import Function, graph
from cograd.autograd.graph import saved_tensors_hooks


def identity(x):
    return x


def leave(scope):
    scope.__exit__(None, None, None)


@pytest.fixture(autouse=True)
def no_hooks_are_left():
    yield
    with graph.disable_saved_tensors_hooks("hooks are left behind"):
        pass


# --- pack hooks ---------------------------------------------------------------------------------


@pytest.mark.parametrize("compose", [False, True])
def test_pack_hook_leaves_the_scope_around_its_own(compose):
    calls = []

    def pack(t):
        calls.append("inner")
        if len(calls) == 1:
            leave(outer)
        return t

    outer = saved_tensors_hooks(lambda t: calls.append("outer") or t, identity)
    inner = saved_tensors_hooks(pack, identity, compose=compose)
    x = leaf([1.0, 2.0])
    outer.__enter__()
    inner.__enter__()
    first = x * x
    calls.append("-")
    second = x * x
    leave(inner)
    (first + second + x * x).sum().backward()
    # As in torch, scopes form a stack: the innermost one ends, but still packs this tensor.
    handed_on = ["outer"] if compose else []
    assert calls == ["inner", *handed_on, "outer", "-", "outer", "outer"]
    assert same(x.grad, [6, 12])


def test_pack_hook_leaves_every_scope():
    def pack(t):
        while scopes:
            leave(scopes.pop())
        return t

    scopes = [saved_tensors_hooks(pack, identity, compose=True) for _ in range(4)]
    x = leaf([1.0, 2.0])
    for scope in scopes:
        scope.__enter__()
    (x * x).exp().sum().backward()
    assert x.grad is not None and not scopes


def test_scope_entered_in_a_pack_hook_stays():
    calls = []

    def pack(t):
        if "pack" not in calls:
            fresh.__enter__()
        calls.append("pack")
        return t

    fresh = saved_tensors_hooks(lambda t: calls.append("fresh") or t, identity)
    x = leaf([2.0])
    with saved_tensors_hooks(pack, identity):
        x.exp()
        x.sin()
        leave(fresh)
        x.cos()
    assert calls == ["pack", "fresh", "pack"]


def test_hooks_cannot_be_disabled_in_a_pack_hook():
    raised = []

    def pack(t):
        with pytest.raises(RuntimeError, match="not now") as e:
            with graph.disable_saved_tensors_hooks("not now"):
                pass
        raised.append(e)
        return t

    with saved_tensors_hooks(pack, identity):
        leaf([1.0]).exp()
    assert len(raised) == 1


def test_ops_recorded_by_a_pack_hook_go_to_the_hooks_that_do_not_run():
    calls = []

    def recording(name):
        def pack(t):
            calls.append(name)
            with torch.enable_grad():
                leaf([1.0]).exp()
            return t

        return pack

    with saved_tensors_hooks(recording("outer"), identity):
        with saved_tensors_hooks(recording("inner"), identity, compose=True):
            leaf([1.0]).exp()
    # The op that the inner one recorded, and then the tensor itself.
    assert calls == ["inner", "outer", "outer"]


def test_scope_is_left_on_the_thread_that_leaves_it():
    x = leaf([1.0, 2.0])

    def leave_elsewhere():  # that thread has no scope
        with pytest.raises(RuntimeError, match="no hooks of saved tensors are active"):
            leave(scope)
        refused.append(True)

    def pack(t):
        worker = threading.Thread(target=leave_elsewhere)
        worker.start()
        worker.join()
        return t

    refused = []

    scope = saved_tensors_hooks(pack, identity)
    with scope:
        (x * x).sum().backward()
    assert same(x.grad, [2, 4])
    assert refused and all(refused)


def test_save_on_cpu_left_in_a_hook():
    x = leaf([1.0, 2.0])
    pending = [graph.save_on_cpu()]

    def pack(t):
        while pending:
            leave(pending.pop())
        return t

    inner = saved_tensors_hooks(pack, identity, compose=True)
    pending[0].__enter__()
    inner.__enter__()
    y = (x * x).sum()
    leave(inner)
    y.backward()
    assert same(x.grad, [2, 4])


def test_hook_of_a_slot_leaves_the_scopes_around():
    x = leaf([3.0])
    y = x * x
    scope = saved_tensors_hooks(identity, identity)
    scope.__enter__()
    y.grad_fn._raw_saved_self.register_hooks(lambda t: leave(scope) or t, lambda t: t * 10)
    y.sum().backward()
    assert same(x.grad, [33.0])


# --- unpack hooks and backward -------------------------------------------------------------------


def test_unpack_hook_leaves_its_scope():
    calls = []

    def unpack(t):
        calls.append("unpack")
        if len(calls) == 1:
            leave(scope)
        return t

    scope = saved_tensors_hooks(identity, unpack)
    x = leaf([1.0, 2.0])
    scope.__enter__()
    (g,) = torch.autograd.grad((x * x).sum(), x, create_graph=True)
    g.sum().backward()
    assert same(x.grad, [2, 2]) and calls == ["unpack", "unpack"]


def test_scopes_left_deep_inside_nested_runs_are_left_for_the_caller():
    class Nested(Function):
        @staticmethod
        def forward(ctx, x, depth):
            ctx.depth = depth
            return x * 1

        @staticmethod
        def backward(ctx, g):
            if ctx.depth == 0:
                leave(scope)
                leave(scope)
            else:
                with torch.enable_grad():
                    Nested.apply(leaf([1.0]), ctx.depth - 1).sum().backward()
            return g, None

    scope = saved_tensors_hooks(identity, identity)
    scope.__enter__()
    scope.__enter__()
    Nested.apply(leaf([1.0]), 150).sum().backward()


@pytest.mark.parametrize("which", [1, 3, 10])
def test_scopes_left_while_several_threads_record(which):
    before = torch.autograd.get_num_backward_threads()
    lock = threading.Lock()
    caller = threading.get_ident()
    packed, left = [], []

    def pack(t):
        with lock:
            packed.append(1)
            now = len(packed) == which
        if now:
            left.append(threading.get_ident())
            leave(scope)
        return t

    scope = saved_tensors_hooks(pack, identity)
    leaves = [torch.rand(120, 120).requires_grad_() for _ in range(8)]
    total = sum((((x @ x) * 1e-3).exp() @ x).sum() for x in leaves)
    torch.autograd.set_num_backward_threads(4)
    scope.__enter__()
    try:
        grads = torch.autograd.grad(total, leaves, create_graph=True)
    finally:
        torch.autograd.set_num_backward_threads(before)
        if left != [caller]:  # a helper leaves it only for itself
            leave(scope)
    second = torch.autograd.grad(sum(g.sum() for g in grads), leaves)
    assert all(bool(g.isfinite().all()) for g in second)


# --- other modes, hooks that remove themselves --------------------------------------------------


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_anomaly_mode_left_in_a_hook_of_the_run():
    scope = torch.autograd.detect_anomaly()
    x = leaf([1.0, 2.0])
    scope.__enter__()
    y = x * x
    y.register_hook(lambda g: leave(scope))
    (y * y).sum().backward()
    assert same(x.grad, [4, 32]) and not torch.is_anomaly_enabled()


def test_profiler_left_in_a_hook_of_the_run():
    scope = torch.autograd.profiler.profile()
    x = leaf([1.0, 2.0])
    scope.__enter__()
    y = x * x
    y.register_hook(lambda g: leave(scope))
    (y * y).sum().backward()
    assert same(x.grad, [4, 32]) and len(scope.key_averages()) > 0


def test_hooks_that_remove_themselves_run_once():
    x = leaf([1.0, 2.0])
    y = x * x
    calls, handles = [], {}

    def once(name):
        def hook(*args):
            calls.append(name)
            handles[name].remove()

        return hook

    handles["tensor"] = y.register_hook(once("tensor"))
    handles["before"] = y.grad_fn.register_prehook(once("before"))
    handles["after"] = y.grad_fn.register_hook(once("after"))
    handles["leaf"] = x.register_hook(once("leaf"))
    handles["accumulated"] = x.register_post_accumulate_grad_hook(once("accumulated"))
    handles["multi"] = graph.register_multi_grad_hook((x, y), once("multi"))
    for _ in range(2):
        y.sum().backward(retain_graph=True)
    assert sorted(calls) == sorted(handles)
