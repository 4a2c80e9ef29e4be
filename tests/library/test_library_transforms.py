# SPDX-License-Identifier: BSD-3-Clause
"""Forward mode and vmap through ops registered from Python."""

import warnings
from collections.abc import Sequence

import numpy as np
import pytest

import cograd as torch
from cograd import Tensor, library
from cograd.autograd import forward_ad as fwd
from cograd.autograd import gradcheck
from cograd.func import grad, hessian, jvp, vmap
from cograd.library import custom_op

F8 = torch.float64
X = torch.tensor([[0.5, -1.0], [2.0, 0.25], [1.5, 3.0]], dtype=F8)
T = torch.tensor([[1.0, 2.0], [-1.0, 0.5], [3.0, 1.0]], dtype=F8)


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(runs sample by sample|run one by one)")
        yield


def same(a, b):
    torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def numpy_sin(x):
    return torch.from_numpy(np.array(np.sin(x.detach().numpy())))


def save_x(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])


def backward(ctx, g):
    (x,) = ctx.saved_tensors
    return g * x.cos()


def make(name, gradient=False, tangent=False, batching=False):
    @custom_op(f"t_rules::{name}", mutates_args=())
    def sin(x: Tensor) -> Tensor:
        return numpy_sin(x)

    if gradient:
        sin.register_autograd(backward, setup_context=save_x)
    if tangent:

        def keep(ctx, inputs, output):
            ctx.save_for_forward(inputs[0])

        @sin.register_jvp(setup_context=keep)
        def _(ctx, t):
            (x,) = ctx.saved_tensors
            return x.cos() * t

    if batching:

        @library.register_vmap(f"t_rules::{name}")
        def _(info, in_dims, x):
            assert info.batch_size == x.shape[in_dims[0]]
            assert info.randomness == "error"
            return sin(x), in_dims[0]

    return sin


ALL = [dict(gradient=True, tangent=t, batching=b) for t in (False, True) for b in (False, True)]


@pytest.mark.parametrize("rules", ALL, ids=str)
def test_rules_agree_with_the_default(rules):
    sin = make("agree", **rules)
    same(jvp(sin, (X,), (T,)), (X.sin(), X.cos() * T))
    same(vmap(sin)(X), X.sin())
    same(vmap(sin, in_dims=1, out_dims=-1)(X), X.sin())
    same(vmap(vmap(sin))(X), X.sin())
    same(vmap(grad(lambda x: sin(x).sum()))(X), X.cos())
    same(grad(lambda x: vmap(sin)(x).sum())(X), X.cos())
    same(jvp(vmap(sin), (X,), (T,))[1], X.cos() * T)
    same(vmap(lambda x, t: jvp(sin, (x,), (t,))[1])(X, T), X.cos() * T)
    same(hessian(lambda x: sin(x).sum())(X[0]), torch.diag(-X[0].sin()))
    assert gradcheck(sin, X.clone().requires_grad_(), check_forward_ad=True)
    with torch.no_grad():
        same(jvp(sin, (X,), (T,))[1], X.cos() * T)
        same(vmap(sin)(X), X.sin())


def test_without_any_rule():
    sin = make("bare")
    with fwd.dual_level(), pytest.raises(NotImplementedError) as caught:
        sin(fwd.make_dual(X, T))
    text = str(caught.value)
    assert "op 't_rules::bare' has neither a jvp nor a backward to derive it from" in text
    assert 'register_jvp("t_rules::bare")\n    def jvp(ctx, *input_tangents):' in text
    with pytest.warns(UserWarning, match="vmap: op 't_rules::bare' has no vmap rule") as seen:
        same(vmap(vmap(sin))(X), X.sin())
    assert len(seen) == 1
    assert '@cograd.library.register_vmap("t_rules::bare")' in str(seen[0].message)
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        vmap(sin)(X.clone().requires_grad_()).sum().backward()


def test_a_tangent_alone_and_results_that_need_none():
    sin = make("tangent", tangent=True)
    same(jvp(sin, (X,), (T,))[1], X.cos() * T)

    @custom_op("t_rules::largest", mutates_args=())
    def largest(x: Tensor) -> Tensor:
        return torch.from_numpy(np.array(np.argmax(x.detach().numpy())))

    with fwd.dual_level():
        assert largest(fwd.make_dual(X, T)).item() == 5
    assert vmap(largest)(X).tolist() == [0, 0, 1]


@pytest.mark.parametrize("batching", [False, True])
def test_lists_options_and_keywords(batching):
    @custom_op("t_rules::blend", mutates_args=())
    def blend(xs: Sequence[Tensor], y: Tensor | None, *, scale: float = 2.0) -> list[Tensor]:
        total = sum(x.detach().numpy() for x in xs)
        other = 1.0 if y is None else y.detach().numpy()
        return [torch.from_numpy(np.array(scale * total * other)), xs[0].detach() * scale]

    def setup(ctx, inputs, keywords, output):
        xs, ctx.y = inputs
        ctx.scale, ctx.n = keywords["scale"], len(xs)
        ctx.save_for_backward(*xs)

    def backward(ctx, grads):
        a, b = grads
        xs, y = ctx.saved_tensors, ctx.y
        part = ctx.scale * a * (1.0 if y is None else y)
        first = [part + ctx.scale * b] + [part] * (ctx.n - 1)
        return first, None if y is None else ctx.scale * a * sum(xs)

    blend.register_autograd(backward, setup_context=setup)
    if batching:

        @blend.register_vmap
        def _(info, in_dims, xs, y, *, scale):
            first = [
                (x if d is None else x.movedim(d, 0)) for x, d in zip(xs, in_dims[0], strict=True)
            ]
            first = [x.expand(info.batch_size, 2) for x in first]
            if y is not None:
                y = y.expand(info.batch_size, 2) if in_dims[1] is None else y.movedim(in_dims[1], 0)
            return blend(first, y, scale=scale), [0, 0]

    def f(a, b, y=None):
        p, q = blend([a, b], y, scale=3.0)
        return p * q

    def g(a, b, y=None):
        return 3.0 * (a + b) * (1.0 if y is None else y) * a * 3.0

    for args, dims in [
        ((X, T), (0, 0)),
        ((X, T[0]), (0, None)),
        ((X, T.t(), X), (0, 1, 0)),
        ((X[0], T, X[1]), (None, 0, None)),
    ]:
        same(vmap(f, dims)(*args), vmap(g, dims)(*args))
        count = tuple(range(len(args)))
        for transform in (grad, hessian):
            one = transform(lambda *a: vmap(f, dims)(*a).sum(), count)(*args)
            same(one, transform(lambda *a: vmap(g, dims)(*a).sum(), count)(*args))
        same(jvp(vmap(f, dims), args, args), jvp(vmap(g, dims), args, args))
    same(jvp(f, (X, T, T), (T, X, X)), jvp(g, (X, T, T), (T, X, X)))


@pytest.mark.parametrize("batching", [False, True])
def test_ops_that_write(batching):
    @custom_op("t_rules::add_to", mutates_args={"x"})
    def add_to(x: Tensor, y: Tensor, k: float = 1.0) -> None:
        x.numpy()[...] += k * y.numpy()

    if batching:

        @add_to.register_vmap
        def _(info, in_dims, x, y, k):
            y = y if in_dims[1] is None else y.movedim(in_dims[1], in_dims[0])
            add_to(x, y, k)
            return None, None

    x = X.clone()
    vmap(lambda x, y: (add_to(x, y, 2.0), x)[1])(x, T)
    same(x, X + 2 * T)
    with pytest.raises(RuntimeError, match="register_jvp: .* writes its arguments"):
        add_to.register_jvp(lambda ctx, x, y, k: None)


def test_a_rule_that_computes_on_its_own_is_left_where_a_derivative_is_asked_for():
    sin = make("alone", gradient=True)
    calls = []

    @sin.register_vmap
    def _(info, in_dims, x):
        calls.append(1)
        return numpy_sin(x), in_dims[0]

    same(vmap(sin)(X), X.sin())
    assert len(calls) == 1
    with pytest.warns(
        UserWarning, match="the vmap rule of op 't_rules::alone' computes without recording"
    ):
        same(vmap(grad(lambda x: sin(x).sum()))(X), X.cos())
    same(grad(lambda x: vmap(sin)(x).sum())(X), X.cos())
    same(jvp(vmap(sin), (X,), (T,))[1], X.cos() * T)


def test_a_composite_op_uses_its_rule():
    lib = library.Library("t_rules_lib", "FRAGMENT")
    lib.define("double(Tensor x) -> Tensor")
    lib.impl("double", lambda x: x * 2, "CompositeImplicitAutograd")
    same(vmap(torch.ops.t_rules_lib.double)(X), 2 * X)
    same(vmap(grad(lambda x: torch.ops.t_rules_lib.double(x).sum()))(X), 0 * X + 2)
    calls = []

    @library.register_vmap("t_rules_lib::double")
    def _(info, in_dims, x):
        calls.append(in_dims)
        return x * 2, in_dims[0]

    same(vmap(torch.ops.t_rules_lib.double, in_dims=1, out_dims=1)(X), 2 * X)
    assert calls == [(1,)]


def test_wrong_rules_name_the_op():
    sin = make("wrong", gradient=True)
    sin.register_vmap(lambda info, in_dims, x: x)
    with pytest.raises(RuntimeError, match=r"op 't_rules::wrong': the vmap rule must return \(out"):
        vmap(sin)(X)
    sin.register_jvp(lambda ctx, t: (t, t))
    with pytest.raises(
        RuntimeError, match="op 't_rules::wrong'.jvp returned 2 tangents, expected 1"
    ):
        jvp(sin, (X,), (T,))
