# SPDX-License-Identifier: BSD-3-Clause
"""Where torch's Function is silently wrong or refuses, cograd raises, warns or works."""

import os
import warnings

import numpy as np
import pytest
from conftest import arr, leaf, ones, same

import cograd as torch
from cograd import autograd
from cograd.autograd import Function, gradgradcheck

HERE = os.path.basename(__file__)
beyond = pytest.mark.beyond_torch

# ---- saved intermediates in double backward ------------------------------------------------------


class FourthPower(Function):
    """x^4 that saves x*x: right once, but torch's second derivative is wrong (144 for 432)."""

    @staticmethod
    def forward(ctx, x):
        squared = x * x
        ctx.save_for_backward(x, squared)
        return squared * squared

    @staticmethod
    def backward(ctx, g):
        x, squared = ctx.saved_tensors
        return g * 4 * x * squared


def test_saved_intermediate_is_fine_for_the_first_derivative():
    x = leaf(6.0)
    FourthPower.apply(x).backward()
    assert same(x.grad, 864.0)


def test_saved_intermediate_does_not_disturb_create_graph_itself():
    x = leaf(6.0)
    (g,) = autograd.grad(FourthPower.apply(x), x, create_graph=True)
    assert same(g, 864.0)


@beyond
def test_saved_intermediate_raises_in_double_backward():
    x = leaf(6.0)
    (g,) = autograd.grad(FourthPower.apply(x), x, create_graph=True)
    with pytest.raises(RuntimeError) as info:
        autograd.grad(g, x)
    text = str(info.value)
    assert "FourthPower" in text and "1" in text and "save" in text


@beyond
def test_saved_intermediate_raises_when_it_would_reach_another_leaf():
    x, w = leaf(6.0), leaf(2.0)
    (g,) = autograd.grad(FourthPower.apply(x * w), x, create_graph=True)
    with pytest.raises(RuntimeError, match="FourthPower"):
        g.backward()


def test_gradgradcheck_does_not_pass_a_saved_intermediate():
    with pytest.raises(RuntimeError):
        gradgradcheck(FourthPower.apply, (leaf([1.5, 2.0]),))


@beyond
def test_intermediate_kept_as_attribute_raises_in_double_backward():
    class Keeps(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.squared = x * x
            return ctx.squared * ctx.squared

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 4 * x * ctx.squared

    x = leaf(6.0)
    (g,) = autograd.grad(Keeps.apply(x), x, create_graph=True)
    with pytest.raises(RuntimeError, match="squared"):
        autograd.grad(g, x)


@beyond
def test_saved_intermediate_raises_in_the_setup_context_style():
    class Setup(Function):
        @staticmethod
        def forward(x):
            squared = x * x
            Setup.squared = squared
            return squared * squared

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0], Setup.squared)
            Setup.squared = None

        @staticmethod
        def backward(ctx, g):
            x, squared = ctx.saved_tensors
            return g * 4 * x * squared

    x = leaf(6.0)
    (g,) = autograd.grad(Setup.apply(x), x, create_graph=True)
    with pytest.raises(RuntimeError, match="Setup"):
        autograd.grad(g, x)


def test_recomputing_instead_of_saving_is_right():
    class Recomputes(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return (x * x) * (x * x)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 4 * x * (x * x)

    x = leaf(6.0)
    (g,) = autograd.grad(Recomputes.apply(x), x, create_graph=True)
    assert same(autograd.grad(g, x)[0], 432.0)


def test_returning_the_intermediate_as_output_is_right():
    class Returns(Function):
        @staticmethod
        def forward(ctx, x):
            squared = x * x
            ctx.save_for_backward(x, squared)
            return squared * squared, squared

        @staticmethod
        def backward(ctx, g, g_squared):
            x, squared = ctx.saved_tensors
            return g * 4 * x * squared + g_squared * 2 * x

    x = leaf(6.0)
    (g,) = autograd.grad(Returns.apply(x)[0], x, create_graph=True)
    assert same(autograd.grad(g, x)[0], 432.0)


CONSTANT = [0.5, 2.0, 0.0]


@pytest.mark.parametrize(
    "make_mask",
    [
        lambda x: torch.tensor(CONSTANT, dtype=torch.float64),
        lambda x: torch.ones_like(x) * 2,
        lambda x: (torch.rand(3) > 0.5).to(torch.float64),
        lambda x: x > 0,
        lambda x: (x > 0).to(x.dtype),
        lambda x: x.argmax(),
        lambda x: torch.zeros_like(x).fill_(3.0),
    ],
    ids=["fresh", "ones_like", "random", "bool", "bool_cast", "index", "zeros_like"],
)
def test_saved_constant_made_in_forward_does_not_raise(make_mask):
    class Masked(Function):
        @staticmethod
        def forward(ctx, x):
            mask = make_mask(x)
            ctx.save_for_backward(x, mask)
            return x * x * mask

        @staticmethod
        def backward(ctx, g):
            x, mask = ctx.saved_tensors
            masks.append(mask)
            return g * 2 * x * mask

    masks = []
    x = leaf([1.0, -2.0, 3.0])
    (g,) = autograd.grad(Masked.apply(x).sum(), x, create_graph=True)
    (h,) = autograd.grad(g.sum(), x)
    assert same(h, 2 * arr(masks[0]) * np.ones(3))


def test_saved_outside_constant_does_not_raise():
    table = torch.tensor(CONSTANT, dtype=torch.float64)

    class Table(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, table)
            ctx.table = table
            return x * x * table

        @staticmethod
        def backward(ctx, g):
            x, saved = ctx.saved_tensors
            return g * x * saved + g * x * ctx.table

    x = leaf([1.0, -2.0, 3.0])
    (g,) = autograd.grad(Table.apply(x).sum(), x, create_graph=True)
    (h,) = autograd.grad(g.sum(), x)
    assert same(h, 2 * np.array(CONSTANT))


def test_saved_view_of_an_input_does_not_raise_when_it_is_right():
    class Rows(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.shape = x.shape
            return x.t().mm(x)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return x.mm(g + g.t())

    assert gradgradcheck(Rows.apply, (leaf([[1.0, 2.0], [3.0, 5.0], [0.5, -1.0]]),))


# ---- unmarked in-place writes --------------------------------------------------------------------


class WritesInput(Function):
    @staticmethod
    def forward(ctx, x, weight):
        weight.mul_(2)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2, None


@beyond
def test_unmarked_write_to_an_input_in_the_graph_raises():
    with pytest.raises(RuntimeError, match="mark_dirty") as info:
        WritesInput.apply(leaf([1.0]), leaf([1.0]) * 1)
    assert "WritesInput" in str(info.value) and "weight" in str(info.value)


@beyond
def test_unmarked_write_to_a_leaf_raises():
    with pytest.raises(RuntimeError, match="mark_dirty|leaf Variable"):
        WritesInput.apply(leaf([1.0]), leaf([1.0]))


@beyond
def test_unmarked_write_through_a_view_raises():
    class WritesView(Function):
        @staticmethod
        def forward(ctx, x):
            x[0].zero_()
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    with pytest.raises(RuntimeError, match="mark_dirty"):
        WritesView.apply(leaf([1.0, 2.0]) * 1)


@beyond
def test_unmarked_write_that_is_returned_raises():
    class Returns(Function):
        @staticmethod
        def forward(ctx, x):
            return x.mul_(2)

        @staticmethod
        def backward(ctx, g):
            return g * 2

    with pytest.raises(RuntimeError, match="mark_dirty"):
        Returns.apply(leaf([1.0, 2.0]) * 1)


def test_write_to_a_constant_input_is_allowed():
    buffer = ones(2)
    y = WritesInput.apply(leaf([1.0, 2.0]), buffer)
    assert same(buffer, [2, 2]) and same(y, [2, 4])


def test_unmarked_write_under_no_grad_is_allowed():
    h = leaf([1.0]) * 1
    with torch.no_grad():
        WritesInput.apply(leaf([1.0]), h)
    assert same(h, [2])


# ---- save_for_backward ---------------------------------------------------------------------------


@beyond
def test_second_save_for_backward_raises():
    class Twice(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g * 2 * ctx.saved_tensors[0]

    with pytest.raises(RuntimeError, match="save_for_backward") as info:
        Twice.apply(leaf(1.0))
    assert "Twice" in str(info.value)


# ---- containers ----------------------------------------------------------------------------------


class FromContainer(Function):
    @staticmethod
    def forward(ctx, container):
        tensors = container.values() if isinstance(container, dict) else container
        return sum(t * 2 for t in tensors)

    @staticmethod
    def backward(ctx, g):
        return None


@beyond
@pytest.mark.parametrize(
    "container",
    [lambda x: [x], lambda x: (x, x), lambda x: {"k": x}],
    ids=["list", "tuple", "dict"],
)
def test_tensor_hidden_in_a_container_warns(container):
    with pytest.warns(UserWarning, match="pytree") as record:
        y = FromContainer.apply(container(leaf(1.0)))
    assert not y.requires_grad and same(y.detach(), y.item())
    text = str(record[0].message)
    assert "FromContainer" in text and "container" in text


@pytest.mark.parametrize("container", [lambda: [ones(2)], lambda: {"k": ones(2)}, lambda: [1, "s"]])
def test_containers_without_tracked_tensors_do_not_warn(container):
    class Takes(Function):
        @staticmethod
        def forward(ctx, x, container):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2, None

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = leaf(1.0)
        Takes.apply(x, container()).backward()
    assert same(x.grad, 2.0)


@beyond
@pytest.mark.parametrize(
    "kind", [list, lambda pair: dict(zip("ab", pair, strict=True))], ids=["list", "dict"]
)
def test_tensors_in_an_output_container_are_not_lost_silently(kind):
    class ToContainer(Function):
        @staticmethod
        def forward(ctx, x):
            return kind((x * 2, x * 3))

        @staticmethod
        def backward(ctx, *grads):
            return grads[0]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises((UserWarning, TypeError, RuntimeError), match="ToContainer"):
            ToContainer.apply(leaf(1.0))


class Tree(Function):
    """y = {"sum": a + b*scale, "list": [a*b]} for params {"a": a, "b": [b]}."""

    pytree = True

    @staticmethod
    def forward(ctx, params, scale=2.0):
        a, (b,) = params["a"], params["b"]
        ctx.save_for_backward(a, b)
        ctx.scale = scale
        return {"sum": a + b * scale, "list": [a * b, "text"]}

    @staticmethod
    def backward(ctx, grads):
        a, b = ctx.saved_tensors
        g_sum, (g_product, none) = grads["sum"], grads["list"]
        assert none is None
        return {"a": g_sum + g_product * b, "b": [g_sum * ctx.scale + g_product * a]}, None


@beyond
def test_pytree_function_traverses_inputs_and_outputs():
    a, b = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    out = Tree.apply({"a": a, "b": [b]})
    assert set(out) == {"sum", "list"} and out["list"][1] == "text"
    assert out["sum"].requires_grad and out["list"][0].requires_grad
    (out["sum"].sum() + 10 * out["list"][0].sum()).backward()
    assert same(a.grad, 1 + 10 * arr(b)) and same(b.grad, 2 + 10 * arr(a))


@beyond
def test_pytree_function_passes_gradgradcheck():
    def function(a, b):
        out = Tree.apply({"a": a, "b": [b]}, scale=3.0)
        return out["sum"], out["list"][0]

    assert gradgradcheck(function, (leaf([1.0, 2.0]), leaf([3.0, 4.0])))


@beyond
def test_pytree_function_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Tree.apply({"a": leaf([1.0]), "b": [leaf([2.0])]})


# ---- needs_input_grad of this run ----------------------------------------------------------------


def product_that_notes():
    class Product(Function):
        seen = []

        @staticmethod
        def forward(ctx, a, b):
            Product.seen.append(ctx.needs_input_grad)
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx, g):
            Product.seen.append(ctx.needs_input_grad)
            a, b = ctx.saved_tensors
            return g * b if ctx.needs_input_grad[0] else None, (
                g * a if ctx.needs_input_grad[1] else None
            )

    return Product


@beyond
def test_needs_input_grad_tells_what_this_run_needs():
    function = product_that_notes()
    a, b = leaf(2.0), leaf(5.0)
    y = function.apply(a, b)
    (ga,) = autograd.grad(y, a, retain_graph=True)
    (gb,) = autograd.grad(y, b, retain_graph=True)
    y.backward()
    assert function.seen == [(True, True), (True, False), (False, True), (True, True)]
    assert same(ga, 5.0) and same(gb, 2.0) and same(a.grad, 5.0) and same(b.grad, 2.0)


@beyond
def test_needs_input_grad_of_backward_with_inputs():
    function = product_that_notes()
    a, b = leaf(2.0), leaf(5.0)
    h = b * 1
    function.apply(a, h).backward(inputs=[b])
    assert function.seen[-1] == (False, True) and a.grad is None and same(b.grad, 2.0)


@beyond
def test_needs_input_grad_counts_needed_ancestors():
    function = product_that_notes()
    a, b = leaf(2.0), leaf(5.0)
    left = (a * 3).exp()
    (g,) = autograd.grad(function.apply(left, b), a)
    assert function.seen[-1] == (True, False)
    assert same(g, 5 * 3 * np.exp(6.0), tol=1e-10)


# ---- keywords in every style ---------------------------------------------------------------------


@beyond
def test_keyword_only_arguments_static():
    class Scale(Function):
        @staticmethod
        def forward(ctx, x, *, factor=2.0):
            ctx.factor = factor
            return x * factor

        @staticmethod
        def backward(ctx, g):
            return g * ctx.factor, None

    for kwargs, expected in (({}, 2.0), ({"factor": 5.0}, 5.0)):
        x = leaf(1.0)
        Scale.apply(x, **kwargs).backward()
        assert same(x.grad, expected)


@beyond
def test_keyword_only_arguments_setup_context():
    class Scale(Function):
        @staticmethod
        def forward(x, *, factor=2.0):
            return x * factor

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.factor = inputs[1]

        @staticmethod
        def backward(ctx, g):
            return g * ctx.factor, None

    for kwargs, expected in (({}, 2.0), ({"factor": 5.0}, 5.0)):
        x = leaf(1.0)
        Scale.apply(x, **kwargs).backward()
        assert same(x.grad, expected)


@beyond
@pytest.mark.parametrize("style", ["static", "setup_context"])
def test_default_in_the_middle_may_be_skipped(style):
    if style == "static":

        class Weighted(Function):
            @staticmethod
            def forward(ctx, x, power=2, weight=None):
                ctx.save_for_backward(x, weight)
                ctx.power = power
                return weight * x**power

            @staticmethod
            def backward(ctx, g):
                x, weight = ctx.saved_tensors
                return g * weight * ctx.power * x ** (ctx.power - 1), None, g * x**ctx.power
    else:

        class Weighted(Function):
            @staticmethod
            def forward(x, power=2, weight=None):
                return weight * x**power

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.save_for_backward(inputs[0], inputs[2])
                ctx.power = inputs[1]

            @staticmethod
            def backward(ctx, g):
                x, weight = ctx.saved_tensors
                return g * weight * ctx.power * x ** (ctx.power - 1), None, g * x**ctx.power

    x, w = leaf(3.0), leaf(5.0)
    Weighted.apply(x, weight=w).backward()
    assert same(x.grad, 30.0) and same(w.grad, 9.0)


# ---- messages ------------------------------------------------------------------------------------


@beyond
def test_saved_tensor_error_names_the_function_that_saved():
    class Holder(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return 2 * g * ctx.saved_tensors[0]

    x = leaf([1.0, 2.0]) * 1
    y = Holder.apply(x)
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as info:
        y.sum().backward()
    assert "Holder" in str(info.value)


@beyond
def test_missing_ctx_parameter_is_explained():
    class NoCtx(Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(TypeError, match="NoCtx|ctx"):
        NoCtx.apply(leaf(1.0))


@beyond
def test_error_of_a_subclass_shows_the_line_of_the_forward_it_uses():
    class Bad(FourthPower):
        @staticmethod
        def backward(ctx, g):
            return g, g

    with pytest.raises(RuntimeError, match="incorrect number of gradients") as info:
        Bad.apply(leaf(1.0)).backward()
    assert "Bad" in str(info.value) and f"{HERE}:" in str(info.value)
