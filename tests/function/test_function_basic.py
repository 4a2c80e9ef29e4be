# SPDX-License-Identifier: BSD-3-Clause
"""autograd.Function: static and setup_context styles, ctx, arguments, modes, higher orders."""

import numpy as np
import pytest
from conftest import arr, leaf, ones, same

import cograd as torch
from cograd import autograd
from cograd.autograd import Function, gradcheck, gradgradcheck
from cograd.autograd.function import once_differentiable


class Mul(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g * b, g * a


class MulSetup(Function):
    @staticmethod
    def forward(a, b):
        return a * b

    @staticmethod
    def setup_context(ctx, inputs, output):
        a, b = inputs
        ctx.save_for_backward(a, b)

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g * b, g * a


BOTH = pytest.mark.parametrize("function", [Mul, MulSetup], ids=["static", "setup_context"])

# ---- the two styles ------------------------------------------------------------------------------


@BOTH
def test_forward_and_backward(function):
    a, b = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    y = function.apply(a, b)
    assert same(y, [3, 8]) and y.requires_grad and not y.is_leaf
    y.sum().backward()
    assert same(a.grad, [3, 4]) and same(b.grad, [1, 2])


@BOTH
def test_gradcheck_and_gradgradcheck(function):
    inputs = (leaf([[0.5, -1.0], [2.0, 0.1]]), leaf([[1.5, 0.3], [-0.7, 1.0]]))
    assert gradcheck(function.apply, inputs)
    assert gradgradcheck(function.apply, inputs)


@BOTH
def test_third_order_through_a_function(function):
    x = leaf([1.0, 2.0])
    y = function.apply(function.apply(x, x), x)
    (g1,) = autograd.grad(y.sum(), x, create_graph=True)
    (g2,) = autograd.grad(g1.sum(), x, create_graph=True)
    (g3,) = autograd.grad(g2.sum(), x)
    assert same(g1, 3 * arr(x) ** 2) and same(g2, 6 * arr(x)) and same(g3, [6, 6])


@BOTH
def test_same_tensor_as_both_arguments(function):
    x = leaf([3.0, 4.0])
    function.apply(x, x).sum().backward()
    assert same(x.grad, [6, 8])


def test_apply_can_be_aliased_and_kept():
    mul = Mul.apply
    x = leaf(2.0)
    mul(mul(x, x), x).backward()
    assert same(x.grad, 12.0)


def test_subclass_inherits_and_overrides():
    class Triple(Mul):
        @staticmethod
        def backward(ctx, g):
            a, b = Mul.backward(ctx, g)
            return a * 3, b * 3

    a, b = leaf(2.0), leaf(5.0)
    y = Triple.apply(a, b)
    assert y.grad_fn.name() == "TripleBackward"
    y.backward()
    assert same(a.grad, 15.0) and same(b.grad, 6.0)


def test_classmethods_serve_as_forward_and_backward():
    class Scale(Function):
        factor = 3.0

        @classmethod
        def forward(cls, ctx, x):
            return x * cls.factor

        @classmethod
        def backward(cls, ctx, g):
            return g * cls.factor

    x = leaf(1.0)
    Scale.apply(x).backward()
    assert same(x.grad, 3.0)


def test_vjp_is_another_name_of_backward():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def vjp(ctx, g):
            return g * 2

    x = leaf(1.0)
    Double.apply(x).backward()
    assert same(x.grad, 2.0)


def test_function_calling_a_function():
    class Cube(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return Mul.apply(Mul.apply(x, x), x)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return Mul.apply(g, Mul.apply(x, x)) * 3

    x = leaf([1.0, 2.0])
    y = Cube.apply(x)
    assert y.grad_fn.next_functions[0][0].variable is x
    assert gradcheck(Cube.apply, (x,)) and gradgradcheck(Cube.apply, (x,))


# ---- saved tensors -------------------------------------------------------------------------------


def test_saved_tensors_come_back_in_order_with_none():
    seen = []

    class Probe(Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(w, None, x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            saved = ctx.saved_tensors
            seen.append((isinstance(saved, tuple), saved[0] is w, saved[1], saved[2] is x))
            return g * 2, None

    x, w = leaf(1.0), ones(2)
    Probe.apply(x, w).backward()
    assert seen == [(True, True, None, True)]


def test_nothing_saved_is_an_empty_tuple():
    class Probe(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            assert ctx.saved_tensors == ()
            return g * 2

    x = leaf(1.0)
    Probe.apply(x).backward()
    assert same(x.grad, 2.0)


def test_saving_a_non_tensor_is_a_type_error_naming_the_argument():
    class Bad(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, 3.0)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(TypeError, match="argument 1 is of type float"):
        Bad.apply(leaf(1.0))


def test_saved_tensors_may_be_read_more_than_once():
    class Probe(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g * (ctx.saved_tensors[0] + ctx.saved_tensors[0])

    x = leaf(3.0)
    Probe.apply(x).backward()
    assert same(x.grad, 6.0)


def test_saved_output_is_version_checked_and_named():
    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    x = leaf([1.0, 2.0])
    y = Exp.apply(x)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation.*output 0 of Exp"):
        y.sum().backward()


def test_saved_output_gives_right_higher_derivatives():
    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    x = leaf([0.1, 0.7])
    value = Exp.apply(x)
    for _ in range(3):
        (value,) = autograd.grad(value.sum(), x, create_graph=True)
        assert same(value, np.exp(arr(x)), tol=1e-10)


def test_second_backward_raises_when_something_was_saved():
    x = leaf(3.0)
    y = Mul.apply(x, x)
    y.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()
    with pytest.raises(RuntimeError, match="after they have already been freed"):
        _ = y.grad_fn.saved_tensors
    assert same(x.grad, 6.0)


def test_retain_graph_runs_a_function_again():
    x = leaf(3.0)
    y = Mul.apply(x, x)
    y.backward(retain_graph=True)
    y.backward()
    assert same(x.grad, 12.0)


def test_attributes_on_ctx_of_any_type():
    class Probe(Function):
        @staticmethod
        def forward(ctx, x, scale, label):
            ctx.scale, ctx.label, ctx.items = scale, label, [1, {"k": scale}]
            return x * scale

        @staticmethod
        def backward(ctx, g):
            assert ctx.label == "name" and ctx.items == [1, {"k": 4.0}]
            assert not hasattr(ctx, "missing")
            return g * ctx.scale, None, None

    x = leaf(1.0)
    y = Probe.apply(x, 4.0, "name")
    y.backward(retain_graph=True)
    y.backward()
    assert same(x.grad, 8.0)
    assert y.grad_fn.scale == 4.0


def test_missing_ctx_attribute_is_an_attribute_error_naming_it():
    class Probe(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * ctx.scale

    with pytest.raises(AttributeError, match="scale"):
        Probe.apply(leaf(1.0)).backward()


def test_contexts_of_two_calls_are_separate():
    class Scale(Function):
        @staticmethod
        def forward(ctx, x, k):
            ctx.k = k
            return x * k

        @staticmethod
        def backward(ctx, g):
            return g * ctx.k, None

    x = leaf(1.0)
    (Scale.apply(x, 2.0) + Scale.apply(x, 5.0)).backward()
    assert same(x.grad, 7.0)


# ---- needs_input_grad ----------------------------------------------------------------------------


def test_needs_input_grad_in_forward_setup_context_and_backward():
    seen = []

    class Probe(Function):
        @staticmethod
        def forward(a, b, k, c):
            return a * b * k * c

        @staticmethod
        def setup_context(ctx, inputs, output):
            seen.append(ctx.needs_input_grad)
            ctx.save_for_backward(inputs[1], inputs[3])
            ctx.k = inputs[2]

        @staticmethod
        def backward(ctx, g):
            seen.append(ctx.needs_input_grad)
            b, c = ctx.saved_tensors
            return g * b * ctx.k * c, None, None, None

    a = leaf(2.0)
    Probe.apply(a, ones(), 3.0, ones()).backward()
    assert seen == [(True, False, False, False)] * 2
    assert same(a.grad, 3.0)


def test_needs_input_grad_is_seen_inside_static_forward():
    seen = []

    class Probe(Function):
        @staticmethod
        def forward(ctx, a, b):
            seen.append(ctx.needs_input_grad)
            return a * b

        @staticmethod
        def backward(ctx, g):
            return None, g

    Probe.apply(ones(), leaf(1.0))
    with torch.no_grad():
        Probe.apply(ones(), leaf(1.0))
    assert seen[0] == (False, True)


def test_skipped_gradient_of_an_input_that_needs_it_is_none():
    class Probe(Function):
        @staticmethod
        def forward(ctx, a, b):
            return a + b

        @staticmethod
        def backward(ctx, g):
            return g, None

    a, b = leaf(1.0), leaf(2.0)
    Probe.apply(a, b).backward()
    assert same(a.grad, 1.0) and b.grad is None


# ---- arguments -----------------------------------------------------------------------------------


class Affine(Function):
    @staticmethod
    def forward(ctx, x, scale=2.0, shift=0.0):
        ctx.scale = scale
        return x * scale + shift

    @staticmethod
    def backward(ctx, g):
        return g * ctx.scale, None, None


class AffineSetup(Function):
    @staticmethod
    def forward(x, scale=2.0, shift=0.0):
        return x * scale + shift

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.inputs = inputs[1:]

    @staticmethod
    def backward(ctx, g):
        return g * ctx.inputs[0], None, None


@pytest.mark.parametrize("function", [Affine, AffineSetup], ids=["static", "setup_context"])
@pytest.mark.parametrize(
    ("args", "kwargs", "value", "slope"),
    [
        ((), {}, 2.0, 2.0),
        ((3.0,), {}, 3.0, 3.0),
        ((3.0, 1.0), {}, 4.0, 3.0),
        ((), {"scale": 5.0}, 5.0, 5.0),
        # torch's static style cannot skip a default in the middle
        pytest.param((), {"shift": 1.0}, 3.0, 2.0, marks=pytest.mark.beyond_torch),
        ((), {"shift": 1.0, "scale": 7.0}, 8.0, 7.0),
        ((4.0,), {"shift": -1.0}, 3.0, 4.0),
    ],
)
def test_defaults_and_keywords(function, args, kwargs, value, slope):
    x = leaf(1.0)
    y = function.apply(x, *args, **kwargs)
    assert same(y, value)
    y.backward()
    assert same(x.grad, slope)


def test_setup_context_sees_the_defaults():
    x = leaf(1.0)
    assert AffineSetup.apply(x).grad_fn.inputs == (2.0, 0.0)
    assert AffineSetup.apply(x, shift=3.0).grad_fn.inputs == (2.0, 3.0)


@pytest.mark.parametrize("order", [("x", "w"), ("w", "x")])
def test_tensors_as_keywords_get_gradients_by_signature_order(order):
    class Weighted(Function):
        @staticmethod
        def forward(ctx, x, w=None):
            ctx.save_for_backward(x, w)
            return x * w

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            return g * w, g * x

    tensors = {"x": leaf(2.0), "w": leaf(5.0)}
    Weighted.apply(**{name: tensors[name] for name in order}).backward()
    assert same(tensors["x"].grad, 5.0) and same(tensors["w"].grad, 2.0)


def test_unknown_keyword_and_wrong_argument_count_are_type_errors():
    with pytest.raises(TypeError, match="unexpected keyword argument 'wrong'"):
        Affine.apply(leaf(1.0), wrong=1)
    with pytest.raises(TypeError, match="argument"):
        Affine.apply(leaf(1.0), 1, 2, 3)
    with pytest.raises(TypeError, match="argument"):
        Affine.apply()


def test_any_python_object_passes_through_unchanged():
    seen = []
    marker = object()

    class Probe(Function):
        @staticmethod
        def forward(ctx, a, b, c, x, d):
            seen.append((a is marker, b, c, d))
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return None, None, None, g, None

    x = leaf(1.0)
    Probe.apply(marker, "s", {"k": (1, 2)}, x, None).backward()
    assert seen == [(True, "s", {"k": (1, 2)}, None)] and same(x.grad, 1.0)


def test_star_arguments():
    class Total(Function):
        @staticmethod
        def forward(ctx, *tensors):
            ctx.count = len(tensors)
            return sum(t * 1 for t in tensors)

        @staticmethod
        def backward(ctx, g):
            return tuple(g * (k + 1) for k in range(ctx.count))

    leaves = [leaf(float(k)) for k in range(12)]
    y = Total.apply(*leaves)
    y.backward()
    assert y.item() == 66.0 and [v.grad.item() for v in leaves] == list(range(1, 13))


def test_tensor_inputs_are_the_callers_objects():
    seen = []

    class Probe(Function):
        @staticmethod
        def forward(ctx, x):
            seen.append((x is given, x.requires_grad, torch.is_grad_enabled()))
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g

    given = leaf(1.0)
    Probe.apply(given)
    assert seen == [(True, True, False)]


def test_forward_and_backward_through_numpy():
    class NumpySin(Function):
        @staticmethod
        def forward(ctx, x):
            values = x.detach().numpy()
            ctx.slope = np.cos(values)
            return torch.from_numpy(np.sin(values))

        @staticmethod
        def backward(ctx, g):
            return torch.from_numpy(g.numpy() * ctx.slope)

    x = leaf([0.3, 1.2])
    y = NumpySin.apply(x)
    y.sum().backward()
    assert same(y, np.sin([0.3, 1.2])) and same(x.grad, np.cos([0.3, 1.2]))


def test_gradient_may_be_changed_in_place_by_its_function_only_after_a_clone():
    class Halves(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g.clone().mul_(0.5)

    x = leaf([1.0, 2.0])
    y = x * 3
    (Halves.apply(y) + y).sum().backward()
    assert same(x.grad, [4.5, 4.5])


@pytest.mark.parametrize(
    "reduce",
    [
        lambda y: y.sum(),
        lambda y: y.t().sum(0).sum(),
        lambda y: y.expand(3, 2, 2).sum(),
        lambda y: y[:, 0].sum() + y[1].sum(),
        lambda y: y.t().reshape(4).mul(2).sum(),
    ],
)
def test_gradients_of_any_layout_reach_backward(reduce):
    class Weighted(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            assert tuple(g.shape) == (2, 2)
            return g * 2

    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    reduce(Weighted.apply(x)).backward()
    (expected,) = autograd.grad(reduce(x * 2), x)
    assert same(x.grad, arr(expected))


# ---- None gradients ------------------------------------------------------------------------------


def test_trailing_none_gradients_are_ignored():
    class Probe(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2, None, None, None

    x = leaf(1.0)
    Probe.apply(x).backward()
    assert same(x.grad, 2.0)


def test_none_gradient_stops_the_flow():
    ran = []

    class Stop(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return None

    x = leaf(1.0)
    middle = x * 3
    middle.register_hook(lambda g: ran.append(g))
    Stop.apply(middle).backward()
    assert x.grad is None or same(x.grad, 0.0)
    assert all(g is None or not arr(g).any() for g in ran)


def test_none_and_a_gradient_from_another_path():
    class Stop(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return None

    x = leaf(3.0)
    (Stop.apply(x) + x * 5).backward()
    assert same(x.grad, 5.0)


def test_gradient_for_a_constant_tensor_input_is_dropped():
    a, constant = leaf(2.0), ones()
    Mul.apply(a, constant).backward()
    assert same(a.grad, 1.0) and constant.grad is None


def test_gradient_is_cast_to_the_inputs_dtype():
    class Cast(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return (g * 2).float()

    x = leaf([1.0, 2.0])
    Cast.apply(x).sum().backward()
    assert x.grad.dtype == torch.float64 and same(x.grad, [2, 2])


def test_gradient_of_a_broadcast_is_summed_to_the_inputs_shape():
    class Broadcast(Function):
        @staticmethod
        def forward(ctx, x):
            return x + torch.zeros(4, 3, dtype=torch.float64)

        @staticmethod
        def backward(ctx, g):
            return g

    x = leaf([1.0, 2.0, 3.0])
    Broadcast.apply(x).sum().backward()
    assert same(x.grad, [4, 4, 4])


# ---- modes ---------------------------------------------------------------------------------------


@BOTH
def test_no_grad_makes_no_node(function):
    with torch.no_grad():
        y = function.apply(leaf(1.0), leaf(2.0))
    assert not y.requires_grad and y.grad_fn is None


@BOTH
def test_no_input_requires_grad_makes_no_node(function):
    y = function.apply(ones(2), ones(2))
    assert not y.requires_grad and y.grad_fn is None and same(y, [1, 1])


def test_no_tensor_at_all():
    assert Affine.apply(3.0) == 6.0


def test_forward_runs_without_recording():
    inner = []

    class Probe(Function):
        @staticmethod
        def forward(ctx, x):
            middle = x.exp()
            inner.append((torch.is_grad_enabled(), middle.requires_grad, middle.grad_fn))
            return middle * 2

        @staticmethod
        def backward(ctx, g):
            return g

    y = Probe.apply(leaf(1.0))
    assert inner == [(False, False, None)] and torch.is_grad_enabled()
    assert y.grad_fn.next_functions[0][0].variable is not None


def test_forward_may_switch_recording_on_for_itself():
    class Probe(Function):
        @staticmethod
        def forward(ctx, x):
            with torch.enable_grad():
                copy = x.detach().requires_grad_()
                y = copy**3
            (ctx.slope,) = autograd.grad(y, copy)
            return y.detach()

        @staticmethod
        def backward(ctx, g):
            return g * ctx.slope

    x = leaf(2.0)
    Probe.apply(x).backward()
    assert same(x.grad, 12.0)


def test_grad_mode_in_backward_is_create_graph():
    seen = []

    class Probe(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            seen.append(torch.is_grad_enabled())
            return g * 2

    x = leaf(1.0)
    y = Probe.apply(x)
    autograd.grad(y, x, retain_graph=True)
    autograd.grad(y, x, create_graph=True)
    assert seen == [False, True]


def test_exception_in_forward_restores_grad_mode():
    class Bad(Function):
        @staticmethod
        def forward(ctx, x):
            raise ArithmeticError("forward")

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(ArithmeticError, match="forward"):
        Bad.apply(leaf(1.0))
    assert torch.is_grad_enabled()


# ---- ctx is the node -----------------------------------------------------------------------------


def test_ctx_is_grad_fn():
    contexts = []

    class Probe(Function):
        @staticmethod
        def forward(ctx, x):
            contexts.append(ctx)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            contexts.append(ctx)
            return g * 2

    x = leaf(1.0)
    y = Probe.apply(x)
    y.backward()
    assert contexts[0] is y.grad_fn and contexts[1] is y.grad_fn


def test_node_is_named_after_the_class():
    y = Mul.apply(leaf(1.0), leaf(2.0))
    assert y.grad_fn.name() == "MulBackward" and type(y.grad_fn).__name__ == "MulBackward"
    assert "grad_fn=<MulBackward>" in repr(y)


def test_node_has_metadata_and_next_functions():
    a, b = leaf(1.0), leaf(2.0).exp()
    y = Mul.apply(a, b)
    assert y.grad_fn.metadata == {}
    (first, first_nr), (second, second_nr) = y.grad_fn.next_functions
    assert first.variable is a and second is b.grad_fn and (first_nr, second_nr) == (0, 0)


def test_next_functions_has_none_for_a_constant_tensor():
    y = Mul.apply(leaf(1.0), ones())
    assert y.grad_fn.next_functions[1] == (None, 0)


def test_node_apply_runs_the_backward():
    y = Mul.apply(leaf(2.0), leaf(5.0))
    ga, gb = y.grad_fn.apply(ones())
    assert same(ga, 5.0) and same(gb, 2.0)


@pytest.mark.beyond_torch
def test_node_is_callable_too():
    y = Mul.apply(leaf(2.0), leaf(5.0))
    ga, gb = y.grad_fn(ones())
    assert same(ga, 5.0) and same(gb, 2.0)


def test_python_methods_of_the_class_are_not_taken_for_ctx_attributes():
    class Helper(Function):
        @staticmethod
        def slope(x):
            return 2 * x

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g * Helper.slope(*ctx.saved_tensors)

    x = leaf(3.0)
    Helper.apply(x).backward()
    assert same(x.grad, 6.0)


# ---- once_differentiable -------------------------------------------------------------------------


def once_squared():
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            assert not torch.is_grad_enabled()
            return 2 * g * ctx.saved_tensors[0]

    return Once


def test_once_differentiable_first_order():
    x = leaf(3.0)
    once_squared().apply(x).backward()
    assert same(x.grad, 6.0)


def test_once_differentiable_refuses_the_second():
    x = leaf(3.0)
    (g,) = autograd.grad(once_squared().apply(x) * x, x, create_graph=True)
    message = "trying to differentiate twice a function that was marked with @once_differentiable"
    with pytest.raises(RuntimeError, match=message):
        g.backward()


@pytest.mark.beyond_torch
def test_once_differentiable_text_is_not_lost_with_a_constant_seed():
    x = leaf(3.0)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        (g,) = autograd.grad(once_squared().apply(x), x, create_graph=True)
        g.backward()
