# SPDX-License-Identifier: BSD-3-Clause
"""gradcheck and gradgradcheck with forward mode: which combinations find which faults."""

import itertools

import pytest

import cograd as torch
from cograd.autograd import Function, GradcheckError, gradcheck, gradgradcheck

FLAGS = ("check_forward_ad", "check_backward_ad", "fast_mode", "check_undefined_grad",
         "check_grad_dtypes")  # fmt: skip
COMBINATIONS = [
    dict(zip(FLAGS, values, strict=True))
    for values in itertools.product((False, True), repeat=5)
    if values[0] or values[1]
]
ids = lambda options: "-".join(k for k, v in options.items() if v)


def doubles(*sizes):
    generator = torch.Generator().manual_seed(3)
    made = [torch.rand(n, dtype=torch.float64, generator=generator) + 0.1 for n in sizes]
    return tuple(t.requires_grad_() for t in made)


def square(forward, backward):
    """Returns x^2 with these factors in its jvp and its backward (2 is right)."""

    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.save_for_forward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return backward * ctx.saved_tensors[0] * g

        @staticmethod
        def jvp(ctx, t):
            return forward * ctx.saved_tensors[0] * t

    return Square.apply


class TreatsNoneAsOne(Function):
    """Computes x y, with a jvp that is wrong if y has no tangent."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.set_materialize_grads(False)
        ctx.save_for_forward(x, y)
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return (None, None) if g is None else (g * y, g * x)

    @staticmethod
    def jvp(ctx, a, b):
        x, y = ctx.saved_tensors
        first = 0 if a is None else a * y
        return first + (1 if b is None else b * x)


@pytest.mark.parametrize("options", COMBINATIONS, ids=ids)
def test_right_derivatives_pass(options):
    x, y = doubles(3, 3)
    assert gradcheck(lambda x, y: x * y.sin(), (x, y), **options)
    assert gradcheck(lambda x, y: (x * y, x.detach() * 1, x > 0.5, y.sum()), (x, y), **options)
    assert gradcheck(lambda pair, k: pair[0] * pair[1] * k, ([x, y], 2.0), **options)
    assert gradcheck(square(2, 2), x, **options)
    assert gradcheck(lambda x: torch.ones(2, dtype=torch.float64), x, **options)
    assert gradcheck(lambda x: x * 2, doubles(0), **options)


@pytest.mark.parametrize("options", COMBINATIONS, ids=ids)
def test_wrong_derivatives_are_found_by_their_own_check(options):
    (x,) = doubles(3)
    forward, backward = options["check_forward_ad"], options["check_backward_ad"]
    for f, found, mode in (
        (square(3, 2), forward, "computed with forward mode "),
        (square(2, 3), backward, ""),
    ):
        if not found:
            assert gradcheck(f, x, **options)
            continue
        with pytest.raises(GradcheckError) as caught:
            gradcheck(f, x, **options)
        text = str(caught.value)
        start = f"Jacobian {mode}mismatch for output 0 with respect to input 0,\nnumerical:"
        assert text.startswith(start)
        assert "ratio analytical/numerical 1.5" in text
        assert not gradcheck(f, x, raise_exception=False, **options)


@pytest.mark.parametrize("options", COMBINATIONS, ids=ids)
def test_hidden_dependence_is_found(options):
    (x,) = doubles(3)
    with pytest.raises(GradcheckError, match="expected to be zero"):
        gradcheck(lambda x: (x * 2).detach(), x, **options)
    with pytest.raises(GradcheckError, match="mismatch"):
        gradcheck(lambda x: x * x.detach(), x, **options)


@pytest.mark.parametrize("fast_mode", [False, True])
def test_inputs_without_tangent(fast_mode):
    options = {"check_forward_ad": True, "check_backward_ad": False, "fast_mode": fast_mode}
    with pytest.raises(GradcheckError, match="output with index: 0 when input: 1 has an undefined"):
        gradcheck(TreatsNoneAsOne.apply, doubles(3, 3), **options)
    assert gradcheck(TreatsNoneAsOne.apply, doubles(3, 3), check_undefined_grad=False, **options)


def test_forward_mode_alone_needs_no_backward():
    class OnlyForward(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_forward(x)
            return x.sin()

        @staticmethod
        def jvp(ctx, t):
            return ctx.saved_tensors[0].cos() * t

    (x,) = doubles(3)
    for fast_mode in (False, True):
        assert gradcheck(
            OnlyForward.apply,
            x,
            check_forward_ad=True,
            check_backward_ad=False,
            fast_mode=fast_mode,
        )


def test_which_output_and_input():
    def f(x, y):
        return x * y, square(3, 2)(y)

    with pytest.raises(GradcheckError, match="forward mode mismatch for output 1 with .* input 1"):
        gradcheck(f, doubles(2, 2), check_forward_ad=True)


def cube(forward):
    """Returns x^3 whose backward is a Function with this factor in its jvp (2 is right)."""

    class Cube(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, g):
            return 3 * square(forward, 2)(ctx.saved_tensors[0]) * g

    return Cube.apply


@pytest.mark.parametrize("fast_mode", [False, True])
@pytest.mark.parametrize("undefined", [False, True])
def test_gradgradcheck_by_both_modes(fast_mode, undefined):
    options = {"fast_mode": fast_mode, "check_undefined_grad": undefined}
    (x,) = doubles(3)
    both = {"check_fwd_over_rev": True, "check_rev_over_rev": True}
    assert gradgradcheck(lambda x, y: x * x * y.sin(), doubles(2, 2), **both, **options)
    assert gradgradcheck(cube(2), x, **both, **options)
    assert gradgradcheck(cube(3), x, check_rev_over_rev=True, **options)
    with pytest.raises(GradcheckError, match="computed with forward mode mismatch"):
        gradgradcheck(cube(3), x, **both, **options)
    if not undefined:
        with pytest.raises(GradcheckError, match="computed with forward mode mismatch"):
            gradgradcheck(cube(3), x, check_fwd_over_rev=True, check_rev_over_rev=False, **options)


def test_combinations_that_make_no_sense():
    (x,) = doubles(2)
    for f, options, message in (
        (gradcheck, {"check_backward_ad": False}, "at least one of check_forward_ad"),
        (gradcheck, {"check_batched_grad": True, "check_backward_ad": False,
                     "check_forward_ad": True}, "check_batched_grad=True requires check_backward"),
        (gradcheck, {"check_batched_forward_grad": True}, "requires check_forward_ad to be True"),
        (gradgradcheck, {"check_rev_over_rev": False}, "at least one of check_fwd_over_rev"),
        (gradgradcheck, {"check_rev_over_rev": False, "check_fwd_over_rev": True},
         "check_undefined_grad=True requires check_rev_over_rev"),
    ):  # fmt: skip
        with pytest.raises(AssertionError, match=message):
            f(lambda t: t, x, **options)


@pytest.mark.parametrize("fast_mode", [False, True])
def test_batches_of_directions(fast_mode):
    options = {"check_batched_grad": True, "fast_mode": fast_mode}
    forward = {"check_forward_ad": True, "check_batched_forward_grad": True}
    x, y = doubles(3, 3)
    assert gradcheck(lambda x, y: (x * y.sin(), x.sum()), (x, y), **options, **forward)
    assert gradgradcheck(lambda x, y: x * x * y.sin(), (x, y), check_fwd_over_rev=True, **options)
