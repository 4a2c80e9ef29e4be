# SPDX-License-Identifier: BSD-3-Clause
"""Custom Functions inside vmap: user's rules, generated rules, the loop over the samples."""

import warnings

import pytest
from vmap_checks import X, grid, looped

import cograd as torch
from cograd.autograd import Function, grad
from cograd.func import vmap

# --- Functions ---------------------------------------------------------------------------------


class Product(Function):
    seen = []

    @staticmethod
    def forward(a, b):
        return a * b

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g * b, g * a

    @staticmethod
    def vmap(info, in_dims, a, b):
        Product.seen.append((info.batch_size, info.randomness, in_dims))
        a = a if in_dims[0] is None else a.movedim(in_dims[0], -1)
        b = b if in_dims[1] is None else b.movedim(in_dims[1], -1)
        if in_dims[0] is None:
            a = a[..., None]
        if in_dims[1] is None:
            b = b[..., None]
        return Product.apply(a, b), -1


@pytest.mark.parametrize("dims", [(0, 0), (0, None), (None, 0), (1, 0)])
def test_the_vmap_rule_of_a_function(dims):
    Product.seen.clear()
    args = [X.movedim(0, d) if d is not None else X[0] for d in dims]
    got = vmap(Product.apply, dims, randomness="same")(*args)
    assert Product.seen == [(2, "same", dims)]
    assert torch.equal(got, looped(torch.mul, *args, dims=dims))


def test_the_rule_is_not_asked_where_nothing_has_samples():
    Product.seen.clear()
    assert torch.equal(vmap(lambda a: Product.apply(X[0], X[1]))(X)[0], X[0] * X[1])
    assert Product.seen == []


def test_derivatives_through_a_vmap_rule():
    t = X.clone().requires_grad_()
    (first,) = grad(vmap(lambda a: Product.apply(a, a).sum())(t).sum(), t, create_graph=True)
    assert torch.equal(first.detach(), 2 * X)
    assert torch.equal(grad(first.sum(), t)[0], torch.full_like(X, 2))

    def inside(a):
        b = a.detach().clone().requires_grad_()
        return grad(Product.apply(b, b).sum(), b)[0]

    assert torch.equal(vmap(inside)(X), 2 * X)
    rows = grad(Product.apply(t, t)[0], t, torch.eye(3, dtype=torch.float64), is_grads_batched=True)
    assert rows[0].shape == (3, 2, 3)


def ruled(vmap_rule, **members):
    """Returns a Function with a vmap rule."""
    names = {
        "forward": staticmethod(lambda a: a * 2),
        "setup_context": staticmethod(lambda ctx, inputs, output: None),
        "backward": staticmethod(lambda ctx, g: g * 2),
        "vmap": staticmethod(vmap_rule),
    }
    return type("Ruled", (Function,), {**names, **members})


@pytest.mark.parametrize(
    "rule,text",
    [
        (lambda info, d, a: a, "must return .output, out_dims."),
        (lambda info, d, a: None, "must return .output, out_dims."),
        (lambda info, d, a: (a, 0, 0), "must return .output, out_dims."),
        (lambda info, d, a: [a, 0], "must return .output, out_dims."),
        (lambda info, d, a: ((a, a), (0,)), "2 outputs and 1 out_dims"),
        (lambda info, d, a: (a, "x"), "out_dim of type str, expected int or None"),
    ],
)
def test_what_rules_must_return(rule, text):
    with pytest.raises((RuntimeError, TypeError), match=text):
        vmap(ruled(rule).apply)(X)
    assert torch._C._vmap_depth() == 0


def test_rules_return_samples_anywhere_or_none():
    assert torch.equal(vmap(ruled(lambda i, d, a: ((a * 2).t(), 1)).apply)(X), X * 2)
    assert torch.equal(vmap(ruled(lambda i, d, a: ((a * 2).t(), -1)).apply)(X), X * 2)
    assert torch.equal(vmap(ruled(lambda i, d, a: (a[0], None)).apply)(X), X[0].expand(2, 3))
    both = vmap(lambda a: ruled(lambda i, d, a: ((a, 3), (0, None))).apply(a)[0])(X)
    assert torch.equal(both, X)
    with pytest.raises((RuntimeError, ValueError), match="expected 2 samples there"):
        vmap(ruled(lambda i, d, a: (a[:1], 0)).apply)(X)
    with pytest.raises((IndexError, RuntimeError), match="out_dim 5 for output 0"):
        vmap(ruled(lambda i, d, a: (a, 5)).apply)(X)


def test_a_rule_and_generate_vmap_rule_exclude_each_other():
    with pytest.raises(RuntimeError, match="both generate_vmap_rule=True and an overridden vmap"):
        vmap(ruled(lambda i, d, a: (a, 0), generate_vmap_rule=True).apply)(X)


def test_exceptions_of_a_rule_come_through():
    def rule(info, in_dims, a):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        vmap(ruled(rule).apply)(X)
    assert torch._C._vmap_depth() == 0


def test_a_function_without_a_rule_warns_once():
    class Plain(Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return torch.from_numpy(a.detach().numpy() ** 2)

        @staticmethod
        def backward(ctx, g):
            return 2 * g * ctx.saved_tensors[0]

    t = X.clone().requires_grad_()
    with pytest.warns(UserWarning, match="Plain has no vmap rule and runs sample by sample"):
        out = vmap(Plain.apply)(t)
    assert torch.equal(out.detach(), X * X)
    assert torch.equal(grad(out.sum(), t)[0], 2 * X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(vmap(vmap(lambda a: Plain.apply(a[None])[0]))(X), X * X)

        def inside(a):
            b = a.detach().clone().requires_grad_()
            return grad(Plain.apply(b).sum(), b)[0]

        assert torch.equal(vmap(inside)(X), 2 * X)
        rows = grad(Plain.apply(t[0]), t, torch.eye(3).double(), is_grads_batched=True)[0]
    assert torch.equal(rows[:, 0], torch.diag(2 * X[0]))


class Old(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(ctx, a, n):
        ctx.save_for_backward(a)
        ctx.n = n
        return a**n

    @staticmethod
    def backward(ctx, g):
        (a,) = ctx.saved_tensors
        return ctx.n * a ** (ctx.n - 1) * g, None


class New(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(a, n):
        return a**n

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.n = inputs[1]

    backward = Old.backward


@pytest.mark.parametrize("cls", [Old, New])
def test_both_styles_with_a_generated_rule(cls):
    t = X.clone().requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = vmap(lambda a: cls.apply(a, 3))(t)
        (first,) = grad(out.sum(), t, create_graph=True)
        (second,) = grad(first.sum(), t)
    assert torch.equal(out.detach(), X**3)
    assert torch.equal(first.detach(), 3 * X**2)
    assert torch.equal(second, 6 * X)


class Several(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(a, b):
        values, order = a.sort()
        return values * 2, 7, b.sum(), None, order

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_non_differentiable(output[4])
        ctx.save_for_backward(output[4])
        ctx.shape = inputs[1].shape
        ctx.needed = ctx.needs_input_grad

    @staticmethod
    def backward(ctx, g, *rest):
        (order,) = ctx.saved_tensors
        assert ctx.needed == (True, False)
        return torch.zeros_like(g).scatter(0, order, 2 * g), None


@pytest.mark.filterwarnings("ignore:vmap. scatter")
def test_several_outputs_and_outputs_that_are_no_tensors():
    w = grid(3)

    def f(a):
        values, seven, total, nothing, order = Several.apply(-a, w)
        assert seven == 7
        assert nothing is None
        assert not order.requires_grad
        return (values * w).sum() + total

    t, u = X.clone().requires_grad_(), X.clone().requires_grad_()
    got, want = vmap(f)(t), looped(f, u)
    assert torch.equal(got, want)
    assert torch.equal(grad(got.sum(), t)[0], grad(want.sum(), u)[0])


def test_outputs_that_differ_and_are_no_tensors_raise():
    class Sum(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(ctx, a):
            return a, a.sum().item()

    with pytest.raises(RuntimeError, match="calling .item"):
        vmap(Sum.apply)(X)


class Doubled(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(ctx, a):
        ctx.mark_dirty(a)
        return a.mul_(2)

    @staticmethod
    def backward(ctx, g):
        return g * 2


def test_functions_that_write_their_input():
    def f(a):
        b = a.clone()
        c = Doubled.apply(b)
        return c + b

    t = X.clone().requires_grad_()
    out = vmap(f)(t)
    assert torch.equal(out.detach(), 4 * X)
    assert torch.equal(grad(out.sum(), t)[0], torch.full_like(X, 4))


@pytest.mark.parametrize(
    "forward,backward",
    [
        (lambda a: a, lambda ctx, g: g),
        (lambda a: a[1:], lambda ctx, g: torch.cat([g.new_zeros(1), g])),
    ],
)
def test_functions_that_return_their_input_or_a_view(forward, backward):
    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    cls = ruled(None, **members, generate_vmap_rule=True)
    del cls.vmap
    t = X.clone().requires_grad_()
    out = vmap(cls.apply)(t)
    assert torch.equal(out.detach(), torch.stack([forward(r) for r in X]))
    assert torch.equal(grad(out.sum(), t)[0][:, 1:], torch.ones(2, 2))


class Pair:
    """Batches its tensors itself, by the methods that torch's vmap would call of a TensorDict."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    shape = property(lambda self: self.x.shape[:1])

    def dim(self):
        return 1

    def __getitem__(self, index):
        return Pair(self.x[index], self.y[index])

    def _add_batch_dim(self, *, in_dim, vmap_level):
        add = torch._C._add_samples
        return Pair(add(self.x, in_dim, vmap_level), add(self.y, in_dim, vmap_level))

    def _maybe_remove_batch_dim(self, name, vmap_level, batch_size, out_dim):
        assert name == "<lambda>"
        take = lambda t: torch._C._take_samples(t, out_dim, vmap_level, batch_size)
        return Pair(take(self.x), take(self.y))


def test_containers_that_batch_their_tensors():
    pair = Pair(torch.arange(6.0).reshape(3, 2), torch.ones(3))
    for dim in (0, -1):
        for chunk in (None, 2):
            dots = vmap(lambda p, k: p.x.sum() * p.y + k, (dim, None), chunk_size=chunk)
            assert dots(pair, 1.0).tolist() == [2, 6, 10]
    made = vmap(lambda x: Pair(x * 2, x.sum()))(pair.x)
    assert made.x.tolist() == (pair.x * 2).tolist() and made.y.tolist() == [1, 5, 9]
    rows = vmap(vmap(lambda a, b: a * b, (None, 0)), (0, None))(pair.y, pair.y)
    assert rows.shape == (3, 3)
    with pytest.raises(ValueError, match="dimensionality 1 so expected in_dim"):
        vmap(lambda p: p.y, in_dims=1)(pair)
    with pytest.raises(ValueError, match="must only return Tensors, got type <class 'object'>"):
        vmap(lambda p: object())(pair)
