# SPDX-License-Identifier: BSD-3-Clause
"""no_grad, enable_grad, set_grad_enabled and inference_mode in all forms of use."""

import random
import signal
import threading
import time

import pytest
from conftest import leaf, ones, same

import cograd as torch


def recording():
    return (leaf(1.0) * 2).requires_grad


def test_no_grad_block_records_nothing_and_restores():
    x = leaf([1.0, 2.0])
    with torch.no_grad():
        assert not torch.is_grad_enabled()
        y = x * 2
    assert torch.is_grad_enabled()
    assert not y.requires_grad and y.grad_fn is None and y.is_leaf


def test_no_grad_restores_after_an_exception():
    with pytest.raises(KeyError, match="inside"), torch.no_grad():
        raise KeyError("inside")
    assert torch.is_grad_enabled()


def test_enable_grad_inside_no_grad():
    with torch.no_grad():
        with torch.enable_grad():
            assert recording()
        assert not recording()
    assert recording()


def test_modes_nest_to_any_depth():
    seen = []
    with torch.no_grad(), torch.enable_grad(), torch.no_grad():
        seen.append(recording())
        with torch.set_grad_enabled(True):
            seen.append(recording())
        seen.append(recording())
    seen.append(recording())
    assert seen == [False, True, False, True]


def test_leaf_made_inside_no_grad_may_require_grad():
    with torch.no_grad():
        x = leaf(2.0)
        p = torch.ones(2, requires_grad=True)
    assert x.requires_grad and p.requires_grad
    (x * x).backward()
    assert same(x.grad, 4.0)


def test_one_mode_object_is_reusable_and_reentrant_by_turns():
    mode = torch.no_grad()
    for _ in range(3):
        with mode:
            assert not recording()
        assert recording()


@pytest.mark.parametrize("decorator", [torch.no_grad, torch.no_grad()], ids=["class", "instance"])
def test_no_grad_as_decorator(decorator):
    @decorator
    def function(x, scale=2):
        """Doc."""
        return torch.is_grad_enabled(), x * scale

    enabled, y = function(leaf(2.0), scale=3)
    assert enabled is False and not y.requires_grad and same(y, 6.0)
    assert function.__name__ == "function" and function.__doc__ == "Doc."
    assert torch.is_grad_enabled()


def test_decorator_restores_after_an_exception():
    @torch.no_grad()
    def function():
        raise ValueError("boom")

    for _ in range(2):
        with pytest.raises(ValueError, match="boom"):
            function()
        assert torch.is_grad_enabled()


def test_decorated_function_may_call_itself():
    @torch.no_grad()
    def countdown(n):
        states = [torch.is_grad_enabled()]
        if n:
            states += countdown(n - 1)
        states.append(torch.is_grad_enabled())
        return states

    assert countdown(3) == [False] * 8
    assert torch.is_grad_enabled()


def test_enable_grad_as_decorator():
    @torch.enable_grad()
    def function():
        return recording()

    with torch.no_grad():
        assert function()
        assert not torch.is_grad_enabled()


@pytest.mark.parametrize("mode", [True, False])
def test_set_grad_enabled_as_context_manager_and_decorator(mode):
    with torch.set_grad_enabled(mode):
        assert recording() is mode
    assert torch.is_grad_enabled()

    @torch.set_grad_enabled(mode)
    def function():
        return recording()

    assert torch.is_grad_enabled(), "decorating must not switch the mode"
    assert function() is mode
    assert torch.is_grad_enabled()


def test_set_grad_enabled_as_a_function_stays():
    torch.set_grad_enabled(False)
    try:
        assert not recording()
    finally:
        torch.set_grad_enabled(True)
    assert recording()


def test_method_decorated_with_no_grad_binds():
    class Model:
        @torch.no_grad()
        def step(self, x):
            return self, recording(), x

    model = Model()
    assert model.step(5) == (model, False, 5)


# ---- generator functions -------------------------------------------------------------------------


def test_decorated_generator_switches_only_while_it_runs():
    @torch.no_grad()
    def generate():
        for i in range(3):
            assert not torch.is_grad_enabled()
            yield i
            assert not torch.is_grad_enabled()

    seen = []
    for value in generate():
        assert torch.is_grad_enabled(), "the consumer keeps its own mode"
        seen.append(value)
    assert seen == [0, 1, 2]


def test_decorated_generator_send_and_return_value():
    @torch.no_grad()
    def generate():
        got = []
        for _ in range(2):
            got.append((yield torch.is_grad_enabled()))
        return got

    iterator = generate()
    assert next(iterator) is False
    assert iterator.send("a") is False
    with pytest.raises(StopIteration) as info:
        iterator.send("b")
    assert info.value.value == ["a", "b"]
    assert torch.is_grad_enabled()


def test_decorated_generator_throw_reaches_the_body():
    @torch.no_grad()
    def generate():
        try:
            yield 1
        except KeyError:
            yield (torch.is_grad_enabled(), "caught")

    iterator = generate()
    next(iterator)
    assert iterator.throw(KeyError("x")) == (False, "caught")
    assert torch.is_grad_enabled()
    iterator.close()


def test_decorated_generator_close_runs_finally_in_mode():
    seen = []

    @torch.no_grad()
    def generate():
        try:
            yield 1
        finally:
            seen.append(torch.is_grad_enabled())

    iterator = generate()
    next(iterator)
    iterator.close()
    assert seen == [False] and torch.is_grad_enabled()


def test_enable_grad_generator_inside_no_grad_consumer():
    @torch.enable_grad()
    def generate():
        yield recording()
        yield recording()

    with torch.no_grad():
        for value in generate():
            assert value is True
            assert not torch.is_grad_enabled()


# ---- threads -------------------------------------------------------------------------------------


def test_grad_mode_belongs_to_its_thread():
    seen = {}
    inside, go_on = threading.Event(), threading.Event()

    def worker():
        seen["start"] = torch.is_grad_enabled()
        with torch.no_grad():
            inside.set()
            go_on.wait(10)
            seen["inside"] = torch.is_grad_enabled()
        seen["end"] = torch.is_grad_enabled()

    with torch.no_grad():
        thread = threading.Thread(target=worker)
        thread.start()
        assert inside.wait(10)
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled(), "another thread's no_grad must not be seen here"
    go_on.set()
    thread.join(10)
    assert seen == {"start": True, "inside": False, "end": True}


# ---- inference mode ------------------------------------------------------------------------------


def test_inference_mode_records_nothing_and_marks_tensors():
    x = leaf([1.0, 2.0])
    with torch.inference_mode():
        assert torch.is_inference_mode_enabled() and not torch.is_grad_enabled()
        y = x * 2
        made = torch.ones(2)
    assert not torch.is_inference_mode_enabled() and torch.is_grad_enabled()
    assert y.is_inference() and made.is_inference() and not x.is_inference()
    assert not y.requires_grad and same(y, [2, 4])


@pytest.mark.parametrize(
    "returns_it",
    [
        lambda x: x.contiguous(),
        lambda x: x.to("cpu"),
        lambda x: x.to(x.dtype),
        lambda x: x.flatten(),
        lambda x: x.conj(),
        lambda x: torch.atleast_1d(x),
        lambda x: torch.broadcast_tensors(x, torch.ones(2))[0],
        lambda x: torch.einsum("i->i", x),
    ],
    ids=[
        "contiguous",
        "to device",
        "to dtype",
        "flatten",
        "conj",
        "atleast",
        "broadcast",
        "einsum",
    ],
)
def test_leaf_that_an_op_returns_as_it_is_in_inference_mode_stays_a_normal_one(returns_it):
    x = leaf([1.0, 2.0])
    with torch.inference_mode():
        returns_it(x)
    assert not x.is_inference() and not x.detach().is_inference()
    (x * x).sum().backward()
    assert same(x.grad, [2, 4])


def test_inference_mode_as_decorator_and_switched_off():
    @torch.inference_mode()
    def function():
        return torch.is_inference_mode_enabled()

    assert function()
    with torch.inference_mode(mode=False):
        assert not torch.is_inference_mode_enabled() and recording()
    with torch.inference_mode():
        with torch.inference_mode(False):
            assert not torch.is_inference_mode_enabled()
        assert torch.is_inference_mode_enabled()


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x / y,
        lambda x, y: torch.addcmul(x, y, x, value=2.0),
        lambda x, y: x.tanh(),
        lambda x, y: x.t() * y,
        lambda x, y: x.clamp(-1, 1),
    ],
    ids=["div", "addcmul", "tanh", "strided mul", "clamp"],
)
def test_gradients_computed_in_inference_mode_are_inference_tensors(function):
    x, y = leaf([[1.0, -2.0], [0.5, 4.0]]), leaf([[3.0, 2.0], [1.0, 8.0]])
    out = function(x, y)
    g = torch.full_like(out, 2.0)
    expected = torch.autograd.grad(out, x, g, retain_graph=True)[0]
    with torch.inference_mode():
        (grad,) = torch.autograd.grad(out, x, g, retain_graph=True)
    assert grad.is_inference() and not expected.is_inference()
    assert same(grad, expected.tolist())


def test_inference_tensor_cannot_be_saved_for_backward():
    with torch.inference_mode():
        w = ones(2)
    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        x * w


def test_inference_tensor_takes_part_where_nothing_is_saved():
    with torch.inference_mode():
        w = ones(2)
    x = leaf([1.0, 2.0])
    (x + w).sum().backward()
    assert same(x.grad, [1, 1])


def test_inference_tensor_written_in_place_outside_raises():
    with torch.inference_mode():
        w = ones(2)
        w.add_(1)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside"):
        w.add_(1)


@pytest.mark.beyond_torch
def test_refused_write_to_inference_tensor_changes_nothing():
    with torch.inference_mode():
        w = ones(2)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside"):
        w.add_(1)
    assert same(w, [1, 1])


def test_inference_tensor_has_no_version_counter():
    with torch.inference_mode():
        w = ones(2)
    with pytest.raises(RuntimeError, match="Inference tensors do not track version counter"):
        _ = w._version


def test_inference_tensor_clone_is_normal_again():
    with torch.inference_mode():
        w = ones(2)
    c = w.clone()
    assert not c.is_inference()
    x = leaf([1.0, 2.0])
    (x * c).sum().backward()
    assert same(x.grad, [1, 1])


def test_inference_tensor_cannot_require_grad_outside():
    with torch.inference_mode():
        w = ones(2)
    with pytest.raises(RuntimeError, match="requires_grad=True on inference tensor outside"):
        w.requires_grad_()


def test_normal_leaf_may_be_updated_in_inference_mode():
    x = leaf([1.0, 2.0])
    with torch.inference_mode():
        x.sub_(0.5)
    assert same(x, [0.5, 1.5]) and x.requires_grad and x._version == 1


def test_interrupts_leave_no_mode():
    def ring(*_):
        raise KeyboardInterrupt

    packed = []
    hooks = torch.autograd.graph.saved_tensors_hooks(packed.append, lambda t: t)
    autocast = torch.autocast("cpu", enabled=True)
    modes = [torch.no_grad, torch.enable_grad, torch.inference_mode]
    modes += [lambda: hooks, lambda: autocast]
    before = signal.signal(signal.SIGALRM, ring)
    rng = random.Random(1)
    interrupts, end = 0, time.monotonic() + 0.7
    try:
        while time.monotonic() < end:
            try:
                try:
                    signal.setitimer(signal.ITIMER_REAL, 2e-5 + rng.random() / 1e4)
                    while True:
                        for mode in modes:
                            with mode():
                                pass
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interrupts += 1
            assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
            assert not torch.is_autocast_enabled("cpu") and not autocast._before
            x = leaf([1.0, 2.0])
            (x * x).sum().backward()
            assert not packed
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        torch.inference_mode().__exit__()  # leaving a mode that was not entered restores defaults
    assert interrupts > 10


IN_INFERENCE = {
    "layer_norm, then mul": lambda x: torch.nn.functional.layer_norm(x, (3,)) * x,
    "a constant": lambda x: x * torch.ones(3) * torch.tensor([1.0, 2.0, 3.0]),
    "l1_loss": lambda x: torch.nn.functional.l1_loss(x, torch.zeros(2, 3)),
    "nansum": lambda x: x.nansum(1),
    "rnn": lambda x: torch.nn.RNN(3, 2)(x)[0],
    "no_grad inside": lambda x: x * no_grad_exp(x),
    "a Function": lambda x: Doubled.apply(x) * x,
}


@torch.no_grad()
def no_grad_exp(x):
    return x.exp()


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


@pytest.mark.parametrize("name", IN_INFERENCE)
def test_what_enable_grad_records_in_inference_mode_can_be_saved(name):
    f, found = IN_INFERENCE[name], []
    for inside in (False, True):
        x = torch.linspace(-1.0, 1.0, 6).reshape(2, 3).requires_grad_()
        torch.manual_seed(0)
        with torch.inference_mode(inside):
            before = torch.ones(2)
            with torch.enable_grad():
                y = f(x)
                assert y.requires_grad and not y.is_inference()
            assert (before.is_inference(), (before * 2).is_inference()) == (inside, inside)
        y.sum().backward()
        found.append(x.grad)
    assert torch.equal(*found)
