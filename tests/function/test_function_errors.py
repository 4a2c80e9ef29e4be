# SPDX-License-Identifier: BSD-3-Clause
"""Errors of incorrect Functions: cograd raises where torch raises, with more detailed messages."""

import inspect
import os

import pytest
from conftest import leaf, ones, same

import cograd as torch
from cograd.autograd import Function


class Scale(Function):
    """A Function whose backward returns what a test sets: the result of `answer(g)`."""

    answer = None

    @staticmethod
    def forward(ctx, x, weight, factor=2.0):
        return x * weight * factor

    @staticmethod
    def backward(ctx, g):
        return Scale.answer(g)


FORWARD_LINE = inspect.getsourcelines(Scale.forward)[1]
HERE = os.path.basename(__file__)


def run(answer):
    """Runs a backward of Scale that returns `answer(g)`; returns the leaves x and weight."""
    Scale.answer = staticmethod(answer)
    x, weight = leaf([1.0, 2.0, 3.0]), leaf([1.0, 1.0, 1.0])
    Scale.apply(x, weight, 2.0).sum().backward()
    return x, weight


def text_of(answer, kind=RuntimeError):
    with pytest.raises(kind) as info:
        run(answer)
    return str(info.value)


# ---- counts --------------------------------------------------------------------------------------


def test_too_few_gradients():
    text = text_of(lambda g: (g, g))
    assert "ScaleBackward returned an incorrect number of gradients (expected 3, got 2)" in text


def test_single_gradient_for_several_inputs():
    text = text_of(lambda g: g)
    assert "ScaleBackward returned an incorrect number of gradients (expected 3, got 1)" in text


def test_too_many_gradients():
    text = text_of(lambda g: (g, g, None, g))
    assert "ScaleBackward returned an incorrect number of gradients (expected 3, got 4)" in text


def test_right_count_is_accepted():
    x, weight = run(lambda g: (g, g, None))
    assert same(x.grad, [1, 1, 1]) and same(weight.grad, [1, 1, 1])


@pytest.mark.beyond_torch
def test_count_error_shows_the_line_of_forward_and_the_argument_names():
    text = text_of(lambda g: (g, g))
    assert f"{HERE}:{FORWARD_LINE}" in text or f"{HERE}:{FORWARD_LINE + 1}" in text
    assert "factor" in text


# ---- types ---------------------------------------------------------------------------------------


def test_gradient_of_wrong_type():
    assert "got float" in text_of(lambda g: (g, 3.0, None))


def test_list_instead_of_gradient():
    assert "got list" in text_of(lambda g: ([g], g, None))


@pytest.mark.beyond_torch
def test_type_error_names_function_argument_and_line():
    text = text_of(lambda g: (g, 3.0, None))
    assert "Scale" in text and "weight" in text and f"{HERE}:" in text


def test_gradient_for_a_non_tensor_argument():
    text = text_of(lambda g: (g, g, g))
    assert "ScaleBackward returned a gradient different than None at position 3" in text


@pytest.mark.beyond_torch
def test_gradient_for_a_non_tensor_argument_names_it():
    assert "factor" in text_of(lambda g: (g, g, g))


# ---- shapes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2,), (1,), (), (3, 1), (4, 2)])
def test_gradient_of_wrong_shape(shape):
    text = text_of(lambda g: (g, torch.ones(shape, dtype=torch.float64), None))
    assert "returned an invalid gradient at index 1" in text
    assert str(list(shape)) in text and "[3]" in text and "Scale" in text


@pytest.mark.beyond_torch
def test_shape_error_names_argument_and_line():
    text = text_of(lambda g: (g, ones(2), None))
    assert "weight" in text and f"{HERE}:" in text


@pytest.mark.parametrize("shape", [(4, 3), (1, 3), (2, 5, 3)])
def test_gradient_that_sums_to_the_shape_is_summed(shape):
    _, weight = run(lambda g: (g, torch.ones(shape, dtype=torch.float64), None))
    count = 1
    for n in shape[:-1]:
        count *= n
    assert same(weight.grad, [count] * 3)


def test_failing_gradient_is_not_accumulated():
    Scale.answer = staticmethod(lambda g: (ones(2), g, None))
    x, weight = leaf([1.0, 2.0, 3.0]), leaf([1.0, 1.0, 1.0])
    with pytest.raises(RuntimeError, match="invalid gradient at index 0"):
        Scale.apply(x, weight).sum().backward()
    assert x.grad is None and weight.grad is None


# ---- definitions ---------------------------------------------------------------------------------


def test_function_without_forward():
    class NoForward(Function):
        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(NotImplementedError, match="You must implement the forward function"):
        NoForward.apply(leaf(1.0))
    with pytest.raises(NotImplementedError, match="You must implement the forward function"):
        Function.apply(leaf(1.0))


def test_function_without_backward_runs_forward_and_raises_in_backward():
    class NoBackward(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    y = NoBackward.apply(leaf(1.0))
    assert y.requires_grad
    with pytest.raises(NotImplementedError, match="You must implement either the backward or vjp"):
        y.backward()


def test_function_with_backward_and_vjp():
    class Both(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g

        vjp = backward

    class Different(Both):
        @staticmethod
        def vjp(ctx, g):
            return g * 1

    with pytest.raises(RuntimeError, match="Implementing both 'backward' and 'vjp'"):
        Different.apply(leaf(1.0)).backward()


def test_forward_without_ctx_is_a_type_error():
    class NoCtx(Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(TypeError, match="argument"):
        NoCtx.apply(leaf(1.0))


def test_forward_with_ctx_next_to_setup_context_is_a_type_error():
    class Mixed(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(TypeError, match="argument"):
        Mixed.apply(leaf(1.0))


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_calling_an_instance_of_a_static_function_raises():
    class Static(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(RuntimeError, match="static"):
        Static()(leaf(1.0))


def test_backward_with_wrong_number_of_parameters_is_a_type_error():
    class Narrow(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(TypeError, match="argument"):
        Narrow.apply(leaf(1.0))[0].backward()


def test_saved_tensors_cannot_be_assigned():
    class Assigns(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.saved_tensors = (x,)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(AttributeError, match="saved_tensors"):
        Assigns.apply(leaf(1.0))


def test_error_in_setup_context_travels():
    class Bad(Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            raise LookupError("in setup_context")

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(LookupError, match="in setup_context"):
        Bad.apply(leaf(1.0))
    assert torch.is_grad_enabled()
