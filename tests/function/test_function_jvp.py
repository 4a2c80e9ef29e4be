# SPDX-License-Identifier: BSD-3-Clause
"""Forward mode of custom Functions: the contract of jvp, and tangents derived from a backward."""

import numpy
import pytest

import cograd as torch
from cograd.autograd import Function, grad, gradcheck
from cograd.autograd import forward_ad as fwd
from cograd.autograd.function import once_differentiable

F8 = torch.float64
X = torch.tensor([1.0, 2.0], dtype=F8)
Y = torch.tensor([3.0, 4.0], dtype=F8)
ONES = torch.ones(2, dtype=F8)


def run(function, *args, tangents=None, **kwargs):
    """Returns (value, tangent) of each returned tensor; tangents default to ones."""
    with fwd.dual_level():
        given = []
        for i, a in enumerate(args):
            if tangents is not None:
                t = tangents[i]
            else:
                t = ONES if isinstance(a, torch.Tensor) and a.is_floating_point() else None
            given.append(a if t is None else fwd.make_dual(a, t))
        out = function.apply(*given, **kwargs)
        out = out if isinstance(out, tuple) else (out,)
        return [tuple(fwd.unpack_dual(o)) if isinstance(o, torch.Tensor) else o for o in out]


def same(a, b):
    torch.testing.assert_close(a, b, rtol=0, atol=0)


def function(forward, jvp=None, backward=None):
    body = {"forward": staticmethod(forward)}
    for name, f in (("jvp", jvp), ("backward", backward)):
        if f is not None:
            body[name] = staticmethod(f)
    return type("Made", (Function,), body)


def double(ctx, x):
    return x * 2


# ---- arguments and saved tensors -----------------------------------------------------------------


def product(materialize, seen):
    class Product(Function):
        @staticmethod
        def forward(ctx, x, y, k=2):
            ctx.set_materialize_grads(materialize)
            ctx.save_for_forward(x, None, y)
            ctx.k = k
            return x * y * k

        @staticmethod
        def jvp(ctx, a, b, c=None):
            seen.append((a, b, c))
            x, nothing, y = ctx.saved_tensors
            assert nothing is None
            assert ctx.saved_for_forward[0] is x
            return (0 if a is None else a * y * ctx.k) + (0 if b is None else x * b * ctx.k)

    return Product


def test_tangents_of_arguments():
    seen = []
    f = product(True, seen)
    same(run(f, X, Y, 3), [(3 * X * Y, 3 * (X + Y))])
    same(seen[-1][:2], (ONES, ONES))
    assert seen[-1][2] is None
    same(run(f, X, Y), [(2 * X * Y, 2 * (X + Y))])
    same(run(f, X, Y, k=3), [(3 * X * Y, 3 * (X + Y))])


def test_arguments_without_tangent():
    seen = []
    same(run(product(True, seen), X, Y, tangents=[ONES, None])[0][1], 2 * Y)
    same(seen[-1][1], 0 * ONES)
    same(run(product(False, seen), X, Y, tangents=[ONES, None])[0][1], 2 * Y)
    assert seen[-1][1] is None


def test_integers_have_no_tangent():
    seen = []
    f = function(lambda ctx, x, i: x * 2, lambda ctx, a, b: seen.append(b) or 2 * a)
    same(run(f, X, torch.tensor([1]))[0][1], 2 * ONES)
    assert seen == [None]


def test_saved_for_backward_serves_where_nothing_was_saved_for_forward():
    f = function(
        lambda ctx, x: (ctx.save_for_backward(x), x**2)[1],
        lambda ctx, a: 2 * ctx.saved_tensors[0] * a,
    )
    same(run(f, X)[0][1], 2 * X)


def test_the_last_save_for_forward_counts_and_takes_tensors_only():
    f = function(
        lambda ctx, x: (ctx.save_for_forward(x, x), ctx.save_for_forward(x), x * 1)[2],
        lambda ctx, a: a * len(ctx.saved_tensors),
    )
    same(run(f, X)[0][1], ONES)
    f = function(lambda ctx, x: (ctx.save_for_forward(3), x)[1], lambda ctx, a: a)
    with pytest.raises(TypeError, match="save_for_forward: expected Tensors, but argument 0"):
        run(f, X)


def test_setup_context_saves_outputs():
    class Exp(Function):
        @staticmethod
        def forward(x, y):
            return x.exp() * y

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_forward(*inputs, output)

        @staticmethod
        def jvp(ctx, a, b):
            x, y, out = ctx.saved_tensors
            return out * a + x.exp() * b

    same(run(Exp, X, Y), [(X.exp() * Y, X.exp() * Y + X.exp())])


def test_needs_input_grad_does_not_count_tangents():
    seen = []
    f = function(
        lambda ctx, x, y: (seen.append(ctx.needs_input_grad), x * y)[1],
        lambda ctx, a, b: (seen.append(ctx.needs_input_grad), a)[1],
        lambda ctx, g: (g, g),
    )
    run(f, X, Y)
    assert seen == [(False, False)] * 2
    seen.clear()
    run(f, X, Y.clone().requires_grad_())
    assert seen == [(False, True)] * 2


def test_a_backward_that_the_tangents_come_from_is_asked_for_them():
    seen = []

    def backward(ctx, g):
        seen.append(ctx.needs_input_grad)
        return g * 2, g * 3

    f = function(lambda ctx, x, y: 2 * x + 3 * y, backward=backward)
    same(run(f, X, Y, tangents=[ONES, None])[0][1], 2 * ONES)
    assert seen == [(True, False)]


def test_modes_in_jvp():
    seen = []
    f = function(
        lambda ctx, x: (ctx.save_for_forward(x), x * 2)[1],
        lambda ctx, a: (seen.append(torch.is_grad_enabled()), a * ctx.saved_tensors[0])[1],
    )
    value, tangent = run(f, X)[0]
    same(tangent, X)
    assert seen == [True]


# ---- results -------------------------------------------------------------------------------------


def two(jvp):
    return function(lambda ctx, x: (x * 2, x * 3), jvp)


def test_several_outputs_and_none():
    same(run(two(lambda ctx, a: (2 * a, 3 * a)), X), [(2 * X, 2 * ONES), (3 * X, 3 * ONES)])
    (_, first), (value, second) = run(two(lambda ctx, a: (2 * a, None)), X)
    same(first, 2 * ONES)
    assert second is None
    assert run(function(double, lambda ctx, a: None), X)[0][1] is None
    same(run(function(double, lambda ctx, a: (2 * a,)), X)[0][1], 2 * ONES)


def test_results_that_are_no_tensors():
    f = function(lambda ctx, x: (5, x * 2), lambda ctx, a: (None, 2 * a))
    five, (_, tangent) = run(f, X)
    assert five == 5
    same(tangent, 2 * ONES)


@pytest.mark.parametrize(
    "jvp,error,message",
    [
        (lambda ctx, a: 2 * a, RuntimeError, "jvp returned 1 tangents, expected 2"),
        (lambda ctx, a: (a, a, a), RuntimeError, "jvp returned 3 tangents, expected 2"),
        (lambda ctx, a: None, RuntimeError, "jvp returned 1 tangents, expected 2"),
        (lambda ctx, a: (a, torch.ones(7)), RuntimeError, "different size than that of the orig"),
        (lambda ctx, a: (a, 3.0), TypeError, "jvp returned a float, expected a Tensor or None"),
        (lambda ctx, a: [a, a], TypeError, "jvp returned a list"),
        (lambda a: a, TypeError, "takes 1 positional argument but 2 were given"),
        (lambda ctx, a: {}[1], KeyError, "1"),
    ],
)
def test_wrong_results(jvp, error, message):
    with pytest.raises(error, match=message):
        run(two(jvp), X)
    assert fwd._current_level == -1


def test_outputs_that_are_not_differentiable():
    def forward(ctx, x):
        i, m = x.argmax(), x * 5
        ctx.mark_non_differentiable(i, m)
        return x * 2, i, m

    out = run(function(forward, lambda ctx, a: (2 * a, None, None)), X)
    assert [t is None for _, t in out] == [False, True, True]
    with pytest.raises(RuntimeError, match="gradient at position 3, but .* not a differentiable"):
        run(function(forward, lambda ctx, a: (2 * a, None, a)), X)
    with pytest.raises(RuntimeError, match="returned 1 tangents, expected 3"):
        run(function(forward, lambda ctx, a: 2 * a), X)
    backward = function(forward, backward=lambda ctx, g, *rest: 2 * g)
    assert [t is None for _, t in run(backward, X)] == [False, True, True]
    assert run(function(lambda ctx, x: x.long(), lambda ctx, a: None), X)[0][1] is None


@pytest.mark.parametrize("in_place", [False, True])
def test_dirty_inputs(in_place):
    def forward(ctx, x, y):
        ctx.mark_dirty(x)
        ctx.save_for_forward(x.clone(), y)
        return x.mul_(y)

    def jvp(ctx, a, b):
        x, y = ctx.saved_tensors
        return a.mul_(y).add_(b * x) if in_place else a * y + b * x

    f = function(forward, jvp)
    with fwd.dual_level():
        base = torch.zeros(4, dtype=F8)
        x = fwd.make_dual(X.clone(), ONES.clone())
        kept = fwd.unpack_dual(x).tangent
        out = f.apply(x, fwd.make_dual(Y, ONES))
        assert out is x
        same(fwd.unpack_dual(x).primal, X * Y)
        same(fwd.unpack_dual(x).tangent, X + Y)
        assert fwd.unpack_dual(x).tangent is kept
        plain = base[:2].copy_(X)
        f.apply(plain, fwd.make_dual(Y, ONES))
        same(fwd.unpack_dual(plain).tangent, X)
        same(fwd.unpack_dual(base).tangent, torch.cat([X, 0 * X]))


def test_inputs_returned_as_they_are_and_views():
    f = function(lambda ctx, x: x, lambda ctx, a: 3 * a)
    same(run(f, X), [(X, 3 * ONES)])
    f = function(lambda ctx, x: x.view(2, 1), lambda ctx, a: a.view(2, 1))
    same(run(f, X), [(X.view(2, 1), ONES.view(2, 1))])


# ---- with reverse mode, and in several levels ----------------------------------------------------


def cube(*, jvp, backward):
    def forward(ctx, x):
        ctx.save_for_forward(x)
        ctx.save_for_backward(x)
        return x**3

    def rule(ctx, t):
        (x,) = ctx.saved_tensors
        return 3 * x * x * t

    return function(forward, rule if jvp else None, rule if backward else None)


BOTH = [{"jvp": True, "backward": True}, {"jvp": False, "backward": True}]


@pytest.mark.parametrize("rules", BOTH, ids=["jvp", "from backward"])
def test_reverse_over_forward_and_forward_over_reverse(rules):
    f = cube(**rules)
    x = X.clone().requires_grad_()
    with fwd.dual_level():
        tangent = fwd.unpack_dual(f.apply(fwd.make_dual(x, ONES))).tangent
        same(grad(tangent.sum(), x)[0], 6 * X)
        dual = fwd.make_dual(X, ONES).requires_grad_()
        (g,) = grad(f.apply(dual).sum(), dual)
        same(fwd.unpack_dual(g), fwd.UnpackedDualTensor(3 * X**2, 6 * X))
    assert gradcheck(f.apply, x, check_forward_ad=True)


@pytest.mark.parametrize("rules", [*BOTH, {"jvp": True, "backward": False}], ids=str)
def test_levels_nest(rules):
    f = cube(**rules)
    with fwd.dual_level():
        outer = fwd.make_dual(X, ONES)
        with fwd.dual_level():
            inner = fwd.make_dual(outer, 2 * ONES)
            value, tangent = fwd.unpack_dual(f.apply(inner))
            same(fwd.unpack_dual(tangent, level=0).tangent, 12 * X)
            same(fwd.unpack_dual(value, level=0).tangent, 3 * X**2)
        same(fwd.unpack_dual(tangent), fwd.UnpackedDualTensor(6 * X**2, 12 * X))
    with fwd.dual_level():
        outer = fwd.make_dual(X, ONES)
        with fwd.dual_level():  # this level has no tangents
            same(fwd.unpack_dual(f.apply(outer)).tangent, None)
            same(fwd.unpack_dual(f.apply(outer), level=0).tangent, 3 * X**2)


def test_tangents_are_of_their_function_alone():
    """Ops in a user's jvp give no second tangent at its level."""
    f = cube(jvp=True, backward=False)
    with fwd.dual_level():
        value, tangent = fwd.unpack_dual(f.apply(fwd.make_dual(X, ONES)))
        assert fwd.unpack_dual(tangent).tangent is None
        assert fwd.unpack_dual(value).tangent is None


@pytest.mark.parametrize("with_jvp", [True, False])
def test_trees(with_jvp):
    class Swap(Function):
        pytree = True

        @staticmethod
        def forward(ctx, pair, k):
            ctx.k = k
            return {"a": pair["b"] * k, "b": [pair["a"]]}

        @staticmethod
        def backward(ctx, g):
            return {"a": g["b"][0], "b": g["a"] * ctx.k}, None

    if with_jvp:
        Swap.jvp = staticmethod(lambda ctx, t, k: {"a": 10 * t["b"] * ctx.k, "b": [10 * t["a"]]})
    with fwd.dual_level():
        a, b = fwd.make_dual(X, ONES), fwd.make_dual(Y, Y)
        out = Swap.apply({"a": a, "b": b}, 3)
        ten = 10 if with_jvp else 1
        same(fwd.unpack_dual(out["a"]).tangent, 3 * ten * Y)
        same(fwd.unpack_dual(out["b"][0]).tangent, ten * ONES)


# ---- without a rule ------------------------------------------------------------------------------


def test_neither_jvp_nor_backward():
    f = function(double)
    same(f.apply(X), 2 * X)
    with pytest.raises(NotImplementedError) as caught:
        run(f, X)
    text = str(caught.value)
    assert text.startswith(
        "You must implement the jvp function for custom autograd.Function to use it with forward "
        "mode AD."
    )
    assert "def jvp(ctx, *input_tangents)" in text
    with pytest.raises(NotImplementedError, match="You must implement the jvp function"):
        Function.jvp(None, X)


def by_numpy(ctx, g):
    return torch.from_numpy(2 * g.detach().numpy())


def half_by_numpy(ctx, g):
    x, y = ctx.saved_tensors
    return y * torch.from_numpy(g.detach().numpy()), x * g


def under_no_grad(ctx, g):
    with torch.no_grad():
        return 2 * g


def twice_only_once(ctx, g):
    return 2 * g


OPAQUE = {
    "numpy": by_numpy,
    "no_grad": under_no_grad,
    "once_differentiable": once_differentiable(twice_only_once),
    "detached": lambda ctx, g: 2 * g.detach(),
}


@pytest.mark.parametrize("backward", OPAQUE.values(), ids=list(OPAQUE))
def test_opaque_backwards_say_what_to_write(backward):
    f = function(double, backward=backward)
    x = X.clone().requires_grad_()
    for value in (X, x):
        with pytest.raises(RuntimeError) as caught:
            run(f, value)
        text = str(caught.value)
        assert (
            "MadeBackward: there is no jvp, and the tangent cannot be derived from backward" in text
        )
        assert "    def jvp(ctx, *input_tangents):" in text
    with_jvp = function(double, lambda ctx, a: 2 * a, backward)
    same(run(with_jvp, X), [(2 * X, 2 * ONES)])


def test_an_opaque_part_is_found_behind_recorded_factors():
    """The factor y requires grad, so the gradient does, although it does not depend on g."""
    f = function(lambda ctx, x, y: (ctx.save_for_backward(x, y), x * y)[1], backward=half_by_numpy)
    y = Y.clone().requires_grad_()
    same(run(f, X, y, tangents=[None, ONES])[0][1].detach(), X)
    with pytest.raises(
        RuntimeError, match="it returned for input 0 was computed without recording"
    ):
        run(f, X, y, tangents=[ONES, ONES])


def test_gradients_of_zero_need_no_record():
    f = function(lambda ctx, x: x.sign(), backward=lambda ctx, g: torch.zeros(2, dtype=g.dtype))
    assert run(f, X)[0][1] is None
    f = function(lambda ctx, x: x * 1, backward=lambda ctx, g: g)
    same(run(f, X)[0][1], ONES)
    assert numpy.allclose(X.numpy(), [1, 2])


READS = {
    "numpy": lambda t: torch.from_numpy(t.numpy()),
    "tolist": lambda t: torch.tensor(t.tolist(), dtype=F8),
    "item": lambda t: torch.tensor([v.item() for v in t], dtype=F8),
    "iteration": lambda t: torch.tensor([float(v) for v in t], dtype=F8),
}


@pytest.mark.parametrize("read", READS.values(), ids=list(READS))
def test_reading_elements_once_never_loses_a_tangent(read):
    """Forward mode over a backward that reads elements raises: zeros would be wrong."""

    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.save_for_forward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            return 2 * g * read(ctx.saved_tensors[0])

        @staticmethod
        def jvp(ctx, t):
            return 2 * t * ctx.saved_tensors[0]

    f = lambda x: Square.apply(x).sum()
    same(torch.func.grad(f)(X), 2 * X)
    same(torch.func.jacrev(torch.func.jacfwd(f))(X), 2 * torch.eye(2, dtype=F8))
    with pytest.raises(RuntimeError, match="a tangent"):
        torch.func.jacfwd(torch.func.grad(f))(X)
    same(torch.func.grad(f)(X), 2 * X)
    with fwd.dual_level():  # elsewhere, elements may be read
        dual = fwd.make_dual(X, ONES)
        assert dual.detach().tolist() == X.tolist()
