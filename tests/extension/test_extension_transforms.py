# SPDX-License-Identifier: BSD-3-Clause
"""Forward mode and vmap through C++ Functions and ops (tests/extensions/transforms.cpp)."""

import itertools
import shutil
import warnings
from pathlib import Path

import pytest

import cograd as torch
from cograd.autograd import forward_ad as fwd
from cograd.autograd import gradcheck
from cograd.func import grad, hessian, jacfwd, jacrev, jvp, vmap
from cograd.utils import cpp_extension

pytestmark = pytest.mark.skipif(
    not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="there is no C++ compiler"
)
SOURCES = Path(__file__).parents[1] / "extensions"
F8 = torch.float64
X = torch.tensor([[0.5, -1.0], [2.0, 0.25], [1.5, 3.0]], dtype=F8)
T = torch.tensor([[1.0, 2.0], [-1.0, 0.5], [3.0, 1.0]], dtype=F8)
CUBES = ["plain", "with_rules", "generated"]
ALL_CUBES = CUBES + [name + "_op" for name in CUBES]


@pytest.fixture(scope="module")
def ops():
    cpp_extension.load("t_transforms", SOURCES / "transforms.cpp", is_python_module=False)
    return torch.ops.t_transforms


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(runs sample by sample|run one by one)")
        yield


def same(a, b):
    torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ALL_CUBES)
def test_tangents(ops, name):
    op = getattr(ops, name)
    value, tangent = jvp(lambda x: op(x, 2.0), (X,), (T,))
    same(value, 2 * X**3)
    same(tangent, 6 * X**2 * T)
    assert gradcheck(lambda x: op(x, 1.5), X.clone().requires_grad_(), check_forward_ad=True)
    same(jacfwd(lambda x: op(x, 2.0))(X[0]), jacrev(lambda x: op(x, 2.0))(X[0]))
    same(hessian(lambda x: op(x, 2.0).sum())(X[0]), torch.diag(12 * X[0]))


def test_the_rules_are_called(ops):
    ops.rule_calls()
    jvp(lambda x: ops.with_rules(x, 2.0), (X,), (T,))
    assert ops.rule_calls() == 1
    vmap(lambda x: ops.with_rules(x, 2.0))(X)
    assert ops.rule_calls() == 1
    vmap(lambda x: ops.with_rules_op(x))(X)
    assert ops.rule_calls() == 1
    vmap(lambda x: ops.plain(x, 2.0))(X)
    assert ops.rule_calls() == 0


@pytest.mark.parametrize("name", ALL_CUBES)
@pytest.mark.parametrize("in_dim,out_dim", [(0, 0), (1, 0), (-1, 1), (0, -1)])
def test_samples(ops, name, in_dim, out_dim):
    op = getattr(ops, name)
    y = vmap(lambda x: op(x, 2.0), in_dims=in_dim, out_dims=out_dim)(X)
    same(y, torch.movedim(2 * X**3, in_dim, out_dim))
    f = vmap(grad(lambda x: op(x, 2.0).sum()), in_dims=in_dim, out_dims=out_dim)
    same(f(X), torch.movedim(6 * X**2, in_dim, out_dim))


@pytest.mark.parametrize("name", ALL_CUBES)
def test_transforms_compose(ops, name):
    op = getattr(ops, name)

    def f(x):
        return op(x, 2.0)

    x = X.clone().requires_grad_()
    vmap(f)(x).sum().backward()
    same(x.grad, 6 * X**2)
    same(grad(lambda x: vmap(f)(x).sum())(X), 6 * X**2)
    same(jvp(vmap(f), (X,), (T,))[1], 6 * X**2 * T)
    same(vmap(lambda x, t: jvp(f, (x,), (t,))[1])(X, T), 6 * X**2 * T)
    same(
        vmap(lambda t: jvp(f, (X,), (t,))[1])(torch.stack([T, 2 * T])),
        6 * X**2 * torch.stack([T, 2 * T]),
    )
    same(vmap(vmap(f))(X), 2 * X**3)
    same(vmap(vmap(grad(f)))(X), 6 * X**2)
    same(vmap(vmap(grad(grad(f))))(X), 12 * X)
    same(vmap(hessian(lambda x: f(x).sum()))(X), torch.stack([torch.diag(12 * x) for x in X]))
    same(jvp(lambda x: grad(lambda x: vmap(f)(x).sum())(x), (X,), (T,))[1], 12 * X * T)
    assert gradcheck(vmap(f), X.clone().requires_grad_(), check_forward_ad=True)


@pytest.mark.parametrize("with_y", [False, True])
def test_lists_options_and_several_results(ops, with_y):
    def f(a, b, y=None):
        total, product = ops.mixed([a, b], y)
        return total * product

    args = (X, T, X + T) if with_y else (X, T)
    for dims in itertools.product([0, None], repeat=len(args)):
        if all(d is None for d in dims):
            continue
        given = [a if d == 0 else a[0] for a, d in zip(args, dims, strict=True)]
        samples = [
            f(*(g[i] if d == 0 else g for g, d in zip(given, dims, strict=True))) for i in range(3)
        ]
        same(vmap(f, in_dims=dims)(*given), torch.stack(samples))
    tangents = tuple(a.cos() for a in args)
    assert gradcheck(f, tuple(a.clone().requires_grad_() for a in args), check_forward_ad=True)
    same(vmap(lambda *a: jvp(f, a, tuple(x.cos() for x in a))[1])(*args), jvp(f, args, tangents)[1])


def test_tangents_through_a_backward_on_numbers(ops):
    with pytest.raises(RuntimeError) as caught:
        jvp(ops.opaque, (X,), (T,))
    text = str(caught.value)
    assert (
        "OpaqueBackward: there is no jvp, and the tangent cannot be derived from backward" in text
    )
    assert "static variable_list jvp(AutogradContext* ctx, variable_list tangents)" in text
    same(jvp(ops.opaque_with_jvp, (X,), (T,))[1], 2 * X * T)
    same(vmap(lambda x, t: jvp(ops.opaque_with_jvp, (x,), (t,))[1])(X, T), 2 * X * T)


def test_a_loop_over_elements_that_is_not_marked_raises_in_second_order(ops):
    x = X[:, 0].contiguous()
    f = lambda x: ops.unmarked(x).sum()
    same(grad(f)(x), 2 * x)
    text = r"backward of Unmarked: it reads elements, by data_ptr\(\), of a tensor that "
    for run, tail in (
        (grad(lambda x: grad(f)(x).sum()), "requires grad"),
        (grad(lambda x: (grad(lambda x: ops.unmarked(x).square().sum())(x)).sum()), "requires"),
        (jacfwd(grad(f)), "has a tangent"),
    ):
        with pytest.raises(RuntimeError, match=text + tail):
            run(x)
    same(grad(f)(x), 2 * x)


def test_a_loop_over_elements_never_loses_a_tangent(ops):
    """The backward reads elements: forward over reverse raises, all that is known is right."""
    x = X[:, 0].contiguous()
    f = lambda x: ops.loops(x).sum()
    same(grad(f)(x), 2 * x)
    same(jacfwd(f)(x), 2 * x)
    twice = 2 * torch.eye(3, dtype=F8)
    same(jacrev(jacfwd(f))(x), twice)
    same(jacfwd(jacfwd(f))(x), twice)
    for run in (jacfwd(grad(f)), lambda x: jvp(grad(f), (x,), (x,))):
        with pytest.raises(RuntimeError, match="a function that is differentiable once"):
            run(x)
    same(grad(f)(x), 2 * x)  # the refusal leaves nothing behind
    along = lambda x: ops.opaque_with_jvp(x).sum()  # the same of operations is right
    same(jacfwd(grad(along))(x), twice)


def test_wrong_rules(ops):
    with pytest.raises(RuntimeError, match="WrongCount.*: jvp returned 2 tangents, expected 1"):
        jvp(ops.wrong_count, (X,), (T,))
    with pytest.raises(RuntimeError, match="WrongCount: batch set 2 dims of samples, expected 1"):
        vmap(ops.wrong_count)(X)


def test_in_place(ops):
    x = X.clone()
    out = vmap(lambda x: ops.twice(x, X[0]))(x)
    same(x, X * X[0])
    same(out, x)

    def f(x):
        h = x * 1
        ops.twice(h, X[0])
        return h.sum()

    same(vmap(f)(X), (X * X[0]).sum(1))
    same(vmap(grad(f))(X), X[0].expand(3, 2))
    same(grad(lambda x: vmap(f)(x).sum())(X), X[0].expand(3, 2))
    with pytest.raises(RuntimeError, match="vmap: Twice wrote its tensor argument 0 in place"):
        vmap(lambda y: ops.twice(X[0].clone(), y))(X)


def test_ops_that_are_no_functions(ops):
    with pytest.warns(UserWarning, match="op 't_transforms::on_numbers' has no vmap rule") as seen:
        vmap(lambda x: vmap(ops.on_numbers)(x))(torch.stack([X, X]))
    assert len(seen) == 1
    same(vmap(lambda x: ops.on_numbers(x, 2.0))(X), 2 * X**3)
    assert 'register_vmap("t_transforms::on_numbers")' in str(seen[0].message)
    ops.rule_calls()
    same(vmap(lambda x: ops.on_numbers_with_rule(x, 2.0), in_dims=1, out_dims=1)(X), 2 * X**3)
    assert ops.rule_calls() == 1
    same(vmap(vmap(ops.on_numbers_with_rule))(X), X**3)
    for op in (ops.of_ops, ops.of_ops_by_loop):
        double, (total,) = vmap(op, in_dims=(0, None))(X, [T[0]])
        same(double, 2 * X)
        same(total, X + T[0])
        same(
            grad(lambda x, op=op: vmap(op, in_dims=(0, None))(x, [T[0]])[1][0].sum())(X), 0 * X + 1
        )
        same(jvp(lambda x, op=op: vmap(op, in_dims=(0, None))(x, [T[0]])[0], (X,), (T,))[1], 2 * T)


def test_opaque_ops_say_what_is_missing(ops):
    with fwd.dual_level(), pytest.raises(NotImplementedError) as caught:
        ops.on_numbers(fwd.make_dual(X, T))
    text = str(caught.value)
    assert "op 't_transforms::on_numbers'" in text
    assert "neither a jvp nor a backward" in text
    assert "register_jvp" in text
    assert "static variable_list jvp(AutogradContext* ctx, variable_list tangents)" in text


def test_data_of_samples_is_no_memory(ops):
    with pytest.raises(RuntimeError, match="vmap: .*data_ptr"):
        vmap(ops.on_numbers_that_lies)(X.t())


def test_numbers_must_not_differ(ops):
    vmap(lambda x: x * ops.shape(x))(X)
    with pytest.raises(RuntimeError, match="op 't_transforms::first' returned a number.*differs"):
        vmap(lambda x: x * ops.first(x))(X)


def test_gradients_with_samples_in_a_graph_that_has_none(ops):
    for name in ALL_CUBES:
        x = X.clone().requires_grad_()
        y = getattr(ops, name)(x, 2.0)
        g = vmap(lambda g, y=y, x=x: torch.autograd.grad(y, x, g)[0])(torch.stack([T, 2 * T]))
        same(g, 6 * X**2 * torch.stack([T, 2 * T]))


# ---------------------------------------------------------------------------- C


@pytest.fixture(scope="module")
def c_ops():
    cpp_extension.load("t_transforms_c", SOURCES / "transforms.c", is_python_module=False)
    return torch.ops.t_transforms_c


def test_rules_of_an_op_in_c(c_ops):
    c_ops.rule_calls()
    value, tangent = jvp(c_ops.square, (X,), (T,))
    same(value, X**2)
    same(tangent, 2 * X * T)
    assert c_ops.rule_calls() == 1
    x = X.clone().requires_grad_()
    assert gradcheck(c_ops.square, x, check_forward_ad=True)
    c_ops.rule_calls()
    same(vmap(c_ops.square)(X), X**2)
    same(vmap(c_ops.square, in_dims=1, out_dims=1)(X), X**2)
    assert c_ops.rule_calls() == 2
    same(vmap(vmap(c_ops.square))(X), X**2)
    same(jvp(vmap(c_ops.square), (X,), (T,))[1], 2 * X * T)


@pytest.mark.parametrize("name", ["square", "square_without_rules", "old_square"])
def test_an_op_in_c_without_rules_runs_sample_by_sample(c_ops, name):
    op = getattr(c_ops, name)
    same(vmap(op)(X), X**2)
    same(vmap(grad(lambda x: op(x).sum()))(X), 2 * X)
    same(grad(lambda x: vmap(op)(x).sum())(X), 2 * X)
    if name != "square":
        with pytest.raises(RuntimeError, match="there is no jvp, and the tangent cannot") as caught:
            jvp(op, (X,), (T,))
        assert "as the entry `jvp` of its cograd_op_desc" in str(caught.value)


def test_an_op_in_c_with_a_jvp_alone(c_ops):
    same(jvp(c_ops.square_by_jvp_alone, (X,), (T,))[1], 2 * X * T)
    same(vmap(lambda x, t: jvp(c_ops.square_by_jvp_alone, (x,), (t,))[1])(X, T), 2 * X * T)
    y = c_ops.square_by_jvp_alone(X.clone().requires_grad_())
    with pytest.raises(RuntimeError, match="square_by_jvp_alone' has no backward, only a jvp"):
        y.sum().backward()


@pytest.mark.parametrize("name", ["times", "times_with_rule", "old_times"])
def test_functions_in_c(c_ops, name):
    op = getattr(c_ops, name)
    c_ops.rule_calls()
    if not name.startswith("old"):  # its backward computes on plain numbers
        same(jvp(op, (X, T), (T, X))[1], X * X + T * T)
        same(vmap(lambda *a: jvp(op, a, a)[1])(X, T), 2 * X * T)
        assert c_ops.rule_calls() >= 2
    same(vmap(op)(X, T), X * T)
    assert (c_ops.rule_calls() > 0) == (name == "times_with_rule")
    same(vmap(grad(lambda x, y: op(x, y).sum()))(X, T), T)
    same(grad(lambda x: vmap(op)(x, T).sum())(X), T)
    if name != "times_with_rule":
        same(vmap(op, (0, None))(X, T[0]), X * T[0])
        same(grad(lambda y: vmap(op, (0, None))(X, y).sum())(T[0]), X.sum(0))


def test_an_old_function_on_samples_says_what_to_add(c_ops):
    with pytest.raises(NotImplementedError, match="TimesBackward got a batched Tensor"):
        vmap(c_ops.old_times_on_samples)(X, T)


def test_rules_from_python_for_a_compiled_op(ops):
    from cograd import library

    name = "t_transforms::on_numbers"

    def keep(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.k = inputs[1]

    try:
        library.register_jvp(
            name,
            lambda ctx, t, k: 3 * ctx.k * ctx.saved_tensors[0] ** 2 * t,
            setup_context=keep,
        )
        op = torch.ops.t_transforms.on_numbers
        same(jvp(lambda x: op(x, 2.0), (X,), (T,))[1], 6 * X**2 * T)
        same(vmap(lambda x, t: jvp(op, (x,), (t,))[1])(X, T), 3 * X**2 * T)
        calls = []

        @library.register_vmap(name)
        def _(info, in_dims, x, k):
            calls.append((info.batch_size, in_dims))
            return op(x, k), in_dims[0]

        same(vmap(lambda x: op(x, 2.0))(X), 2 * X**3)
        assert calls == [(3, (0, None))]
        same(jvp(vmap(op), (X,), (T,))[1], 3 * X**2 * T)
        with pytest.raises(RuntimeError, match="register_jvp: .* has its own gradient"):
            library.register_jvp("t_transforms::plain_op", lambda ctx, t, k: t)
    finally:
        from cograd._base import registered_ops as _op_table

        _op_table.remove(_op_table.find(name))
