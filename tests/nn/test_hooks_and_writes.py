# SPDX-License-Identifier: BSD-3-Clause
"""In-place writes to the tensors that modules with full backward hooks receive, keep and return.

A module with a full backward hook gets aliases of its arguments, and its caller gets aliases of its
results. After a write to one of two aliases, the other one has the gradients that it would have
without hooks, or raises when it is used: gradients are never silently wrong.
"""

import functools
import gc
import re
import threading

import pytest
from conftest import leaf, live_tensors

import cograd as torch
from cograd import _C, nn
from cograd.autograd import Function
from cograd.autograd.graph import saved_tensors_hooks
from cograd.utils.checkpoint import checkpoint

RIGHT, REFUSED = [], []
REFUSAL = "history lacks an in-place write|of BackwardHookFunctionBackward is a view"
WEIGHTS = torch.tensor([2.0, 3.0, 5.0], dtype=torch.float64)


def right(program):
    """Declares a program with the same gradients with and without full backward hooks."""
    RIGHT.append(program)
    return program


def refused(program):
    """Declares a program that works without full backward hooks and raises with them."""
    REFUSED.append(program)
    return program


class Calls(nn.Module):
    """Calls ``run(self, *args)``; ``self.inner`` has other modules."""

    def __init__(self, run, *inner):
        super().__init__()
        self.run = run
        self.inner = nn.ModuleList(inner)
        self.kept = []

    def forward(self, *args, **kwargs):
        return self.run(self, *args, **kwargs)


class Double(Function):
    """Doubles its argument in place."""

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, g):
        return g * 2


def keep(module, x):
    module.kept.append(x)
    return x


def keeps(module, x):
    module.kept.append(x)
    return x * 2


def keeps_view(module, x):
    module.kept.append(x.view(3)[:2])
    return x * 2


def keeps_output(module, x):
    y = x * 3
    module.kept += [y, y[:2]]
    return y


def writes(module, x):
    return x.mul_(2)


def writes_and_keeps(module, x):
    module.kept.append(x.mul_(2))
    return x


def writes_and_fails(module, x):
    x.mul_(2)
    raise LookupError


def square(*tensors):
    return sum((t * t * WEIGHTS[: t.numel()]).sum() for t in tensors)


def with_hooks(module, kind="full"):
    for m in module.modules():
        if kind in ("full", "both"):
            m.register_full_backward_hook(lambda m, grad_input, grad_output: None)
        if kind in ("pre", "both"):
            m.register_full_backward_pre_hook(lambda m, grad_output: None)
    return module


def gradient(program, hook):
    """Runs ``program(hook, x, y)``, where y is x * 1; returns the gradient of x."""
    x = leaf([1.0, -2.0, 3.0])
    loss = program(hook, x, x * 1)
    x.grad = None
    loss.backward(torch.ones_like(loss))
    return x.grad


def name_of(program):
    return program.__name__


# ---- the module keeps its input ------------------------------------------------------------------


@refused
def kept_after_a_write_of_the_caller(hook, x, y):
    m = hook(Calls(keeps))
    m(y)
    y.mul_(3)
    return square(*m.kept)


@refused
def kept_after_a_write_of_the_caller_to_a_view(hook, x, y):
    m = hook(Calls(keeps))
    m(y)
    y[:1].mul_(3)
    return square(*m.kept)


@refused
def kept_after_an_assignment_of_the_caller(hook, x, y):
    m = hook(Calls(keeps))
    m(y)
    y[0] = x[1] * 7
    return square(*m.kept)


@refused
def kept_after_zero_of_the_caller(hook, x, y):
    m = hook(Calls(keeps))
    m(y)
    y.zero_()
    return square(*m.kept)


@refused
def kept_given_to_backward_after_a_write(hook, x, y):
    m = hook(Calls(keeps))
    m(y)
    y.mul_(3)
    return m.kept[0]


@refused
def kept_view_after_a_write_of_the_caller(hook, x, y):
    m = hook(Calls(keeps_view))
    m(y)
    y.mul_(3)
    return square(*m.kept)


@refused
def kept_after_a_function_wrote(hook, x, y):
    m = hook(Calls(keeps))
    m(y)
    Double.apply(y)
    return square(*m.kept)


@refused
def kept_after_a_foreach_op_wrote(hook, x, y):
    m = hook(Calls(keeps))
    m(y)
    torch._foreach_mul_([y], 2.0)
    return square(*m.kept)


@refused
def kept_after_another_thread_wrote(hook, x, y):
    m = hook(Calls(keeps))
    m(y)
    thread = threading.Thread(target=lambda: y.mul_(3))
    thread.start()
    thread.join()
    return square(*m.kept)


@refused
def kept_after_backward_and_a_write(hook, x, y):
    m = hook(Calls(keeps))
    m(y).sum().backward(retain_graph=True)
    y.mul_(3)
    return square(*m.kept)


@refused
def kept_after_a_write_under_saved_tensor_hooks(hook, x, y):
    m = hook(Calls(keeps))
    with saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        m(y)
        y.mul_(3)
        return square(*m.kept)


@refused
def kept_after_the_caller_detached_its_tensor_and_wrote(hook, x, y):
    m = hook(Calls(keeps))
    m(y)
    y.detach_()
    y.mul_(x)
    return square(*m.kept) * 0


@refused
def kept_inside_func_grad(hook, x, y):
    m = hook(Calls(keeps))

    def f(x):
        y = x * 1
        m(y)
        y.mul_(3)
        return square(*m.kept)

    return (torch.func.grad(f)(x.detach()) * x).sum()


@refused
def kept_beside_an_argument_that_is_no_tensor(hook, x, y):
    m = hook(Calls(lambda m, x, n, nothing: keeps(m, x) * n))
    m(y, 2, None)
    y.mul_(3)
    return square(*m.kept)


@refused
def kept_argument_given_twice(hook, x, y):
    m = hook(Calls(lambda m, a, b: keeps(m, a) * b))
    m(y, y)
    y.mul_(3)
    return square(*m.kept)


@refused
def kept_argument_beside_a_view_of_it(hook, x, y):
    m = hook(Calls(lambda m, a, b: keeps(m, a)[:2] * b))
    m(y, y[:2])
    y.mul_(3)
    return square(*m.kept)


@refused
def kept_argument_that_is_a_view(hook, x, y):
    m = hook(Calls(keeps))
    m(y[:2])
    y.mul_(3)
    return square(*m.kept)


@refused
def kept_by_an_earlier_call(hook, x, y):
    m = hook(Calls(keeps))
    m(y)
    m(y)
    m.kept[0].mul_(2)
    return square(m.kept[1])


@refused
def kept_in_a_chain_of_calls(hook, x, y):
    m = hook(Calls(keeps))
    m(y)
    m(m.kept[0])
    y.mul_(2)
    return square(m.kept[1])


@right
def caller_reads_after_a_write_to_what_was_kept(hook, x, y):
    m = hook(Calls(keeps))
    m(y)
    m.kept[0].mul_(3)
    return square(y, *m.kept)


@right
def caller_reads_after_a_write_to_a_kept_view(hook, x, y):
    m = hook(Calls(keeps_view))
    m(y)
    m.kept[0].mul_(3)
    return square(y, *m.kept)


@right
def caller_reads_after_a_write_in_a_chain_of_calls(hook, x, y):
    m = hook(Calls(keeps))
    m(y)
    m(m.kept[0])
    m.kept[1].mul_(2)
    return square(y, *m.kept)


@right
def caller_reads_after_a_write_to_what_an_earlier_call_kept(hook, x, y):
    m = hook(Calls(keeps))
    m(y)
    m(y)
    m.kept[0].mul_(2)
    return square(y)


@right
def kept_used_before_the_write_only(hook, x, y):
    m = hook(Calls(keeps))
    m(y)
    z = m.kept[0] * 3
    y.mul_(2)
    return square(z, y)


@right
def kept_after_an_unrecorded_write(hook, x, y):
    m = hook(Calls(keeps))
    m(y)
    with torch.no_grad():
        y.mul_(3)
    y.detach().mul_(2)
    y.data.mul_(2)
    return square(*m.kept)


@right
def kept_keyword_argument(hook, x, y):
    m = hook(Calls(lambda m, x=None: keeps(m, x)))
    m(x=y)
    y.mul_(3)
    return square(*m.kept)


@right
def kept_member_of_a_list(hook, x, y):
    m = hook(Calls(lambda m, xs: keeps(m, xs[0])))
    m([y])
    y.mul_(3)
    return square(*m.kept)


@right
def stale_tensor_used_outside_of_the_graph(hook, x, y):
    m = hook(Calls(keeps))
    m(y)
    y.mul_(3)
    kept = m.kept[0]
    assert repr(kept) is not None
    assert kept.requires_grad
    assert kept.detach().sum().item() == 6.0
    assert bool((kept > 0).any())
    with torch.no_grad():
        assert (kept * 2).sum().item() == 12.0
    return square(y)


# ---- writes while forward runs, and when it raises -----------------------------------------------


def caller_written_in_forward(hook, y, forward):
    m = hook(Calls(forward))
    object.__setattr__(m, "caller", y)
    return m


@refused
def argument_read_after_the_caller_was_written(hook, x, y):
    return square(caller_written_in_forward(hook, y, lambda m, x: m.caller.mul_(2) * 0 + x * 3)(y))


@refused
def argument_written_after_the_caller_was_written(hook, x, y):
    def forward(m, x):
        m.caller.mul_(2)
        return x.mul_(3)

    return square(caller_written_in_forward(hook, y, forward)(y))


@refused
def argument_returned_after_the_caller_was_written(hook, x, y):
    def forward(m, x):
        m.caller.mul_(2)
        return x

    return square(caller_written_in_forward(hook, y, forward)(y))


@right
def caller_written_after_the_last_use_of_the_argument(hook, x, y):
    def forward(m, x):
        z = x * 3
        m.caller.mul_(2)
        return z

    return square(caller_written_in_forward(hook, y, forward)(y), y)


@right
def caller_read_in_forward_after_the_argument_was_written(hook, x, y):
    def forward(m, x):
        x.mul_(2)
        return m.caller * 3

    return square(caller_written_in_forward(hook, y, forward)(y), y)


@right
def caller_returned_after_the_argument_was_written(hook, x, y):
    def forward(m, x):
        x.mul_(2)
        return m.caller

    return square(caller_written_in_forward(hook, y, forward)(y), y)


@right
def both_written_in_turn(hook, x, y):
    def forward(m, x):
        x.mul_(2)
        m.caller.mul_(3)
        return m.caller * 1

    return square(caller_written_in_forward(hook, y, forward)(y), y)


@right
def view_of_the_argument_written(hook, x, y):
    def forward(m, x):
        x[:1].mul_(2)
        return x

    return square(hook(Calls(forward))(y), y)


@right
def argument_written_and_a_view_returned(hook, x, y):
    return square(hook(Calls(lambda m, x: x.mul_(2)[:2]))(y), y)


@right
def argument_written_by_a_function(hook, x, y):
    return square(hook(Calls(lambda m, x: Double.apply(x)))(y), y)


@right
def argument_written_without_recording(hook, x, y):
    def forward(m, x):
        with torch.no_grad():
            x.clamp_(min=0)
        return x

    return square(hook(Calls(forward))(y), y)


@right
def forward_fails_after_a_write(hook, x, y):
    with pytest.raises(LookupError):
        hook(Calls(writes_and_fails))(y)
    return square(y)


@right
def forward_fails_after_a_write_to_a_view(hook, x, y):
    with pytest.raises(LookupError):
        hook(Calls(lambda m, x: writes_and_fails(m, x[:2])))(y)
    return square(y)


@right
def nested_forward_fails_after_a_write(hook, x, y):
    with pytest.raises(LookupError):
        hook(Calls(lambda m, x: m.inner[0](x), Calls(writes_and_fails)))(y)
    return square(y)


@right
def outer_module_catches_the_failure(hook, x, y):
    def forward(m, x):
        with pytest.raises(LookupError):
            m.inner[0](x)
        return x * 3

    return square(hook(Calls(forward, Calls(writes_and_fails)))(y), y)


@refused
def kept_by_a_forward_that_failed(hook, x, y):
    m = hook(Calls(lambda m, x: writes_and_fails(m, keep(m, x))))
    with pytest.raises(LookupError):
        m(y)
    y.mul_(3)
    return square(*m.kept)


@right
def written_argument_kept_and_read(hook, x, y):
    m = hook(Calls(writes_and_keeps))
    out = m(y)
    return square(out, y, *m.kept)


@right
def written_argument_kept_and_the_result_written(hook, x, y):
    m = hook(Calls(writes_and_keeps))
    m(y).mul_(3)
    return square(y, *m.kept)


@refused
def result_read_after_a_write_to_the_kept_argument(hook, x, y):
    m = hook(Calls(writes_and_keeps))
    out = m(y)
    m.kept[0].mul_(3)
    return square(out)


@right
def written_argument_of_two_calls(hook, x, y):
    m = hook(Calls(writes_and_keeps))
    m(y)
    m(y)
    return square(y, *m.kept)


@right
def second_derivative_through_a_written_argument(hook, x, y):
    out = hook(Calls(lambda m, x: x.mul_(x.detach().clone())))(y)
    (g,) = torch.autograd.grad((out**3).sum(), x, create_graph=True)
    return square(g)


@right
def checkpoint_of_a_module_that_writes(hook, x, y):
    m = hook(Calls(lambda m, x: m.inner[0](x * 2) ** 2, nn.ReLU(inplace=True)))
    return checkpoint(m, y, use_reentrant=False).sum()


@right
def func_grad_of_a_module_that_writes(hook, x, y):
    m = hook(Calls(writes))

    def f(x):
        y = x * 1
        return square(m(y), y)

    return (torch.func.grad(f)(x.detach()) * x).sum()


# ---- results -------------------------------------------------------------------------------------


@refused
def returned_input_after_a_write_of_the_caller(hook, x, y):
    out = hook(Calls(lambda m, x: x))(y)
    y.mul_(3)
    return square(out)


@refused
def returned_input_written(hook, x, y):
    hook(Calls(lambda m, x: x))(y).mul_(3)
    return square(y)


@refused
def returned_view_after_a_write_of_the_caller(hook, x, y):
    out = hook(Calls(lambda m, x: x[:2]))(y)
    y.mul_(3)
    return square(out)


@refused
def input_in_a_returned_tuple(hook, x, y):
    out, _ = hook(Calls(lambda m, x: (x, x * 2)))(y)
    y.mul_(3)
    return square(out)


@right
def input_in_a_returned_list_written(hook, x, y):
    out = hook(Calls(lambda m, x: [x, x * 2]))(y)[0]
    out.mul_(3)
    return square(y, out)


@refused
def input_in_a_returned_list_after_a_write_of_the_caller(hook, x, y):
    out = hook(Calls(lambda m, x: [x, x * 2]))(y)[0]
    y.mul_(3)
    return square(out)


@right
def kept_output_after_a_write_to_the_result(hook, x, y):
    m = hook(Calls(keeps_output))
    out = m(y)
    out.mul_(2)
    return square(out, *m.kept)


@right
def kept_output_after_a_write_to_a_view_of_the_result(hook, x, y):
    m = hook(Calls(keeps_output))
    out = m(y)
    out[1:].mul_(2)
    return square(out, *m.kept)


@right
def kept_output_after_a_write_to_a_result_that_is_gone(hook, x, y):
    m = hook(Calls(keeps_output))
    m(y).mul_(2)
    return square(*m.kept)


@right
def kept_output_of_a_nested_module(hook, x, y):
    m = hook(nn.Sequential(nn.Sequential(Calls(keeps_output))))
    out = m(y)
    out.mul_(2)
    return square(out, *m[0][0].kept)


@right
def kept_output_after_the_next_module_wrote_it(hook, x, y):
    m = hook(nn.Sequential(Calls(keeps_output), nn.ReLU(inplace=True), Calls(keeps)))
    out = m(y)
    return square(out, *m[0].kept, *m[2].kept)


@right
def kept_output_written_by_the_module(hook, x, y):
    m = hook(Calls(keeps_output))
    m(y)
    m.kept[0].mul_(2)
    m.kept[1].mul_(3)
    return square(*m.kept)


@refused
def result_after_a_write_to_the_kept_output(hook, x, y):
    m = hook(Calls(keeps_output))
    out = m(y)
    m.kept[0].mul_(2)
    return square(out)


@refused
def result_after_a_write_to_a_kept_view_of_the_output(hook, x, y):
    m = hook(Calls(keeps_output))
    out = m(y)
    m.kept[1].mul_(2)
    return square(out)


@refused
def view_of_a_result_after_a_write_to_the_kept_output(hook, x, y):
    m = hook(Calls(keeps_output))
    view = m(y)[:2]
    m.kept[0].mul_(2)
    return square(view)


@right
def view_of_a_written_result(hook, x, y):
    out = hook(Calls(lambda m, x: x * 2))(y)
    view = out[:2]
    out.mul_(3)
    return square(view, out)


@refused
def output_returned_twice(hook, x, y):
    a, b = hook(Calls(lambda m, x: (lambda z: (z, z))(x * 2)))(y)
    a.mul_(3)
    return square(b)


def returns_the_first(module, x):
    if not module.kept:
        module.kept.append(x * 2)
    return module.kept[0]


@refused
def output_of_two_calls_written_in_one(hook, x, y):
    m = hook(Calls(returns_the_first))
    a, b = m(y), m(y)
    a.mul_(3)
    return square(b)


@right
def output_of_two_calls_after_a_write_to_one(hook, x, y):
    m = hook(Calls(returns_the_first))
    _, b = m(y), m(y)
    b.mul_(3)
    return square(b, *m.kept)


# ---- the written alias is gone when the other one is read ----------------------------------------


@right
def caller_reads_after_the_graph_that_saved_the_input_is_gone(hook, x, y):
    hook(Calls(lambda m, x: (x.mul_(2), x.sin())[1]))(y)
    return square(y)


@right
def caller_reads_after_the_backward_of_a_head_that_wrote(hook, x, y):
    head = hook(nn.Sequential(Calls(writes), Calls(lambda m, x: x.sin())))
    head(y).sum().backward(retain_graph=True)
    return square(y)


@right
def caller_reads_after_a_view_of_the_input_was_written(hook, x, y):
    hook(Calls(lambda m, x: (x[:2].mul_(2), x.sin())[1]))(y)
    return square(y)


@right
def kept_output_after_the_graph_of_the_written_result_is_gone(hook, x, y):
    m = hook(Calls(keeps_output))
    out = m(y)
    out.sin_()
    loss = (out * out).sum()
    del out, loss
    return square(*m.kept)


# ---- memory that moves ---------------------------------------------------------------------------


@right
def caller_reads_after_a_write_to_shared_memory(hook, x, y):
    m = hook(Calls(keeps))
    m(y)
    y.share_memory_()
    m.kept[0].mul_(2)
    return square(y)


@refused
def kept_after_a_write_of_the_caller_to_shared_memory(hook, x, y):
    m = hook(Calls(keeps))
    m(y)
    y.share_memory_()
    y.mul_(2)
    return square(*m.kept)


# ---- detach_ -------------------------------------------------------------------------------------


@refused
def kept_after_detach_by_the_caller(hook, x, y):
    m = hook(Calls(keeps))
    z = x * 2
    m(z)
    z.detach_()
    return square(y, *m.kept)


@refused
def kept_output_after_detach_of_the_result(hook, x, y):
    m = hook(Calls(keeps_output))
    m(y).detach_()
    return square(y, *m.kept)


@right
def result_detached(hook, x, y):
    out = hook(Calls(lambda m, x: x.sin()))(y)
    return square(y, out.detach_())


@refused
def returned_tensor_of_the_caller_after_its_write(hook, x, y):
    z = x * 5
    out = hook(Calls(lambda m, x: z))(y)
    z.mul_(3)
    return square(out)


@right
def returned_tensor_of_the_caller_after_a_write_to_the_result(hook, x, y):
    z = x * 5
    out = hook(Calls(lambda m, x: z))(y)
    out.mul_(3)
    return square(z, out)


@right
def keyword_argument_written_and_returned(hook, x, y):
    out = hook(Calls(lambda m, x=None: writes(m, x)))(x=y)
    out.mul_(3)
    return square(y, out)


@right
def results_seen_by_forward_hooks(hook, x, y):
    seen = []
    m = nn.Sequential(Calls(keeps), nn.ReLU(inplace=True), Calls(keeps))
    for k in m:
        k.register_forward_hook(lambda m, args, out: seen.append(out))
    out = hook(m)(y)
    return square(out, seen[0], seen[2])


# ---- nested modules ------------------------------------------------------------------------------


@refused
def kept_in_a_sequential_after_a_write_of_the_caller(hook, x, y):
    m = hook(nn.Sequential(Calls(keeps), Calls(keeps)))
    m(y)
    y.mul_(3)
    return square(*m[0].kept)


@refused
def kept_by_the_inner_module_after_a_write_of_the_outer(hook, x, y):
    def forward(m, x):
        z = m.inner[0](x)
        return z + x.mul_(2)

    m = hook(Calls(forward, Calls(keeps)))
    m(y)
    return square(*m.inner[0].kept)


@right
def outer_module_writes_after_the_inner_kept(hook, x, y):
    def forward(m, x):
        z = m.inner[0](x)
        return z + x.mul_(2)

    return square(hook(Calls(forward, Calls(keeps)))(y), y)


@right
def outer_module_reads_after_the_inner_wrote(hook, x, y):
    def forward(m, x):
        m.inner[0](x)
        return x * 3

    return square(hook(Calls(forward, nn.ReLU(inplace=True)))(y), y)


@right
def outer_module_keeps_what_the_inner_wrote(hook, x, y):
    m = hook(Calls(lambda m, x: m.inner[0](keep(m, x)), Calls(writes)))
    out = m(y)
    out.mul_(3)
    return square(out, y, *m.kept)


@right
def activations_in_place_in_nested_modules(hook, x, y):
    first = nn.Sequential(nn.Sequential(nn.ReLU(inplace=True)))
    second = nn.Sequential(nn.LeakyReLU(inplace=True))
    out = hook(nn.Sequential(first, Calls(keeps), second))(y)
    return square(out, y)


@right
def residual_blocks_with_activations_in_place(hook, x, y):
    def forward(m, x):
        z = m.inner[0](x)
        z += x
        return m.inner[1](z)

    blocks = [Calls(forward, Calls(keeps), nn.ReLU(inplace=True)) for _ in range(3)]
    out = hook(nn.Sequential(*blocks))(y)
    return square(out, y)


@right
def written_results_of_nested_modules(hook, x, y):
    out = hook(nn.Sequential(nn.Sequential(Calls(writes)), Calls(writes)))(y)
    out.mul_(3)
    return square(out, y)


@right
def one_module_that_writes_in_a_loop(hook, x, y):
    m, out = hook(Calls(writes)), y
    for _ in range(5):
        out = m(out).mul_(1.5)
    return square(out, y)


# ---- the tests over all programs -----------------------------------------------------------------


def quiet(test):
    """Ignores warnings about results in lists, and about modules without inputs in the graph."""
    for message in ("For backward hooks to be called", "Full backward hook is firing"):
        test = pytest.mark.filterwarnings(f"ignore:{message}")(test)
    return test


@pytest.mark.beyond_torch
@quiet
@pytest.mark.parametrize("kind", ["full", "both"])
@pytest.mark.parametrize("program", RIGHT, ids=name_of)
def test_gradients_are_those_without_hooks(program, kind):
    want = gradient(program, lambda module: module)
    got = gradient(program, functools.partial(with_hooks, kind=kind))
    assert torch.equal(got, want)


@quiet
@pytest.mark.parametrize("kind", ["full", "both"])
@pytest.mark.parametrize("program", REFUSED, ids=name_of)
def test_a_tensor_whose_history_lacks_a_write_is_refused(program, kind):
    gradient(program, lambda module: module)
    with pytest.raises(RuntimeError, match=REFUSAL):
        gradient(program, functools.partial(with_hooks, kind=kind))


@quiet
@pytest.mark.parametrize("program", RIGHT + REFUSED, ids=name_of)
def test_pre_hooks_alone_never_give_wrong_gradients(program):
    want = gradient(program, lambda module: module)
    try:
        got = gradient(program, functools.partial(with_hooks, kind="pre"))
    except RuntimeError as error:
        assert re.search(REFUSAL, str(error))
    else:
        assert torch.equal(got, want)


@quiet
@pytest.mark.parametrize("program", RIGHT + REFUSED, ids=name_of)
def test_programs_leave_nothing(program):
    def run():
        try:
            gradient(program, with_hooks)
        except RuntimeError:
            assert program in REFUSED

    run()
    gc.collect()
    tensors, nodes = live_tensors(), _C._live_nodes()
    for _ in range(3):
        run()
    assert live_tensors() <= tensors
    assert _C._live_nodes() <= nodes


# ---- errors and memory ---------------------------------------------------------------------------


def test_kept_parts_of_a_split_are_refused():
    m = with_hooks(Calls(lambda m, x: m.kept.extend(x.chunk(2)) or x * 2))
    y = leaf([1.0, 2.0]) * 1
    m(y)
    y.mul_(3)
    with pytest.raises(RuntimeError, match="a function that returns multiple views"):
        m.kept[0].sum()


def test_tensor_that_the_module_kept_and_detached_is_a_constant():
    m = with_hooks(Calls(keeps))
    x = leaf([1.0, 2.0])
    y = x * 1
    m(y)
    m.kept[0].detach_()
    assert not (m.kept[0] * 2).requires_grad
    with pytest.raises(RuntimeError, match=r"detach_\(\) changed after module Calls"):
        m(y)
    m.kept[0].mul_(x)
    assert torch.equal(torch.autograd.grad(m.kept[0].sum(), x)[0], x.detach())


def test_error_names_the_module_the_write_and_the_way_out():
    m = with_hooks(Calls(keeps))
    y = leaf([1.0, 2.0]) * 1
    m(y)
    y.mul_(3)
    with pytest.raises(RuntimeError, match="MulBackward0 changed after module Calls") as error:
        m.kept[0] * 2
    assert "shape [2]" in str(error.value)
    assert "clone()" in str(error.value)


def test_a_refused_argument_leaves_the_target_of_a_write_unchanged():
    m = with_hooks(Calls(keeps))
    y = leaf([1.0, 2.0]) * 1
    m(y)
    y.mul_(3)
    other = leaf([1.0, 2.0]) * 1
    for write in (other.mul_, other.copy_, other[:1].add_):
        with pytest.raises(RuntimeError, match="history lacks"):
            write(m.kept[0][: len(other)] if write != other[:1].add_ else m.kept[0])
    assert other.tolist() == [1.0, 2.0]


def test_written_argument_of_another_shape_is_no_result():
    def forward(module, x):
        x.unsqueeze_(0)
        return x.mul_(2)

    y = leaf([1.0, 2.0]) * 1
    m = with_hooks(Calls(forward))
    out = m(y)
    assert out is not y
    assert out.shape == (1, 2)
    out.sum().backward()
    with pytest.raises(RuntimeError, match="history lacks"):
        y.sum()


def test_caller_gets_no_base_while_forward_runs():
    seen = []

    def forward(module, x):
        out = module.inner[0](x)
        seen.append((x._base, y._base))
        return out * 2

    y = leaf([1.0, 2.0]) * 1
    for inner in (nn.ReLU(inplace=True), Calls(lambda m, x: y), Calls(lambda m, x: x)):
        with_hooks(Calls(forward, inner))(y)
    assert seen == [(None, None)] * 3


def test_kept_output_keeps_no_result_alive():
    m = with_hooks(Calls(keeps_output))
    m(leaf([1.0, 2.0, 3.0]) * 1)
    gc.collect()
    tensors = live_tensors()
    out = m.kept[0]
    assert live_tensors() == tensors
    assert out._base is None


def test_results_that_an_op_of_the_module_saved_are_freed_without_the_collector():
    def forward(module, x):
        y = x * 2
        return y, y * y

    m = with_hooks(Calls(forward))
    m(leaf([1.0]) * 1)
    gc.collect()
    gc.disable()
    try:
        nodes = _C._live_nodes()
        m(leaf([1.0]) * 1)
        assert _C._live_nodes() == nodes
    finally:
        gc.enable()


def test_a_call_that_failed_is_freed_without_the_collector():
    m = with_hooks(Calls(writes_and_fails))

    def call():
        try:
            m(leaf([1.0]) * 1)
        except LookupError:
            pass

    call()
    gc.collect()
    gc.disable()
    try:
        nodes = _C._live_nodes()
        call()
        assert _C._live_nodes() == nodes
    finally:
        gc.enable()


def test_many_calls_on_one_tensor_keep_nothing():
    m = with_hooks(nn.ReLU(inplace=True))
    y = leaf([1.0]) * 1
    with torch.no_grad():
        size = _C._live_bytes()
    for _ in range(1000):
        m(y)
    y = y.detach()
    gc.collect()
    assert _C._live_bytes() <= size + 4096


@quiet
@pytest.mark.beyond_torch
@pytest.mark.parametrize("view", [False, True])
def test_a_retained_gradient_follows_a_write_of_the_module(view):
    def run(hook):
        y = leaf([1.0, -2.0, 3.0]) * 1
        y.retain_grad()
        write = (lambda m, x: (x[:2].mul_(3), x.sin())[1]) if view else lambda m, x: x.mul_(3).sin()
        hook(Calls(write))(y).sum().backward()
        return y.grad

    assert torch.equal(run(with_hooks), run(lambda m: m))


@quiet
@pytest.mark.beyond_torch
def test_a_retained_gradient_of_an_output_follows_a_write_of_the_caller():
    def run(hook):
        def forward(m, x):
            m.kept.append(x * 2)
            m.kept[0].retain_grad()
            return m.kept[0]

        m = hook(Calls(forward))
        out = m(leaf([1.0, -2.0, 3.0]))
        out.mul_(3)
        square(out).backward()
        return m.kept[0].grad

    assert torch.equal(run(with_hooks), run(lambda m: m))


@quiet
def test_a_tensor_with_other_memory_lacks_no_write():
    """`y.data = z` takes y out of the memory that the module's input still has."""
    m = with_hooks(Calls(keeps))
    x = leaf([1.0, 2.0, 3.0])
    y = x * 1
    m(y)
    y.data = torch.ones(3, dtype=torch.float64)
    m.kept[0].mul_(2)
    square(y).backward()
    assert torch.equal(x.grad, 2 * WEIGHTS)
