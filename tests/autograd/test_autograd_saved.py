# SPDX-License-Identifier: BSD-3-Clause
"""Saved tensors: version counters, the in-place error and release after use."""

import contextlib
import gc
import weakref

import pytest
from conftest import leaf, ones, same

import cograd as torch
from cograd import autograd

MODIFIED = "one of the variables needed for gradient computation has been modified by an inplace"

# ---- version counters ----------------------------------------------------------------------------


def test_version_counts_in_place_writes():
    x = ones(4)
    assert x._version == 0
    x.add_(1)
    x *= 2
    x[0] = 5
    assert x._version == 3


def test_reads_and_out_of_place_ops_leave_the_version():
    x = ones(4)
    _ = x + 1, x.sum(), x.view(2, 2), x.tolist(), x[0].item()
    assert x._version == 0


def test_views_share_the_version_both_ways():
    x = ones(4)
    v = x.view(2, 2)
    w = v[0]
    w.add_(1)
    assert x._version == v._version == w._version == 1
    x.add_(1)
    assert w._version == 2


def test_clone_has_its_own_version():
    x = ones(4)
    x.add_(1)
    c = x.clone()
    assert c._version == 0
    c.add_(1)
    assert x._version == 1


def test_detach_shares_the_version_data_does_not():
    x = ones(4)
    x.detach().add_(1)
    assert x._version == 1
    x.data.add_(1)
    assert x._version == 1


def test_writes_under_no_grad_count_too():
    x = leaf([1.0, 2.0])
    with torch.no_grad():
        x.add_(1)
    assert x._version == 1


def test_out_argument_counts_as_a_write():
    out = ones(2)
    torch.add(ones(2), ones(2), out=out)
    assert out._version == 1


# ---- the error -----------------------------------------------------------------------------------


def test_error_names_type_shape_op_and_versions():
    x = leaf([1.0, 2.0, 3.0])
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match=MODIFIED) as info:
        y.sum().backward()
    text = str(info.value)
    assert "[3]" in text and "output 0 of Exp" in text
    assert "is at version 1; expected version 0 instead" in text
    assert x.grad is None


def test_error_counts_every_write():
    x = leaf([[1.0, 2.0]])
    y = x * 2
    z = y * y
    for _ in range(3):
        y.add_(1)
    with pytest.raises(RuntimeError, match="is at version 3; expected version 0 instead") as info:
        z.sum().backward()
    assert "[1, 2]" in str(info.value) and "output 0 of " in str(info.value)


def test_error_expected_version_is_the_one_at_saving_time():
    x = leaf([1.0, 2.0])
    y = x * 2
    y.add_(1)
    y.add_(1)
    z = y * y
    y.add_(1)
    with pytest.raises(RuntimeError, match="is at version 3; expected version 2 instead"):
        z.sum().backward()


def test_error_for_a_written_constant_has_no_op():
    w, c = leaf([[1.0, 2.0]]), ones(2, 1)
    y = w.mm(c)
    c.zero_()
    with pytest.raises(RuntimeError, match=MODIFIED) as info:
        y.sum().backward()
    assert "[2, 1]" in str(info.value) and "output" not in str(info.value).split("Hint")[0]


def test_error_for_a_leaf_written_under_no_grad():
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    y = (x * w).sum()
    with torch.no_grad():
        w.add_(1)
    with pytest.raises(RuntimeError, match=MODIFIED):
        y.backward()


def test_write_through_a_view_of_a_saved_tensor_is_noticed():
    x = leaf([1.0, 2.0])
    y = x * 1
    z = y * y
    y[:1].zero_()
    with pytest.raises(RuntimeError, match=MODIFIED):
        z.sum().backward()


def test_write_to_the_base_of_a_saved_view_is_noticed():
    x = leaf([1.0, 2.0, 3.0])
    y = x * 1
    z = y[1:] * y[1:]
    y[0].zero_()
    with pytest.raises(RuntimeError, match=MODIFIED):
        z.sum().backward()


def test_only_what_is_saved_counts():
    x = leaf([1.0, 2.0])
    y = x * 1
    z = y + 1
    y.zero_()
    z.sum().backward()
    assert same(x.grad, [1, 1])


def test_unneeded_operand_is_not_saved_and_may_be_written():
    x, c = leaf([1.0, 2.0]), ones(2)
    h = x * 1
    y = h * c
    h.zero_()
    y.sum().backward()
    assert same(x.grad, [1, 1])


def test_write_before_the_use_is_fine():
    x = leaf([1.0, 2.0])
    y = x * 1
    y.add_(1)
    (y * y).sum().backward()
    assert same(x.grad, [4, 6])


def test_write_after_backward_is_fine():
    x = leaf([1.0, 2.0])
    y = x * 1
    z = y * y
    z.sum().backward()
    y.zero_()
    assert same(x.grad, [2, 4])


def test_optimizer_step_between_forward_and_backward_is_noticed():
    w = leaf([[1.0, 2.0], [3.0, 4.0]])
    x = leaf([[1.0, 1.0]])
    loss = x.mm(w).sum()
    with torch.no_grad():
        w.sub_(0.1)
    with pytest.raises(RuntimeError, match=MODIFIED):
        loss.backward()


def test_retained_graph_checks_in_each_run():
    x = leaf([1.0, 2.0])
    y = x.exp()
    y.sum().backward(retain_graph=True)
    y.detach().add_(1)
    with pytest.raises(RuntimeError, match=MODIFIED):
        y.sum().backward()


def test_failing_backward_leaves_earlier_branches_accumulated_only():
    x, w = leaf([1.0, 2.0]), leaf([1.0, 2.0])
    good = (w * w).sum()
    bad = x.exp()
    bad.add_(1)
    with pytest.raises(RuntimeError, match=MODIFIED):
        (good + bad.sum()).backward()
    assert x.grad is None


def test_saved_tensor_write_in_second_order():
    x = leaf([1.0, 2.0])
    y = x * 1
    (g,) = autograd.grad((y * y * y).sum(), y, create_graph=True)
    y.mul_(2)
    with pytest.raises(RuntimeError, match=MODIFIED):
        g.sum().backward()


# ---- release -------------------------------------------------------------------------------------


def test_saved_tensors_are_released_by_backward():
    x = leaf([1.0, 2.0])
    middle = x * 3
    y = (middle * middle).sum()
    alive = weakref.ref(middle)
    del middle
    y.backward()
    gc.collect()
    assert alive() is None
    assert y.grad_fn is not None


def test_retain_graph_keeps_the_saved_tensors():
    x = leaf([1.0, 2.0])
    y = (x.exp() * x).sum()
    y.backward(retain_graph=True)
    x.grad = None
    y.backward()
    assert same(x.grad, [2 * 2.718281828459045, 3 * 7.38905609893065], tol=1e-10)


def test_freed_node_says_so_when_called():
    x = leaf([1.0, 2.0])
    y = x * x
    node = y.grad_fn
    y.sum().backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        node(ones(2))


def test_graph_part_not_reached_by_grad_is_kept():
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    a = x * x
    b = w * w
    total = (a + b).sum()
    (g,) = autograd.grad(total, x, retain_graph=False)
    assert same(g, [2, 4])
    b.sum().backward()
    assert same(w.grad, [6, 8])


def test_output_saving_op_makes_no_cycle():
    x = leaf([1.0, 2.0])
    y = x.exp()
    node = weakref.ref(y)
    gc.disable()
    try:
        del y
        assert node() is None
    finally:
        gc.enable()


def test_saved_output_is_reattached_for_second_order():
    x = leaf([0.5, 1.0])
    y = x.tanh()
    (g,) = autograd.grad(y.sum(), x, create_graph=True)
    (second,) = autograd.grad(g.sum(), x)
    t = [0.46211715726000973, 0.7615941559557649]
    assert same(second, [-2 * v * (1 - v * v) for v in t], tol=1e-10)


def test_saved_leaf_is_the_same_python_object():
    class Probe(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            seen.append(ctx.saved_tensors[0] is x)
            return g * 2

    seen = []
    x = leaf(1.0)
    Probe.apply(x).backward()
    assert seen == [True]


@pytest.mark.parametrize("count", [3, 100_000])
@pytest.mark.parametrize("hooks", [False, True])
def test_a_function_gets_its_saved_tensors_with_their_history(count, hooks):
    """A user's Function may read requires_grad, also in a backward without a graph."""
    seen = []

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            seen.append((x.requires_grad, x.is_leaf, y.requires_grad, y.is_leaf))
            return g * y, g * x

    x = torch.ones(count, requires_grad=True)
    context = torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)
    with context if hooks else contextlib.nullcontext():
        z = Square.apply(x, x * 2)
    z.sum().backward()
    assert seen == [(True, True, True, False)]
