# SPDX-License-Identifier: BSD-3-Clause
"""Shapes of graphs: diamonds, wide, deep, reentrant, failing, repeated."""

import gc
import sys
import threading
import traceback
import weakref

import numpy as np
import pytest
from conftest import arr, leaf, ones, same

import cograd as torch
from cograd import autograd
from cograd.autograd import Function

# ---- shapes --------------------------------------------------------------------------------------


def test_diamond_runs_the_shared_node_once():
    runs = []
    x = leaf(2.0)
    shared = x * 3
    shared.register_hook(lambda g: runs.append(g.item()))
    left, right = shared * shared, shared.exp()
    (left + right).backward()
    assert len(runs) == 1
    assert same(x.grad, 3 * (2 * 6 + np.exp(6.0)), tol=1e-10)


def test_chain_of_diamonds_is_linear_in_time():
    x = leaf(1.0)
    y = x
    for _ in range(200):
        y = (y + y) * 0.5
    y.backward()
    assert same(x.grad, 1.0)


def test_unequal_path_lengths_meet_before_the_shared_node_runs():
    x = leaf(1.5)
    shared = x.sin()
    long = shared
    for _ in range(50):
        long = long * 1.01
    (long * shared).backward()
    s, c = np.sin(1.5), np.cos(1.5)
    assert same(x.grad, 2 * s * c * 1.01**50, tol=1e-10)


def test_one_tensor_in_both_arguments():
    x = leaf([2.0, 3.0])
    torch.dot(x, x).backward()
    assert same(x.grad, [4, 6])


def test_wide_fan_in_to_one_node():
    count = 10_000
    leaves = [leaf(float(i)) for i in range(count)]
    stacked = torch.stack(leaves)
    (stacked * stacked).sum().backward()
    assert [v.grad.item() for v in leaves] == [2.0 * i for i in range(count)]


def test_wide_fan_out_from_one_leaf():
    x = leaf(2.0)
    total = torch.stack([x * float(k) for k in range(10_000)]).sum()
    total.backward()
    assert same(x.grad, 10_000 * 9_999 / 2)


def test_multi_output_node_with_only_some_outputs_used():
    x = leaf([1.0, 2.0, 3.0, 4.0])
    parts = x.unbind(0)
    (parts[1] * parts[3] * 10).backward()
    assert same(x.grad, [0, 40, 0, 20])


def test_several_components_from_several_roots():
    pairs = [(leaf(float(i)), i) for i in range(20)]
    autograd.backward([v * v for v, _ in pairs])
    assert all(same(v.grad, 2.0 * i) for v, i in pairs)


def test_random_graph_matches_numerical_jacobian():
    rng = np.random.default_rng(7)
    plan = [
        (int(rng.integers(0, i + 2)), int(rng.integers(0, i + 2)), int(rng.integers(0, 4)))
        for i in range(40)
    ]

    def function(a, b):
        values = [a, b]
        for i, j, kind in plan:
            u, v = values[i], values[j]
            if kind == 0:
                values.append(u * v)
            elif kind == 1:
                values.append(torch.sin(u) + v)
            elif kind == 2:
                values.append(torch.tanh(u - v))
            else:
                values.append(u * 0.5 + v * 0.25)
        return torch.tanh(values[-1]) + torch.tanh(values[-2])

    assert autograd.gradcheck(function, (leaf([0.3, -0.7]), leaf([1.1, 0.2])))
    assert autograd.gradgradcheck(function, (leaf([0.3, -0.7]), leaf([1.1, 0.2])))


# ---- depth ---------------------------------------------------------------------------------------


def chain(x, depth):
    y = x
    for _ in range(depth):
        y = y + 1
    return y


def on_small_stack(function, kib=256):
    """Runs function on a thread with a stack of kib KiB; re-raises its exception."""
    failed = []

    def body():
        try:
            function()
        except BaseException as error:  # re-raised in the caller
            failed.append(error)

    before = threading.stack_size(kib * 1024)
    try:
        thread = threading.Thread(target=body)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    if failed:
        raise failed[0]


def test_deep_chain_runs():
    x = leaf(1.0)
    y = chain(x, 100_000)
    y.backward()
    assert same(x.grad, 1.0) and y.item() == 100_001.0


def test_deep_chain_builds_runs_and_frees_on_a_small_stack():
    x = leaf(1.0)

    def work():
        y = chain(x, 100_000)
        y.backward(retain_graph=True)
        del y

    on_small_stack(work)
    assert same(x.grad, 1.0)


def test_deep_graph_that_never_ran_is_freed_on_a_small_stack():
    x = leaf(1.0)

    def work():
        y = x
        for _ in range(100_000):
            y = y * x
        alive = weakref.ref(y)
        del y
        assert alive() is None

    on_small_stack(work)


def test_deep_second_order_graph_is_freed_on_a_small_stack():
    x = leaf(1.0)

    def work():
        y = x
        for _ in range(20_000):
            y = y * x
        (g,) = autograd.grad(y, x, create_graph=True)
        assert same(g, 20_001.0)
        del y, g

    on_small_stack(work)


def test_deep_chain_of_views_and_in_place_writes():
    x = leaf([1.0, 2.0])
    y = x * 1
    for _ in range(20_000):
        y.add_(1)
    on_small_stack(lambda: y.sum().backward())
    assert same(x.grad, [1, 1]) and same(y, [20_001, 20_002])


class AddOne(Function):
    @staticmethod
    def forward(ctx, x):
        return x + 1

    @staticmethod
    def backward(ctx, g):
        return g


def test_deep_chain_of_python_functions():
    x = leaf(1.0)
    y = x
    for _ in range(20_000):
        y = AddOne.apply(y)
    y.backward()
    assert same(x.grad, 1.0)


def test_deep_chain_of_python_functions_is_freed_without_recursion():
    x = leaf(1.0)

    def work():
        y = x
        for _ in range(20_000):
            y = AddOne.apply(y)
        del y

    on_small_stack(work)


@pytest.mark.slow
def test_chain_of_a_million():
    x = leaf(1.0)
    y = chain(x, 1_000_000)
    y.backward()
    assert same(x.grad, 1.0)
    del y


@pytest.mark.slow
def test_chain_of_a_million_saving_products_on_a_small_stack():
    x = torch.ones((), dtype=torch.float64, requires_grad=True)

    def work():
        y = x
        for _ in range(1_000_000):
            y = y * x
        y.backward()

    on_small_stack(work)
    assert same(x.grad, 1_000_001.0)


# ---- re-entrant backward -------------------------------------------------------------------------


class InnerGrad(Function):
    """Runs a whole backward inside its own backward."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            copy = x.detach().requires_grad_()
            (inner,) = autograd.grad(copy**3, copy)
        return g * inner


def test_backward_inside_a_backward():
    x = leaf(2.0)
    InnerGrad.apply(x).backward()
    assert same(x.grad, 12.0)


def test_backward_inside_a_hook_accumulates_to_its_own_leaf():
    x, other = leaf(2.0), leaf(5.0)
    y = x * x

    def hook(g):
        with torch.enable_grad():
            (other * other).backward()

    y.register_hook(hook)
    y.backward()
    assert same(x.grad, 4.0) and same(other.grad, 10.0)


def test_reentrant_backward_over_the_same_leaf():
    x = leaf(2.0)

    class Inner(Function):
        @staticmethod
        def forward(ctx, v):
            return v * 1

        @staticmethod
        def backward(ctx, g):
            with torch.enable_grad():
                (x * x).backward()
            return g

    Inner.apply(x).backward()
    assert same(x.grad, 5.0)


def test_reentrant_backward_over_the_graph_that_is_running():
    x = leaf(3.0)
    shared = x * x
    seen = []

    class Peek(Function):
        @staticmethod
        def forward(ctx, v):
            return v * 1

        @staticmethod
        def backward(ctx, g):
            seen.append(autograd.grad(shared, x, retain_graph=True)[0].item())
            return g

    (Peek.apply(shared) * shared).backward()
    assert seen == [6.0] and same(x.grad, 4 * 27.0)


def test_deeply_nested_reentrant_backward():
    class Nest(Function):
        @staticmethod
        def forward(ctx, x, depth):
            ctx.depth = depth
            return x * 2

        @staticmethod
        def backward(ctx, g):
            if ctx.depth:
                with torch.enable_grad():
                    v = leaf(1.0)
                    Nest.apply(v, ctx.depth - 1).backward()
                    return g * v.grad, None
            return g * 2, None

    x = leaf(1.0)
    Nest.apply(x, 60).backward()
    assert same(x.grad, 2.0)


def test_reentrant_checkpoint_gives_the_same_gradient():
    class Checkpoint(Function):
        @staticmethod
        def forward(ctx, function, x):
            ctx.function = function
            ctx.save_for_backward(x)
            return function(x)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            copy = x.detach().requires_grad_()
            with torch.enable_grad():
                out = ctx.function(copy)
            out.backward(g)
            return None, copy.grad

    x = leaf([0.3, 0.7])
    w = leaf([2.0, -1.0])
    Checkpoint.apply(lambda v: torch.sin(v * w), x).sum().backward()
    expected_x = arr(w) * np.cos(arr(x) * arr(w))
    assert same(x.grad, expected_x, tol=1e-10)
    assert same(w.grad, arr(x) * np.cos(arr(x) * arr(w)), tol=1e-10)


# ---- exceptions ----------------------------------------------------------------------------------


class Boom(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 1

    @staticmethod
    def backward(ctx, g):
        raise LookupError("boom in backward", 42)


def test_exception_in_backward_keeps_type_args_and_traceback():
    x = leaf(2.0)
    with pytest.raises(LookupError) as info:
        (Boom.apply(x * 2) * 3).backward()
    assert type(info.value) is LookupError and info.value.args == ("boom in backward", 42)
    lines = traceback.extract_tb(info.tb)
    assert any(frame.name == "backward" and frame.filename == __file__ for frame in lines)
    assert x.grad is None


def test_engine_works_after_an_exception():
    x = leaf(2.0)
    for _ in range(3):
        with pytest.raises(LookupError):
            Boom.apply(x * 2).backward()
        (x * x).backward()
    assert same(x.grad, 12.0) and torch.is_grad_enabled()


def test_exception_leaves_the_rest_of_the_graph_usable():
    armed = [True]

    class Sometimes(Function):
        @staticmethod
        def forward(ctx, x):
            return x + 0

        @staticmethod
        def backward(ctx, g):
            if armed[0]:
                raise OSError("not now")
            return g

    x = leaf(3.0)
    y = Sometimes.apply(x * x) * 2
    with pytest.raises(OSError, match="not now"):
        y.backward(retain_graph=True)
    armed[0] = False
    y.backward()
    assert same(x.grad, 12.0)


def test_exception_in_backward_leaves_no_reference():
    x = leaf(2.0)
    middle = x * 2
    middle_ref = weakref.ref(middle)
    y = Boom.apply(middle)
    del middle
    with pytest.raises(LookupError):
        y.backward()
    del y
    gc.collect()
    assert middle_ref() is None


def test_exception_from_nested_backward_travels_through_both():
    class Outer(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            with torch.enable_grad():
                Boom.apply(leaf(1.0)).backward()
            return g

    with pytest.raises(LookupError, match="boom in backward"):
        Outer.apply(leaf(1.0)).backward()
    x = leaf(2.0)
    (x * x).backward()
    assert same(x.grad, 4.0)


def test_keyboard_interrupt_and_system_exit_pass():
    for kind in (KeyboardInterrupt, SystemExit):
        x = leaf(1.0)
        y = x * 1

        def hook(g, kind=kind):
            raise kind

        y.register_hook(hook)
        with pytest.raises(kind):
            y.backward()


def test_reference_count_of_exception_is_not_kept():
    error = LookupError("kept")
    before = sys.getrefcount(error)
    x = leaf(1.0)
    y = x * 1

    def hook(g):
        raise error

    y.register_hook(hook)
    with pytest.raises(LookupError):
        y.backward()
    error.__traceback__ = error.__context__ = None
    del x, y, hook
    gc.collect()
    assert sys.getrefcount(error) <= before + 1


# ---- repetition ----------------------------------------------------------------------------------


def gradients_of_a_network(seed):
    rng = np.random.default_rng(seed)
    tensors = [
        torch.tensor(rng.standard_normal(s).tolist(), requires_grad=True)
        for s in [(16, 8), (8, 32), (32,), (32, 4)]
    ]
    x, w1, b1, w2 = tensors
    hidden = torch.tanh(x.mm(w1) + b1)
    out = torch.log_softmax((hidden * hidden.sigmoid()).mm(w2), 1)
    loss = -(out * out.exp()).sum() + (hidden.mean(0) * b1).sum()
    loss.backward()
    return [t.grad.detach().numpy().tobytes() for t in tensors]


def test_same_program_gives_the_same_bits():
    assert gradients_of_a_network(3) == gradients_of_a_network(3)


def test_same_graph_run_twice_gives_the_same_bits():
    x = torch.tensor(np.random.default_rng(5).standard_normal(1000).tolist(), requires_grad=True)
    terms = [torch.sin(x * float(k)) / (k + 1) for k in range(30)]
    total = torch.stack(terms).sum()
    first = autograd.grad(total, x, retain_graph=True)[0].numpy().tobytes()
    second = autograd.grad(total, x)[0].numpy().tobytes()
    assert first == second


def test_accumulation_order_is_newest_use_first():
    order = []
    x = leaf(1.0)
    uses = []
    for k in range(6):
        use = x * float(k)
        use.register_hook(lambda g, k=k: order.append(k))
        uses.append(use)
    torch.stack(uses).sum().backward()
    assert order == [5, 4, 3, 2, 1, 0]


def test_graph_kept_by_output_only():
    x = leaf(2.0)
    middle = x.exp()
    alive = weakref.ref(middle)
    y = middle * 2 + ones(1)
    del middle
    assert alive() is None or same(alive(), np.exp(2.0))
    y.sum().backward()
    assert same(x.grad, 2 * np.exp(2.0), tol=1e-10)
