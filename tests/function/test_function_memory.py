# SPDX-License-Identifier: BSD-3-Clause
"""What a Function's ctx stores of its call is freed with the call, in every mode."""

import gc
import weakref

import pytest
from conftest import live_tensors

import cograd as torch
from cograd import func
from cograd.autograd import Function, forward_ad

CALLS = 20


def saved_for_forward(ctx, x):
    y = x * 2
    ctx.save_for_forward(x, None, y)
    return y


def saved_for_both(ctx, x):
    y = x * 2
    ctx.save_for_forward(y)
    ctx.save_for_backward(x, y)
    return y


def attribute(ctx, x):
    ctx.y = x * 2
    return ctx.y


def in_a_list(ctx, x):
    ctx.values = [x * 2, ctx]
    return ctx.values[0]


def needs_override(ctx, x):
    y = x * 2
    ctx.needs_input_grad = (True, y)
    return y


def written(ctx, x):
    x.mul_(2)
    ctx.mark_dirty(x)
    ctx.save_for_forward(x)
    ctx.save_for_backward(x)
    ctx.x = x
    return x


def unchanged(ctx, x):
    ctx.save_for_forward(x)
    ctx.x = x
    return x.view_as(x)


def fixed(ctx, x):
    y = x * 2
    ctx.mark_non_differentiable(y)
    ctx.save_for_forward(y)
    ctx.y = y
    return y


def dual(f, x):
    with forward_ad.dual_level():
        f(forward_ad.make_dual(x, x.detach() + 0) * 1)


MODES = {
    "no_grad": lambda f, x: f(x * 1),
    "recorded": lambda f, x: f(x.requires_grad_() * 1),
    "backward": lambda f, x: f(x.requires_grad_() * 1).sum().backward(),
    "create_graph": lambda f, x: torch.autograd.grad(
        (f(x.requires_grad_() * 1) ** 2).sum(), x, create_graph=True
    ),
    "dual": dual,
    "dual_and_recorded": lambda f, x: dual(f, x.requires_grad_()),
    "jvp": lambda f, x: func.jvp(lambda x: f(x * 1), (x,), (x,)),
    "jvp_of_grad": lambda f, x: func.jvp(func.grad(lambda x: f(x * 1).sum()), (x,), (x,)),
    "vjp": lambda f, x: func.vjp(lambda x: f(x * 1), x)[1](x),
    "vmap": lambda f, x: func.vmap(lambda x: f(x * 1))(x.requires_grad_().reshape(2, 2)),
    "vmap_of_grad": lambda f, x: func.vmap(func.grad(lambda x: f(x * 1).sum()))(x.reshape(2, 2)),
    "vmap_of_vmap": lambda f, x: func.vmap(func.vmap(lambda x: f(x * 1)))(
        x.requires_grad_().reshape(2, 1, 2)
    ),
}


def function(forward):
    rules = {
        "forward": staticmethod(forward),
        "backward": staticmethod(lambda ctx, g: g * 2),
        "jvp": staticmethod(lambda ctx, t: t * 2),
        "generate_vmap_rule": True,
    }
    return type("Keeps", (Function,), rules).apply


# The messages of errors for a result without a derivative.
NO_GRADIENT = "does not require grad and does not have a grad_fn"
NO_TANGENT = "the corresponding forward output is not a differentiable Tensor"
REFUSED = {
    (fixed, "backward"): NO_GRADIENT,
    (fixed, "create_graph"): NO_GRADIENT,
    (fixed, "dual"): NO_TANGENT,
    (fixed, "dual_and_recorded"): NO_TANGENT,
    (fixed, "jvp"): NO_TANGENT,
    (fixed, "jvp_of_grad"): NO_TANGENT,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "forward",
    [
        saved_for_forward,
        saved_for_both,
        attribute,
        in_a_list,
        needs_override,
        written,
        unchanged,
        fixed,
    ],
    ids=lambda f: f.__name__,
)
def test_calls_leave_no_tensors(forward, mode):
    f = function(forward)
    refusal = REFUSED.get((forward, mode))

    def call():
        if refusal is None:
            MODES[mode](f, torch.ones(4))
        else:
            with pytest.raises(RuntimeError, match=refusal):
                MODES[mode](f, torch.ones(4))

    call()
    before = live_tensors()
    for _ in range(CALLS):
        call()
    assert live_tensors() <= before


def test_saved_for_forward_is_there_until_the_call_ends():
    seen = []

    class Twice(Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            ctx.save_for_forward(y)
            seen.append((ctx, weakref.ref(y)))
            return y.sum()

        @staticmethod
        def jvp(ctx, t):
            assert ctx.saved_for_forward[0].tolist() == [2.0, 2.0]
            return (t * ctx.saved_tensors[0]).sum()

    with forward_ad.dual_level():
        out = Twice.apply(forward_ad.make_dual(torch.ones(2), torch.ones(2)))
        assert float(forward_ad.unpack_dual(out).tangent) == 4.0
    ctx, y = seen.pop()
    assert ctx.saved_for_forward is None
    assert y() is None


@pytest.mark.parametrize("wrong", [lambda ctx, t: 1 / 0, lambda ctx, t: (t, t), lambda ctx, t: 3])
def test_a_wrong_jvp_leaves_nothing(wrong):
    class Keeps(Function):
        forward = staticmethod(saved_for_both)
        backward = staticmethod(lambda ctx, g: g)
        jvp = staticmethod(wrong)

    def call():
        with pytest.raises((RuntimeError, TypeError, ZeroDivisionError)):
            dual(Keeps.apply, torch.ones(4, requires_grad=True))

    call()
    gc.collect()
    before = live_tensors()
    for _ in range(CALLS):
        call()
    assert live_tensors() <= before


def test_saved_for_forward_is_of_the_vmap_in_which_jvp_runs():
    class Sine(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x.sin()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_forward(*inputs, output)

        @staticmethod
        def jvp(ctx, t):
            x, y = ctx.saved_for_forward
            return t * x.cos() + 0 * y

    x = torch.rand(3, 2)
    tangent = func.vmap(lambda x: func.jvp(Sine.apply, (x,), (x,))[1])(x)
    torch.testing.assert_close(tangent, x * x.cos())
