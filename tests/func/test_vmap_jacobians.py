# SPDX-License-Identifier: BSD-3-Clause
"""Jacobians and Hessians at once: batched tangents and gradients of unbatched primals."""

import warnings

import pytest

import cograd as torch
import cograd.nn.functional as F
from cograd.autograd import forward_ad, functional, grad
from cograd.autograd.forward_ad import make_dual, unpack_dual
from cograd.func import grad as func_grad
from cograd.func import hessian, jacfwd, jacrev, vmap

pytestmark = pytest.mark.filterwarnings("ignore:vmap")

F8 = torch.float64
X = torch.tensor([0.3, -0.7, 1.1], dtype=F8)
EYE = torch.eye(3, dtype=F8)


def into_a_part(x):
    b = torch.zeros(4, dtype=F8)
    b[0] = x[1] * x[2]
    b[1:3].add_(x[:2])
    return b


def over_what_had_a_tangent(x):
    b = x * 2
    b[0] = 3.0
    b[1:].mul_(x[1:])
    return b


FUNCTIONS = {
    "elementwise": lambda x: x.sin() * x,
    "reduction": lambda x: (x * x).sum(),
    "product": lambda x: (x.outer(x) + EYE) @ x,
    "decomposition": lambda x: torch.linalg.det(x.outer(x) + EYE),
    "quantile": lambda x: torch.quantile(x, 0.3),
    "as_strided": lambda x: x.as_strided((2, 2), (1, 1), 0) ** 2,
    "as_strided of a result": lambda x: (x * x).as_strided((2, 2), (1, 1)),
    "into a part": into_a_part,
    "over what had a tangent": over_what_had_a_tangent,
    "copy_": lambda x: torch.zeros(3, dtype=F8).copy_(x * x),
    "copy_ broadcast": lambda x: torch.zeros(2, 3, dtype=F8).copy_(x * x),
    "add_ to what has none": lambda x: torch.ones(3, dtype=F8).add_(x * x),
    "sort": lambda x: x.sort()[0] ** 2,
    "mask": lambda x: x[x > 0] ** 2,
    "branch on a value": lambda x: x * x if x.sum() > 0 else x * 3,
    "item": lambda x: x * x[0].item() * x,
    "nothing": lambda x: x[:0],
    "not differentiable": lambda x: x.floor(),
    "constant": lambda x: torch.ones(2, dtype=F8),
}


def one_by_one(f, x):
    """Returns the Jacobian by a difference for each element in turn."""
    h = 1e-6
    columns = []
    for i in range(x.numel()):
        step = torch.zeros(x.numel(), dtype=F8)
        step[i] = h
        step = step.view(x.shape)
        columns.append((f(x + step) - f(x - step)) / (2 * h))
    return torch.stack(columns, -1).reshape((*columns[0].shape, *x.shape))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("chunk_size", [None, 1, 2])
def test_jacobians_are_the_differences(name, chunk_size):
    f = FUNCTIONS[name]
    if name == "item":
        want = torch.diag(2 * X * X[0])  # the result of item() is a constant
    else:
        want = one_by_one(f, X)
    for transform in (jacfwd, jacrev):
        got = transform(f, chunk_size=chunk_size)(X)
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n != "item"])
def test_hessians_are_differences_of_gradients(name):
    def f(x):
        return (FUNCTIONS[name](x) ** 2).sum() + 0 * x.sum()

    want = one_by_one(func_grad(f), X)
    torch.testing.assert_close(hessian(f)(X), want, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(jacrev(jacfwd(f))(X), want, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(jacfwd(jacfwd(f))(X), want, rtol=1e-6, atol=1e-7)


def count_calls(f):
    def counted(*args):
        counted.calls += 1
        return f(*args)

    counted.calls = 0
    return counted


def test_all_directions_take_one_evaluation():
    f = count_calls(lambda x: x.sin() * x)
    jacfwd(f)(X)
    assert f.calls == 1
    f.calls = 0
    jacfwd(f, chunk_size=2)(X)
    assert f.calls == 2
    f.calls = 0
    hessian(lambda x: f(x).sum())(X)
    assert f.calls == 1
    f.calls = 0
    functional.jacobian(f, X, vectorize=True, strategy="forward-mode")
    assert f.calls == 1


def test_a_function_that_reads_values_runs_for_each_direction():
    f = count_calls(lambda x: x * x if func_grad(lambda y: (y * y).sum())(x)[2].item() > 0 else x)
    torch.testing.assert_close(jacfwd(f)(X), torch.diag(2 * X))
    assert f.calls in (1, 4)


def test_an_error_of_the_function_is_raised_as_it_is():
    f = count_calls(lambda x: x @ torch.ones(2, dtype=F8))
    with pytest.raises(RuntimeError, match="(?i)size|shape"):
        jacfwd(f)(X)
    assert f.calls == 1


@pytest.mark.parametrize("transform", [jacfwd, jacrev])
def test_sizes_of_chunks_are_positive(transform):
    with pytest.raises(ValueError, match=f"{transform.__name__}: `chunk_size` should be greater"):
        transform(torch.sin, chunk_size=0)


def test_aux_of_a_jacobian_is_a_plain_tensor():
    jacobian, aux = jacfwd(lambda x: (x * x, {"y": x.sin(), "n": 3}), has_aux=True)(X)
    torch.testing.assert_close(jacobian, torch.diag(2 * X))
    torch.testing.assert_close(aux["y"], X.sin())
    assert aux["n"] == 3
    _, gradient = jacfwd(lambda x: (x, func_grad(lambda y: (y * y).sum())(x)), has_aux=True)(X)
    torch.testing.assert_close(gradient * 1, 2 * X)


def test_random_functions_need_to_be_allowed():
    def f(x):
        return F.dropout(x, 0.5) * x

    with pytest.raises(RuntimeError, match="called random operation"):
        jacfwd(f)(X)
    torch.manual_seed(0)
    want = F.dropout(X, 0.5) * 2
    torch.manual_seed(0)
    torch.testing.assert_close(jacfwd(f, randomness="same")(X).diag(), want)


def test_a_dropped_out_tensor_of_a_former_vmap_is_named():
    kept = []
    vmap(lambda a: kept.append(a * 2) or a)(EYE)
    with pytest.raises(RuntimeError, match="inside of a vmap that has ended"):
        vmap(lambda a: F.dropout(kept[0]), randomness="different")(EYE)


def test_a_shared_tangent_does_not_get_samples_behind_its_views():
    """A view that was dual before has its own tangent, which must not become stale."""

    def f(t):
        with forward_ad.dual_level():
            base = make_dual(torch.ones(3, dtype=F8), torch.ones(3, dtype=F8)).clone()
            part = base[:2]
            base[0] = make_dual(X[0], t)
            return unpack_dual(part).tangent

    try:
        got = vmap(f)(X)
    except RuntimeError as e:
        assert "clone" in str(e)
    else:
        torch.testing.assert_close(got, torch.stack([X, torch.ones(3, dtype=F8)], 1))


# ---- as_strided ------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [0, 1])
def test_as_strided_of_samples_is_that_of_each(dim):
    x = torch.randn(4, 5, dtype=F8)

    def f(a):
        return a.as_strided((2, 2), (2 * a.stride(0), a.stride(0)), a.storage_offset())

    want = torch.stack([f(a) for a in x.unbind(dim)])
    assert torch.equal(vmap(f, dim)(x), want)


def test_gradient_of_as_strided_between_the_elements_of_a_sample_raises():
    x = torch.arange(12.0).reshape(4, 3)

    def f(x):
        return vmap(lambda s: s.as_strided((2,), (1,)).sum(), in_dims=1)(x).sum()

    with pytest.raises(RuntimeError, match="reaches elements of other samples"):
        func_grad(f)(x)


def test_as_strided_does_not_leave_the_sample():
    x = torch.randn(3, 4, dtype=F8)
    for f in (
        lambda a: a.as_strided((5,), (1,)),
        lambda a: a.as_strided((2,), (1,), 3),
        lambda a: a[1:].as_strided((2,), (1,), 0),
    ):
        with pytest.raises(RuntimeError, match="exceeds the memory of a sample"):
            vmap(f)(x)


def test_gradients_of_as_strided_where_samples_share_memory():
    w = torch.randn(4, dtype=F8)

    def f(a, w):
        return (w.as_strided((2, 2), (1, 1), 0) * a).sum()

    a = torch.randn(3, dtype=F8)
    got = vmap(func_grad(f, argnums=1), (0, None))(a, w)
    torch.testing.assert_close(got, torch.stack([func_grad(f, argnums=1)(b, w) for b in a]))


def test_second_derivatives_of_as_strided_with_gradients_of_any_layout():
    """A gradient whose batch has another memory order is rearranged for the region."""
    x = torch.randn(3, 2, 4, dtype=F8)

    def f(a, g):
        return (a.as_strided((3, 2), (1, 2)) ** 3 * g).sum()

    g = torch.randn(3, 3, 2, dtype=F8)
    v = torch.randn(3, 4, 2, dtype=F8)

    def program(a, g, v):
        return func_grad(lambda a: (func_grad(f)(a, g) * v.t()).sum())(a)

    want = torch.stack([program(*s) for s in zip(x, g, v, strict=True)])
    for _ in range(5):
        torch.testing.assert_close(vmap(program)(x, g, v), want)
    folded = g.permute(1, 2, 0).contiguous()
    torch.testing.assert_close(vmap(program, (0, 2, 0))(x, folded, v), want)


# ---- batched gradients -----------------------------------------------------------------------


def test_batched_gradients_take_one_backward():
    x = X.clone().requires_grad_()
    seen = []
    y = x.sin()
    y.register_hook(lambda g: seen.append(tuple(g.shape)))
    (rows,) = grad(y * x, x, EYE, is_grads_batched=True)
    torch.testing.assert_close(rows, torch.diag((X.sin() + X * X.cos()).detach()))
    assert seen == [(3,)]


def test_batched_gradients_of_a_batched_backward():
    def f(a):
        x = a.clone().requires_grad_()
        return grad(x**3, x, EYE, is_grads_batched=True)[0]

    xs = torch.randn(4, 3, dtype=F8)
    torch.testing.assert_close(vmap(f)(xs), torch.stack([torch.diag(3 * x * x) for x in xs]))


def test_batched_gradients_through_functions_and_formulas_that_read_values():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return torch.from_numpy(3 * x.detach().numpy() ** 2 * g.detach().numpy())

    x = X.clone().requires_grad_()
    rows = grad(Cube.apply(x), x, EYE, is_grads_batched=True)[0]
    torch.testing.assert_close(rows, torch.diag(3 * X * X))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = grad(x.prod().expand(2), x, torch.eye(2, dtype=F8), is_grads_batched=True)[0]
    torch.testing.assert_close(rows, (X.prod() / X).expand(2, 3))


# ---- modes -----------------------------------------------------------------------------------


def test_requires_grad_of_a_sample_is_that_of_the_tensor():
    seen = []

    def f(a, w):
        b = a * 1
        view = b[:2]
        seen.append((b.requires_grad, view.requires_grad))
        view.mul_(w)
        seen.append((b.requires_grad, view.requires_grad))
        return b.sum()

    w = torch.ones(2, dtype=F8, requires_grad=True)
    out = vmap(f, (0, None))(EYE, w)
    assert seen == [(False, False), (True, True)]
    assert out.requires_grad


def test_tangents_are_not_recorded_under_no_grad():
    t = torch.ones(3, dtype=F8, requires_grad=True)
    with forward_ad.dual_level():
        x = make_dual(X, t)
        with torch.no_grad():
            for y in (x.softmax(0), x.exp(), x.sin(), x.cumsum(0), x * x):
                assert not unpack_dual(y).tangent.requires_grad
        assert unpack_dual(x.softmax(0)).tangent.requires_grad


# ---- out= ------------------------------------------------------------------------------------


def test_out_is_for_tensors_without_an_open_tangent():
    with forward_ad.dual_level():
        was = make_dual(X, X)
        kept = was * 1
        for f in (
            lambda: torch.sin(was, out=torch.empty(3, dtype=F8)),
            lambda: torch.sin(X, out=kept),
            lambda: torch.sort(was, out=(torch.empty(3, dtype=F8), torch.empty(3).long())),
            lambda: torch.sort(X, out=(kept, torch.empty(3).long())),
        ):
            with pytest.raises(NotImplementedError, match="forward AD with (sin|sort)_out"):
                f()
    with forward_ad.dual_level():  # another level: these are plain tensors by now
        assert torch.equal(torch.sin(was, out=torch.empty(3, dtype=F8)), X.sin())
        assert torch.equal(torch.sin(X, out=kept), X.sin())
        assert torch.equal(torch.sort(was, out=(kept, torch.empty(3).long()))[0], X.sort()[0])

    def inside(a):
        assert torch.equal(torch.sin(kept, out=torch.empty(3, dtype=F8)), kept.sin())
        return a

    vmap(inside)(EYE)
    for f in (
        lambda a: torch.sin(a, out=torch.empty(3, dtype=F8)),
        lambda a: torch.sin(X, out=a),
        lambda a: torch.sort(a, out=(torch.empty(3, dtype=F8), torch.empty(3).long())),
        lambda a: torch.sort(X, out=(a, torch.empty(3).long())),
    ):
        with pytest.raises(NotImplementedError, match="with out= is not possible inside of a vmap"):
            vmap(f)(EYE)


# ---- Functions -------------------------------------------------------------------------------


def test_a_function_that_closes_over_a_sample_is_told_what_to_do():
    def f(a):
        class Scaled(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * a

            @staticmethod
            def backward(ctx, g):
                return g * a

        return Scaled.apply(X), Scaled

    assert torch.equal(vmap(lambda a: f(a)[0])(EYE), X * EYE)
    with pytest.raises(RuntimeError, match="must be among its arguments|as an argument"):
        vmap(lambda a: f(a)[1].apply(a * 2))(EYE)
