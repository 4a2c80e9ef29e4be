# SPDX-License-Identifier: BSD-3-Clause
"""gradcheck and gradgradcheck accept correct gradients and name the faults of wrong ones."""

import re
import warnings

import pytest

import cograd as torch
from cograd.autograd import Function, GradcheckError, gradcheck, gradgradcheck
from cograd.autograd.gradcheck import (
    get_analytical_jacobian,
    get_numerical_jacobian,
    get_numerical_jacobian_wrt_specific_input,
)

MODES = pytest.mark.parametrize("fast_mode", [False, True])


def double(*shape):
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


def make_scaled(factor):
    """Returns a cube whose backward is wrong by ``factor``."""

    class Cube(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * 3 * x**2 * factor

    return Cube.apply


@MODES
def test_right_gradients(fast_mode):
    assert gradcheck(make_scaled(1), double(2, 3), fast_mode=fast_mode) is True
    assert gradcheck(lambda a, b: a.mm(b).sin(), (double(2, 3), double(3, 4)), fast_mode=fast_mode)
    assert gradcheck(lambda a: (a.exp(), a * 2, 7), double(3), fast_mode=fast_mode)
    assert gradcheck(lambda a, n, b: a * n + b, (double(2), 3, torch.ones(2)), fast_mode=fast_mode)


@MODES
def test_seed_program(fast_mode):
    def linear(input, weight):
        return input.mm(weight.t())

    inputs = (double(20, 20), double(30, 20))
    assert gradcheck(linear, inputs, eps=1e-6, atol=1e-4, fast_mode=fast_mode)


@MODES
def test_wrong_gradient_raises(fast_mode):
    with pytest.raises(
        GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0"
    ):
        gradcheck(make_scaled(2), double(3), fast_mode=fast_mode)
    assert gradcheck(make_scaled(2), double(3), raise_exception=False, fast_mode=fast_mode) is False


def test_message_names_the_worst_element():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, a, b):
            return a + b

        @staticmethod
        def backward(ctx, grad):
            wrong = torch.ones_like(grad)
            wrong[1, 2] = 4.0
            return grad, grad * wrong

    with pytest.raises(GradcheckError) as info:
        gradcheck(Wrong.apply, (double(2, 3), double(2, 3)))
    text = str(info.value)
    assert "Jacobian mismatch for output 0 with respect to input 1,\nnumerical:tensor(" in text
    assert "analytical:tensor(" in text
    assert "1 of 36 entries differ" in text
    assert "output element (1, 2) with respect to input element (1, 2)" in text
    found = re.search(
        r"numerical (\S+), analytical (\S+), difference (\S+), ratio \S+ (\S+)\.", text
    )
    assert [float(value) for value in found.groups()] == pytest.approx([1, 4, 3, 4], rel=1e-4)


def test_fast_mode_explains_in_slow_mode():
    with pytest.raises(GradcheckError, match="fast mode") as info:
        gradcheck(make_scaled(2), double(3), fast_mode=True)
    ratio = re.search(r"ratio analytical/numerical (\S+)\.", str(info.value))
    assert float(ratio.group(1)) == pytest.approx(2, rel=1e-3)


@MODES
def test_second_output_is_checked(fast_mode):
    wrong = make_scaled(2)
    with pytest.raises(GradcheckError, match="for output 1 with respect to input 0"):
        gradcheck(lambda x: (x * 2, wrong(x)), double(2), fast_mode=fast_mode)


@MODES
def test_non_contiguous_and_empty_inputs(fast_mode):
    base = torch.randn(4, 6, dtype=torch.float64)
    view = base.t()[1:5:2].detach().requires_grad_()
    saved = view.detach().clone()
    assert not view.is_contiguous()
    assert gradcheck(lambda x: x.sin(), view, fast_mode=fast_mode)
    assert torch.equal(view.detach(), saved)
    assert gradcheck(lambda x: x * 2, double(0, 3), fast_mode=fast_mode)
    assert gradcheck(lambda x: x * 2, double(), fast_mode=fast_mode)


@MODES
def test_output_that_is_a_view_of_the_input(fast_mode):
    assert gradcheck(lambda x: x.view(-1), double(2, 2), fast_mode=fast_mode)


def test_nested_inputs():
    a, b = double(2), double(2)
    assert gradcheck(lambda pair: pair[0] * pair[1], ([a, b],))
    with pytest.raises(GradcheckError):
        gradcheck(lambda pair: make_scaled(2)(pair[1]), ([a, b],))


def test_inputs_are_checked():
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        gradcheck(lambda x: x, torch.ones(2, dtype=torch.float64))
    overlapping = torch.randn(1, dtype=torch.float64).expand(3).requires_grad_()
    with pytest.raises(RuntimeError, match="0th input has a dimension with stride 0"):
        gradcheck(lambda x: x * 2, overlapping)
    with pytest.warns(UserWarning, match="Input #0 requires gradient and is not a double"):
        gradcheck(
            lambda x: x * 2, torch.ones(2, requires_grad=True), atol=1e-1, rtol=1e-1, eps=1e-2
        )


def test_nondeterministic_backward():
    calls = []

    class Drifting(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            calls.append(1)
            return grad * (2 + 1e-7 * len(calls))

    with pytest.raises(GradcheckError, match="Backward is not reentrant"):
        gradcheck(Drifting.apply, double(2))
    assert gradcheck(Drifting.apply, double(2), nondet_tol=1e-3)


@MODES
def test_backward_that_ignores_grad_output(fast_mode):
    class Ignores(Function):
        @staticmethod
        def forward(ctx, x):
            return x.sum()

        @staticmethod
        def backward(ctx, grad):
            return torch.ones(3, dtype=torch.float64)

    with pytest.raises(GradcheckError):
        gradcheck(Ignores.apply, double(3), fast_mode=fast_mode, check_undefined_grad=False)


def test_undefined_grads():
    class NeedsBoth(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, a, b):
            if a is None or b is None:
                raise RuntimeError("no gradient")
            return a * 2 + b * 3

    def both(x):
        a, b = NeedsBoth.apply(x)
        return a * 1, b * 1

    class Direct(NeedsBoth):
        @staticmethod
        def backward(ctx, a, b):
            if a is None and b is None:
                raise RuntimeError("no gradient")
            total = 0
            total = total + (a * 2 if a is not None else 0)
            return total + (b * 3 if b is not None else 0)

    with pytest.raises(RuntimeError, match="no gradient"):
        gradcheck(both, double(2))
    with pytest.raises(GradcheckError, match="handle undefined output grads"):
        gradcheck(Direct.apply, double(2))
    assert gradcheck(Direct.apply, double(2), check_undefined_grad=False)


def test_grad_dtypes():
    x = double(2)
    assert gradcheck(lambda t: t * 2, x, check_grad_dtypes=True)


def test_no_differentiable_outputs():
    assert gradcheck(lambda x: x.detach() * 0, double(2))
    with pytest.raises(GradcheckError, match="expected to be zero"):
        gradcheck(lambda x: x.detach() * 2, double(2))


def test_changing_outputs():
    count = []

    def grows(x):
        count.append(1)
        return x.repeat(len(count))

    with pytest.raises(AssertionError, match="same shape when inputs are perturbed"):
        gradcheck(grows, double(2))


def test_unsupported_checks():
    x = double(1)
    if not hasattr(torch.func, "vmap"):
        with pytest.raises(NotImplementedError, match="check_batched_grad=True .* needs vmap"):
            gradcheck(lambda t: t, x, check_batched_grad=True)
        with pytest.raises(NotImplementedError, match="check_batched_forward_grad"):
            gradcheck(lambda t: t, x, check_forward_ad=True, check_batched_forward_grad=True)
        with pytest.raises(NotImplementedError, match="check_batched_grad"):
            gradgradcheck(lambda t: t, x, check_batched_grad=True)
    with pytest.raises(AssertionError, match="at least one of"):
        gradcheck(lambda t: t, x, check_backward_ad=False)


@MODES
def test_gradgradcheck(fast_mode):
    assert gradgradcheck(lambda x: x.sin() * x, double(2, 3), fast_mode=fast_mode)
    assert gradgradcheck(lambda x, y: x * y, (double(2), double(2)), fast_mode=fast_mode)
    assert gradgradcheck(lambda x: x.exp(), double(3), double(3), fast_mode=fast_mode)
    assert gradgradcheck(
        lambda x: x**3, double(3), gen_non_contig_grad_outputs=True, fast_mode=fast_mode
    )


@MODES
def test_gradgradcheck_finds_a_wrong_second_derivative(fast_mode):
    class Once(Function):
        """The first derivative is right, but its own derivative is wrong."""

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * 3 * (x * x.detach())

    x = double(3)
    assert gradcheck(Once.apply, x, fast_mode=fast_mode)
    with pytest.raises(GradcheckError):
        gradgradcheck(Once.apply, x, fast_mode=fast_mode)


def test_jacobian_functions():
    x, y = double(2), double(3)

    def outer(inputs):
        return inputs[0][:, None] * inputs[1]

    with pytest.warns(FutureWarning):
        numerical = get_numerical_jacobian(outer, (x, y), eps=1e-6)
    with pytest.warns(FutureWarning):
        analytical, reentrant, sizes_ok, types_ok = get_analytical_jacobian((x, y), outer((x, y)))
    assert reentrant and sizes_ok and types_ok
    for n, a in zip(numerical, analytical):
        assert torch.allclose(n, a, atol=1e-6)
    assert tuple(numerical[0].shape) == (2, 6) and tuple(numerical[1].shape) == (3, 6)

    def product(a, b):
        return a[:, None] * b

    (one,) = get_numerical_jacobian_wrt_specific_input(product, 1, (x, y), product(x, y), 1e-6)
    assert torch.allclose(one, numerical[1], atol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match="grad_out"):
            get_numerical_jacobian(outer, (x, y), grad_out=2.0)


def test_output_whose_shape_changes_between_calls():
    calls = []

    def f(x):
        calls.append(1)
        return x * 2 if len(calls) == 1 else (x * 2)[:1]

    with pytest.raises(GradcheckError, match="1 elements when inputs were perturbed and 2 before"):
        gradcheck(f, (double(2),))
