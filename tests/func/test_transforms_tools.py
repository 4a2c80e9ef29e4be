# SPDX-License-Identifier: BSD-3-Clause
"""Saved-tensor hooks, checkpoints, anomaly mode, profiler and to_dot inside transforms."""

import pytest

import cograd as torch
from cograd.autograd import forward_ad, graph, profiler
from cograd.autograd.forward_ad import make_dual, unpack_dual
from cograd.func import grad, hessian, jacfwd, jacrev, jvp, vmap
from cograd.utils.checkpoint import checkpoint

pytestmark = pytest.mark.filterwarnings("ignore:vmap")

F8 = torch.float64
X = torch.randn(3, 4, dtype=F8, generator=torch.Generator().manual_seed(0))
W = torch.randn(4, 4, dtype=F8, generator=torch.Generator().manual_seed(1))


def block(x, w):
    return (x @ w).sin() * x


def plain(x, w):
    return block(x, w).sum()


def checkpointed(x, w):
    return checkpoint(block, x, w, use_reentrant=False).sum()


def hooked(x, w):
    with graph.saved_tensors_hooks(lambda t: (t,), lambda kept: kept[0]):
        return block(x, w).sum()


def on_cpu(x, w):
    with graph.save_on_cpu():
        return block(x, w).sum()


TRANSFORMS = {
    "grad": lambda f: grad(f)(X[0], W),
    "grad of the captured": lambda f: grad(f, argnums=(0, 1))(X[0], W),
    "jvp": lambda f: jvp(f, (X[0], W), (X[1], W * 2)),
    "vmap": lambda f: vmap(f, (0, None))(X, W),
    "vmap of grad": lambda f: vmap(grad(f, argnums=(0, 1)), (0, None))(X, W),
    "grad of vmap": lambda f: grad(lambda x, w: vmap(f, (0, None))(x, w).sin().sum())(X, W),
    "grad of grad": lambda f: grad(lambda x: grad(f)(x, W).sin().sum())(X[0]),
    "jvp of grad": lambda f: jvp(lambda x: grad(f)(x, W), (X[0],), (X[1],)),
    "jvp of vmap": lambda f: jvp(lambda x: vmap(f, (0, None))(x, W), (X,), (X * 2,)),
    "vmap of jvp": lambda f: vmap(lambda x: jvp(lambda y: f(y, W), (x,), (X[1],)))(X),
    "jacrev": lambda f: jacrev(lambda x: f(x, W))(X[0]),
    "jacfwd": lambda f: jacfwd(lambda x: f(x, W))(X[0]),
    "hessian": lambda f: hessian(lambda x: f(x, W))(X[0]),
}


WITH_CHECKPOINT = ["grad", "grad of the captured", "vmap", "vmap of grad", "grad of grad"]


@pytest.mark.parametrize("name", WITH_CHECKPOINT)
def test_checkpoints_change_nothing(name):
    torch.testing.assert_close(TRANSFORMS[name](checkpointed), TRANSFORMS[name](plain))


@pytest.mark.parametrize("how", [hooked, on_cpu])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_results_are_those_without(name, how):
    torch.testing.assert_close(TRANSFORMS[name](how), TRANSFORMS[name](plain))


def test_saved_hooks_see_tangents():
    with forward_ad.dual_level():
        x = make_dual(X[0].clone().requires_grad_(), X[1])
        y = hooked(x, W)
        (g,) = torch.autograd.grad(y, x)
        got = unpack_dual(g).tangent
    _, want = jvp(lambda x: grad(plain)(x, W), (X[0],), (X[1],))
    torch.testing.assert_close(got, want)


# ---- anomaly mode ------------------------------------------------------------------------------


class Broken(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return g * float("nan")


@pytest.mark.filterwarnings("ignore:Error detected", "ignore:Anomaly Detection")
def test_anomaly_mode_names_the_node():
    def f(x):
        return (Broken.apply(x) * x).sum()

    with torch.autograd.detect_anomaly():
        for run in (lambda: grad(f)(X[0]), lambda: vmap(grad(f))(X), lambda: jacrev(f)(X[0])):
            with pytest.raises(RuntimeError, match="BrokenBackward' returned nan"):
                run()


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_anomaly_mode_lets_right_programs_pass():
    with torch.autograd.detect_anomaly():
        for transform in TRANSFORMS.values():
            transform(plain)


# ---- profiler and pictures ---------------------------------------------------------------------


@pytest.mark.parametrize("name", TRANSFORMS)
def test_programs_are_profiled(name):
    want = TRANSFORMS[name](plain)
    with profiler.profile(record_shapes=True) as p:
        got = TRANSFORMS[name](plain)
    torch.testing.assert_close(got, want)
    assert any("sin" in e.key for e in p.key_averages())


def test_pictures_show_what_one_sample_sees():
    from cograd.autograd.graph import to_dot

    seen = []

    def f(a):
        b = a.clone().requires_grad_()
        y = (b * 2).sum()
        seen.append(to_dot(y))
        return y

    vmap(f)(X)
    assert "Sum" in seen[0]
