# SPDX-License-Identifier: BSD-3-Clause
"""vmap of custom Functions: by their rule, on batched tensors, or sample by sample."""

import itertools
import threading
import warnings

import pytest

import cograd as torch
from cograd.autograd import Function, gradcheck
from cograd.autograd import forward_ad as fwd
from cograd.func import grad, hessian, jacrev, jvp, vmap

F8 = torch.float64
X = torch.tensor([[0.5, -1.0], [2.0, 0.25], [1.5, 3.0]], dtype=F8)
Y = torch.tensor([[1.0, 2.0], [-1.0, 0.5], [3.0, 1.0]], dtype=F8)
W = torch.tensor([0.75, -0.5], dtype=F8)


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(runs sample by sample|run one by one)")
        yield


def same(a, b):
    torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


class Loop(Function):
    @staticmethod
    def forward(ctx, x, w, k=2.0):
        ctx.save_for_backward(x, w)
        ctx.k = k
        return x.sin() * w * k

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g * x.cos() * w * ctx.k, g * x.sin() * ctx.k, None


class Generated(Loop):
    generate_vmap_rule = True


class GeneratedWithJvp(Generated):
    @staticmethod
    def jvp(ctx, a, b, c=None):
        x, w = ctx.saved_tensors
        return (a * x.cos() * w + b * x.sin()) * ctx.k


class KeptOnContext(Function):
    """Stores what backward and jvp need in every possible way."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, w, k):
        return x.sin() * w * k

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, w, ctx.k = inputs
        ctx.x = x
        ctx.save_for_backward(w, output)
        ctx.save_for_forward(w)

    @staticmethod
    def backward(ctx, g):
        w, out = ctx.saved_tensors
        assert out.shape == g.shape == ctx.x.shape
        return g * ctx.x.cos() * w * ctx.k, g * ctx.x.sin() * ctx.k, None

    @staticmethod
    def jvp(ctx, a, b, c):
        (w,) = ctx.saved_tensors
        return (a * ctx.x.cos() * w + b * ctx.x.sin()) * ctx.k


class ByRule(Loop):
    @staticmethod
    def vmap(info, in_dims, x, w, k=2.0):
        assert info.batch_size in (3, 4)  # 4 directions of a Jacobian
        x = x if in_dims[0] is None else x.movedim(in_dims[0], 0)
        w = w if in_dims[1] is None else w.movedim(in_dims[1], 0)
        return Loop.apply(x, w, k), 0


EACH = [Loop, Generated, GeneratedWithJvp, ByRule]
IN_DIMS = [d for d in itertools.product([0, 1, None], repeat=2) if any(x is not None for x in d)]


def f_of(cls):
    return lambda x, w: cls.apply(x, w, 2.0)


def plain(x, w):
    return x.sin() * w * 2.0


def arguments(in_dims):
    return [
        w if d is None else a.movedim(0, d)
        for a, w, d in zip((X, Y), (W.cos(), W), in_dims, strict=True)
    ]


@pytest.mark.parametrize("cls", [*EACH, KeptOnContext])
@pytest.mark.parametrize("in_dims", IN_DIMS, ids=str)
def test_every_way_to_run_gives_what_operations_give(cls, in_dims):
    args = arguments(in_dims)
    f, count = f_of(cls), (0, 1)
    for g, h in [
        (f, plain),
        (grad(lambda *a: f(*a).sum(), count), grad(lambda *a: plain(*a).sum(), count)),
        (hessian(lambda *a: f(*a).sum(), count), hessian(lambda *a: plain(*a).sum(), count)),
        (lambda *a: jvp(f, a, a)[1], lambda *a: jvp(plain, a, a)[1]),
        (jacrev(f, count), jacrev(plain, count)),
    ]:
        same(vmap(g, in_dims)(*args), vmap(h, in_dims)(*args))

    def total(f):
        return lambda *a: (vmap(f, in_dims)(*a) * X).sum()

    same(grad(total(f), count)(*args), grad(total(plain), count)(*args))
    same(hessian(total(f), count)(*args), hessian(total(plain), count)(*args))
    same(jvp(total(f), tuple(args), tuple(args)), jvp(total(plain), tuple(args), tuple(args)))
    assert gradcheck(vmap(f, in_dims), [a.clone().requires_grad_() for a in args])


@pytest.mark.parametrize("cls", [Loop, Generated, GeneratedWithJvp, KeptOnContext])
def test_nested(cls):
    f = f_of(cls)
    same(vmap(vmap(f), (None, 0))(W, Y), plain(W, Y))
    same(vmap(vmap(f, (0, None)), (None, 0))(W, Y), plain(W.unsqueeze(-1), Y.unsqueeze(1)))
    together = vmap(vmap(grad(f), (0, None)), (None, 0))
    same(together(W, W), vmap(vmap(grad(plain), (0, None)), (None, 0))(W, W))

    def total(f):
        return lambda x, w: (vmap(vmap(f, (0, None)), (None, 0))(x, w) * X[:2]).sum()

    same(grad(total(f), (0, 1))(W, W), grad(total(plain), (0, 1))(W, W))
    same(hessian(total(f), (0, 1))(W, W), hessian(total(plain), (0, 1))(W, W))
    same(
        vmap(grad(total(f), (0, 1)), (0, None))(X, W),
        vmap(grad(total(plain), (0, 1)), (0, None))(X, W),
    )


class Parts(Function):
    """Returns an output of both inputs, one of x only, one of w only, and w itself."""

    generate_vmap_rule = True

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w, x**2, w**3, w.view(2)

    @staticmethod
    def backward(ctx, a, b, c, d):
        x, w = ctx.saved_tensors
        return a * w + 2 * x * b, a * x + 3 * w**2 * c + d


def test_an_output_of_an_unbatched_input_alone_counts_once_for_each_sample():
    """torch 2.13 counts it again for each sample; finite differences show which result is right."""

    def total(which):
        def f(x, w):
            outputs = vmap(Parts.apply, (0, None))(x, w)
            return sum((outputs[i] * (Y + i)).sum() for i in which)

        return f

    def expected(which):
        def f(x, w):
            outputs = x * w, x**2, (w**3).expand(3, 2), w.expand(3, 2)
            return sum((outputs[i] * (Y + i)).sum() for i in which)

        return f

    for n in range(1, 5):
        for which in itertools.combinations(range(4), n):
            args = [X.clone().requires_grad_(), W.clone().requires_grad_()]
            assert gradcheck(total(which), args)
            same(grad(total(which), (0, 1))(X, W), grad(expected(which), (0, 1))(X, W))
            same(jvp(total(which), (X, W), (Y, W)), jvp(expected(which), (X, W), (Y, W)))
            same(hessian(total(which), (0, 1))(X, W), hessian(expected(which), (0, 1))(X, W))


def test_the_generated_rule_runs_once():
    calls = []

    class Counted(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(ctx, x):
            calls.append(("forward", tuple(x.shape)))
            return x * 2

        @staticmethod
        def backward(ctx, g):
            calls.append(("backward", tuple(g.shape)))
            return g * 2

    vmap(grad(lambda x: Counted.apply(x).sum()))(X)
    assert calls == [("forward", (2,)), ("backward", (2,))]
    calls.clear()
    x = X.clone().requires_grad_()
    y = Counted.apply(x)
    vmap(lambda g: torch.autograd.grad(y, x, g)[0])(torch.stack([X, Y]))
    assert calls == [("forward", (3, 2)), ("backward", (3, 2))]


def test_generated_rules_write_in_place_and_return_inputs():
    class Twice(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, g):
            return 2 * g

    class Same(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(ctx, x):
            return x, x.argmax()

        @staticmethod
        def backward(ctx, g, _):
            return 3 * g

    def f(x):
        h = x * 1
        out = Twice.apply(h)
        assert out is h
        return h * x

    same(vmap(f)(X), 2 * X**2)
    same(vmap(grad(lambda x: f(x).sum()))(X), 4 * X)
    same(grad(lambda x: vmap(f)(x).sum())(X), 4 * X)
    same(jvp(vmap(f), (X,), (Y,))[1], 4 * X * Y)
    out, index = vmap(Same.apply)(X)
    same(out, X)
    assert index.tolist() == [0, 0, 1]
    same(grad(lambda x: vmap(Same.apply)(x)[0].sum())(X), 0 * X + 3)


def test_once_differentiable_and_intermediates_stay_guarded():
    class Once(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(ctx, x):
            ctx.mid = x.exp()
            return ctx.mid.sin()

        @staticmethod
        def backward(ctx, g):
            return g * ctx.mid.cos() * ctx.mid

    same(vmap(grad(lambda x: Once.apply(x).sum()))(X), X.exp().cos() * X.exp())
    with pytest.raises(RuntimeError, match="intermediate result of forward"):
        vmap(grad(lambda x: grad(lambda x: Once.apply(x).sum())(x).sum()))(X)


def test_both_rules_are_one_too_many():
    class Both(ByRule):
        generate_vmap_rule = True

    with pytest.raises(RuntimeError, match="both generate_vmap_rule=True and an overridden vmap"):
        vmap(f_of(Both), (0, None))(X, W)


def test_trees():
    def make(**rules):
        def forward(ctx, pair, k):
            ctx.k = k
            ctx.save_for_backward(pair["a"], pair["b"])
            return {"sum": pair["a"] + k * pair["b"], "rest": [pair["a"] * pair["b"]]}

        def backward(ctx, g):
            a, b = ctx.saved_tensors
            first, second = g["sum"], g["rest"][0]
            return {"a": first + second * b, "b": ctx.k * first + second * a}, None

        body = {
            "pytree": True,
            "forward": staticmethod(forward),
            "backward": staticmethod(backward),
        }
        return type("Tree", (Function,), body | rules)

    def rule(info, in_dims, pair, k):
        assert in_dims[0]["a"] == 0 and in_dims[0]["b"] in (0, None) and in_dims[1] is None
        return (
            {"sum": pair["a"] + k * pair["b"], "rest": [pair["a"] * pair["b"]]},
            {"sum": 0, "rest": 0},
        )

    for cls in (make(), make(generate_vmap_rule=True), make(vmap=staticmethod(rule))):

        def f(a, b, cls=cls):
            out = cls.apply({"a": a, "b": b}, 3)
            return out["sum"] * out["rest"][0]

        same(vmap(f, (0, None))(X, W), (X + 3 * W) * X * W)
        g = vmap(grad(lambda a, b, f=f: f(a, b).sum(), (0, 1)), (0, None))(X, W)
        same(g[0], (2 * X + 3 * W) * W)


@pytest.mark.parametrize(
    "result,message",
    [
        (lambda x: x, r"must return \(output, out_dims\), a tuple of two; got .*Tensor"),
        (lambda x: (x, 5), "out_dim 5 for output 0, which has 2 dims"),
        (lambda x: (x, 1), r"output 0 of shape \[3, 2\] with out_dim 1, expected 3 samples there"),
        (lambda x: ((x, x), (0,)), "returned 2 outputs and 1 out_dims"),
        (lambda x: (x, 1.5), "out_dim of type float"),
    ],
)
def test_wrong_rules(result, message):
    class Wrong(Loop):
        @staticmethod
        def vmap(info, in_dims, x, w, k):
            return result(x)

    with pytest.raises((RuntimeError, TypeError, IndexError, ValueError), match=message):
        vmap(f_of(Wrong), (0, None))(X, W)


def test_out_dims_may_be_negative_or_none():
    class Rule(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x.new_ones(2)

        @staticmethod
        def vmap(info, in_dims, x):
            return (2 * x.t(), x.new_ones(2)), (-1, None)

    a, b = vmap(Rule.apply, out_dims=(0, None))(X)
    same(a, 2 * X)
    same(b, torch.ones(2, dtype=F8))


def test_the_warning_shows_the_signature_once():
    class Warned(Loop):
        pass

    with pytest.warns(UserWarning, match="vmap: Warned has no vmap rule") as seen:
        vmap(vmap(f_of(Warned), (0, None)), (0, None))(torch.stack([X, Y]), W)
    assert len(seen) == 1
    text = str(seen[0].message)
    assert text.startswith("vmap: Warned has no vmap rule and runs sample by sample. Add\n")
    assert "def vmap(info, in_dims, *args):" in text


def test_a_write_into_what_all_samples_share_raises():
    class Write(Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.mark_dirty(x)
            return x.mul_(y)

    with pytest.raises(RuntimeError, match="vmap: Write wrote its tensor argument 0 in place"):
        vmap(lambda y: Write.apply(W.clone(), y))(X)
    x = X.clone()

    def f(x, y):
        assert Write.apply(x, y) is x
        return x

    same(vmap(f)(x, Y), X * Y)
    same(x, X * Y)


def test_neither_jvp_nor_backward_names_both():
    class Bare(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    with fwd.dual_level(), pytest.raises(NotImplementedError) as caught:
        Bare.apply(fwd.make_dual(X, Y))
    text = str(caught.value)
    assert "Bare has neither a jvp nor a backward to derive it from" in text
    assert "    def jvp(ctx, *input_tangents):" in text


def test_a_hook_that_reads_samples_runs_once():
    runs = []

    def unpack(x):
        runs.append(1)
        raise RuntimeError("vmap: It looks like you're calling item()")

    x = X.clone().requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, unpack):
        y = x.sin()
    with pytest.raises(RuntimeError, match="item"):
        vmap(lambda g: torch.autograd.grad(y, x, g)[0])(torch.stack([X, Y]))
    assert len(runs) == 1


def test_a_function_written_in_place_into_a_view_gets_its_samples_one_by_one():
    class Numbers(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, g):
            return torch.from_numpy(2 * g.numpy())

    x = X.clone().requires_grad_()
    h = x * 1
    Numbers.apply(h[0])
    g = vmap(lambda g: torch.autograd.grad(h, x, g)[0])(torch.stack([X, Y]))
    same(g, torch.stack([X, Y]) * torch.tensor([[2.0], [1.0], [1.0]], dtype=F8))


def test_the_tangent_of_an_old_view_follows_its_base():
    def f(tangent):
        with fwd.dual_level():
            base = torch.zeros(2, dtype=F8)
            view = base[:1]
            base.add_(fwd.make_dual(W, W))
            same(fwd.unpack_dual(view).tangent, W[:1])
            base.mul_(fwd.make_dual(W, tangent))
            return fwd.unpack_dual(view).tangent + 0

    same(vmap(f)(X), (W * W + W * X)[:, :1])


def test_threads_read_the_tangent_of_one_view():
    with fwd.dual_level():
        views = []
        base = torch.zeros(2, dtype=F8)
        views = [base[:1] for _ in range(300)]
        base.copy_(fwd.make_dual(W, W))
        start, wrong = threading.Barrier(4), []

        def read():
            start.wait()
            for view in views:
                if torch._C._tangent_to_show(view).item() != W[0].item():
                    wrong.append(view)

        threads = [threading.Thread(target=read) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not wrong


class Noise(Function):
    @staticmethod
    def forward(ctx, x):
        return x + torch.rand(2, dtype=F8)

    @staticmethod
    def backward(ctx, g):
        return g


@pytest.mark.parametrize("generate", [False, True])
def test_random_numbers_follow_the_mode_of_the_vmap(generate):
    cls = type("Made", (Noise,), {"generate_vmap_rule": generate})
    with pytest.raises(RuntimeError, match="randomness error mode"):
        vmap(cls.apply)(X)
    drawn = vmap(cls.apply, randomness="same")(X) - X
    torch.testing.assert_close(drawn, drawn[0].expand(3, 2))
    drawn = vmap(cls.apply, randomness="different")(X) - X
    assert not torch.allclose(drawn[0], drawn[1])
    same(vmap(grad(lambda x: cls.apply(x).sum()), randomness="different")(X), 0 * X + 1)


def test_samples_that_are_no_arguments_are_told():
    def f(x):
        class Captures(Function):
            @staticmethod
            def forward(ctx, y):
                return x * y

        return Captures.apply(x * 1)

    with pytest.raises(RuntimeError, match="a result of Captures is already batched"):
        vmap(f)(X)


# ---------------------------------------------------------------------- shared with tangents


class WithRule(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y, g * x

    @staticmethod
    def vmap(info, in_dims, x, y):
        x, y = (t if d is None else t.movedim(d, 0) for t, d in zip((x, y), in_dims))
        return x * y, 0


class WithoutRule(WithRule):
    vmap = Function.vmap


class OnBatches(WithoutRule):
    generate_vmap_rule = True


class OnBatchesWithJvp(OnBatches):
    @staticmethod
    def jvp(ctx, s, t):
        x, y = ctx.saved_tensors
        return s * y + t * x


@pytest.mark.parametrize("function", [WithRule, WithoutRule, OnBatches, OnBatchesWithJvp])
@pytest.mark.parametrize("dims", [(0, None, 0, 0), (None, None, 0, None), (None, 0, 0, None)])
@pytest.mark.filterwarnings("ignore:vmap:UserWarning")
def test_tangents_of_an_argument_that_all_samples_share(function, dims):
    """The tangent differs between the samples, the value does not."""
    args = [torch.randn(2, 3) if d is None else torch.randn(4, 2, 3) for d in dims]
    x, y, s, t = args

    def tangent(x, y, s, t):
        return torch.func.jvp(function.apply, (x, y), (s, t))[1]

    found = torch.func.vmap(tangent, dims)(*args)
    assert torch.allclose(found, (s * y + t * x).expand(4, 2, 3))
    nested = torch.func.vmap(torch.func.vmap(tangent, dims), (0, 0, 0, 0))
    doubled = [torch.stack([a, 2 * a]) for a in args]
    assert torch.allclose(nested(*doubled)[1], 4 * found)


@pytest.mark.filterwarnings("ignore:vmap:UserWarning")
def test_a_write_to_a_shared_argument_with_other_tangents_raises():
    class AddInPlace(Function):
        @staticmethod
        def forward(ctx, y, x):
            ctx.mark_dirty(y)
            return y.add_(x)

        @staticmethod
        def backward(ctx, g):
            return g, g

    def tangent(x, y, t):
        return torch.func.jvp(lambda y: AddInPlace.apply(y * 1, x), (y,), (t,))[1]

    args = torch.randn(4, 3), torch.randn(3), torch.randn(4, 3)
    with pytest.raises(RuntimeError, match="in place"):
        torch.func.vmap(tangent, (0, None, 0))(*args)
