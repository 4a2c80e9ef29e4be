# SPDX-License-Identifier: BSD-3-Clause
"""Activations, softmax, normalisation, embedding, dropout, linear and losses in nn.functional."""

import math

import numpy as np
import pytest

import cograd as torch
import cograd.nn.functional as F
from cograd.autograd import gradcheck, gradgradcheck

F8 = torch.float64
INF, NAN = math.inf, math.nan
erf = np.vectorize(math.erf)


def rand(*shape, seed=0, grad=False, lo=-1.0, hi=1.0):
    return torch.tensor(np.random.default_rng(seed).uniform(lo, hi, shape), requires_grad=grad)


def np_softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


# ---------------------------------------------------------------- activations

ACTIVATIONS = [
    ("relu", F.relu, lambda x: np.maximum(x, 0)),
    ("gelu", F.gelu, lambda x: x * 0.5 * (1 + erf(x / math.sqrt(2)))),
    (
        "gelu tanh",
        lambda t: F.gelu(t, approximate="tanh"),
        lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
    ("silu", F.silu, lambda x: x / (1 + np.exp(-x))),
    ("softplus", F.softplus, lambda x: np.log1p(np.exp(x))),
    (
        "softplus beta",
        lambda t: F.softplus(t, beta=2.0, threshold=5.0),
        lambda x: np.where(2 * x > 5, x, np.log1p(np.exp(2 * x)) / 2),
    ),
    ("leaky_relu", F.leaky_relu, lambda x: np.where(x > 0, x, 0.01 * x)),
    ("leaky_relu slope", lambda t: F.leaky_relu(t, 0.2), lambda x: np.where(x > 0, x, 0.2 * x)),
    ("elu", F.elu, lambda x: np.where(x > 0, x, np.expm1(x))),
    ("elu alpha", lambda t: F.elu(t, alpha=1.5), lambda x: np.where(x > 0, x, 1.5 * np.expm1(x))),
    ("sigmoid", torch.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
    ("logsigmoid", F.logsigmoid, lambda x: -np.log1p(np.exp(-x))),
    ("tanh", torch.tanh, np.tanh),
]


@pytest.mark.parametrize("label,f,g", ACTIVATIONS, ids=[a[0] for a in ACTIVATIONS])
def test_activations(label, f, g):
    x = np.linspace(-4, 4, 33)
    np.testing.assert_allclose(f(torch.tensor(x)).numpy(), g(x), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(
        f(torch.tensor(x, dtype=torch.float32)).numpy(), g(x), rtol=1e-5, atol=1e-6
    )
    wide = torch.zeros(66, dtype=F8)[::2].copy_(torch.tensor(x))
    np.testing.assert_allclose(f(wide).numpy(), g(x), rtol=1e-12, atol=1e-14)
    assert f(torch.zeros(0)).shape == (0,) and f(torch.tensor(1.0)).shape == ()
    assert f(torch.tensor([NAN])).isnan().item()
    z = torch.tensor([-2.3, -0.7, 0.4, 1.9], dtype=F8, requires_grad=True)
    assert gradcheck(f, (z,)) and gradgradcheck(f, (z,))


def test_activation_limits():
    assert F.softplus(torch.tensor([100.0, -200.0])).tolist() == [100, 0]
    assert F.silu(torch.tensor([-1000.0, 1000.0])).tolist() == [0, 1000]
    assert F.elu(torch.tensor([-1000.0])).item() == -1
    assert F.gelu(torch.tensor([-40.0, 40.0])).tolist() == [0, 40]
    with pytest.raises(RuntimeError, match="none or tanh"):
        F.gelu(torch.ones(1), approximate="x")
    x = torch.tensor([-1.0, 0.0, 2.0], requires_grad=True)
    F.relu(x).sum().backward()
    assert x.grad.tolist() == [0, 0, 1]
    t = torch.tensor([-1.0, 2.0])
    assert F.relu(t, inplace=True) is t and t.tolist() == [0, 2]


# ---------------------------------------------------------------- softmax


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -2])
def test_softmax_family(dim):
    t = rand(2, 3, 4)
    want = np_softmax(t.numpy(), dim)
    for got in (torch.softmax(t, dim), F.softmax(t, dim=dim), t.softmax(dim)):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)
    for got in (torch.log_softmax(t, dim), F.log_softmax(t, dim=dim), t.log_softmax(dim)):
        np.testing.assert_allclose(got.numpy(), np.log(want), rtol=1e-12)
    np.testing.assert_allclose(
        F.softmin(t, dim=dim).numpy(), np_softmax(-t.numpy(), dim), rtol=1e-12
    )
    s = t.permute(2, 0, 1)
    np.testing.assert_allclose(s.softmax(dim).numpy(), np_softmax(s.numpy(), dim), rtol=1e-12)
    x = rand(2, 3, 2, grad=True)
    for f in (torch.softmax, torch.log_softmax):
        assert gradcheck(lambda v, f=f: f(v, dim), (x,)) and gradgradcheck(
            lambda v, f=f: f(v, dim), (x,)
        )


def test_softmax_details():
    assert torch.softmax(torch.tensor([1000.0, 0.0]), 0).tolist() == [1, 0]
    assert torch.log_softmax(torch.tensor([1000.0, 0.0]), 0).tolist() == [0, -1000]
    assert torch.softmax(torch.tensor([-INF, 0.0]), 0).tolist() == [0, 1]
    assert torch.softmax(torch.tensor([-INF, -INF]), 0).isnan().all().item()
    assert torch.softmax(torch.tensor(3.0), 0).item() == 1
    assert torch.softmax(torch.zeros(0, 3), 1).shape == (0, 3) and torch.softmax(
        torch.zeros(3, 0), 1
    ).shape == (3, 0)
    assert torch.softmax(torch.tensor([1, 2]), 0, dtype=F8).dtype is F8
    assert F.log_softmax(torch.ones(2), dim=0, dtype=F8).dtype is F8
    assert F.softmax(torch.ones(2, dtype=torch.float16), dim=0).dtype is torch.float16
    with pytest.raises(IndexError, match=r"range of \[-2, 1\], but got 2"):
        torch.softmax(torch.ones(2, 3), 2)
    with pytest.raises(RuntimeError):
        torch.softmax(torch.tensor([1, 2]), 0)
    with pytest.warns(UserWarning, match="Implicit dimension choice"):
        F.softmax(torch.ones(2, 3))
    x = torch.ones(3, requires_grad=True)
    torch.softmax(x, 0, dtype=F8)[0].backward()
    assert x.grad.dtype is torch.float32


# ---------------------------------------------------------------- layers


def test_linear():
    w, b = rand(4, 3), rand(4, seed=1)
    for shape in [(3,), (2, 3), (2, 5, 3), (0, 3)]:
        x = rand(*shape, seed=2)
        np.testing.assert_allclose(
            F.linear(x, w, b).numpy(), x.numpy() @ w.numpy().T + b.numpy(), rtol=1e-12
        )
        np.testing.assert_allclose(F.linear(x, w).numpy(), x.numpy() @ w.numpy().T, rtol=1e-12)
    assert F.linear(rand(3), rand(3)).shape == ()
    args = (rand(2, 3, grad=True), rand(4, 3, grad=True), rand(4, grad=True))
    assert gradcheck(F.linear, args) and gradgradcheck(F.linear, args)
    with pytest.raises(RuntimeError, match=r"cannot be multiplied \(2x3 and 2x4\)"):
        F.linear(torch.ones(2, 3), torch.ones(4, 2))
    with pytest.raises(RuntimeError):
        F.linear(torch.ones(2, 3), torch.ones(4, 3), torch.ones(3))


@pytest.mark.parametrize(
    "shape,norm",
    [((2, 3), (3,)), ((2, 3, 4), (4,)), ((2, 3, 4), (3, 4)), ((4,), (4,)), ((0, 3), (3,))],
)
@pytest.mark.parametrize("eps", [1e-5, 0.1])
def test_layer_norm(shape, norm, eps):
    x, w, b = rand(*shape), rand(*norm, seed=1), rand(*norm, seed=2)
    axes = tuple(range(len(shape) - len(norm), len(shape)))
    a = x.numpy()
    base = (a - a.mean(axes, keepdims=True)) / np.sqrt(a.var(axes, keepdims=True) + eps)
    np.testing.assert_allclose(F.layer_norm(x, norm, eps=eps).numpy(), base, rtol=1e-10)
    np.testing.assert_allclose(
        F.layer_norm(x, norm, w, b, eps).numpy(),
        base * w.numpy() + b.numpy(),
        rtol=1e-10,
        atol=1e-14,
    )
    np.testing.assert_allclose(
        F.layer_norm(x, norm, weight=w, eps=eps).numpy(), base * w.numpy(), rtol=1e-10
    )
    if x.numel():
        args = (
            rand(*shape, grad=True),
            rand(*norm, seed=1, grad=True),
            rand(*norm, seed=2, grad=True),
        )
        f = lambda p, q, r: F.layer_norm(p, norm, q, r, eps)
        assert gradcheck(f, args) and gradgradcheck(f, args)


def test_layer_norm_errors():
    x = torch.ones(2, 3)
    with pytest.raises(RuntimeError, match=r"normalized_shape=\[4\].*\[2, 3\]"):
        F.layer_norm(x, (4,))
    with pytest.raises(RuntimeError, match="weight"):
        F.layer_norm(x, (3,), weight=torch.ones(2))
    with pytest.raises(RuntimeError, match="at least 1-dim"):
        F.layer_norm(x, ())
    with pytest.raises(RuntimeError):
        F.layer_norm(x.long(), (3,))


def test_embedding():
    w = rand(5, 3)
    for i in (
        torch.tensor([0, 4, 0]),
        torch.tensor([[1, 2], [3, 3]]),
        torch.tensor(2),
        torch.zeros(0, dtype=torch.int64),
    ):
        np.testing.assert_array_equal(F.embedding(i, w).numpy(), w.numpy()[i.numpy()])
        np.testing.assert_array_equal(F.embedding(i.int(), w).numpy(), w.numpy()[i.numpy()])
    v = rand(5, 3, grad=True)
    f = lambda u: F.embedding(torch.tensor([0, 4, 0, 1]), u)
    assert gradcheck(f, (v,)) and gradgradcheck(f, (v,))


@pytest.mark.parametrize("padding_idx", [1, -4])
def test_embedding_padding_idx_gets_no_gradient(padding_idx):
    w = rand(5, 3, grad=True)
    y = F.embedding(torch.tensor([1, 1, 2]), w, padding_idx=padding_idx)
    assert torch.equal(y[0], w[1]), "the forward does read the row"
    y.sum().backward()
    assert w.grad.sum(1).tolist() == [0, 0, 3, 0, 0]


def test_embedding_errors():
    w = torch.ones(3, 2)
    for bad in (5, -1, 3):
        with pytest.raises(IndexError, match="out of range|out of bounds"):
            F.embedding(torch.tensor([0, bad]), w)
    with pytest.raises(RuntimeError):
        F.embedding(torch.tensor([0.0]), w)
    with pytest.raises(RuntimeError, match="2-D"):
        F.embedding(torch.tensor([0]), torch.ones(3))
    with pytest.raises(AssertionError, match="num_embeddings"):
        F.embedding(torch.tensor([0]), w, padding_idx=5)


def test_one_hot_and_pad():
    assert F.one_hot(torch.tensor([0, 2])).tolist() == [[1, 0, 0], [0, 0, 1]]
    assert F.one_hot(torch.tensor([[1]]), 3).shape == (1, 1, 3)
    assert F.pad(torch.ones(2), (1, 2), value=5.0).tolist() == [5, 1, 1, 5, 5]


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_statistics(p):
    torch.manual_seed(0)
    x = torch.ones(20000, dtype=F8)
    y = F.dropout(x, p, training=True)
    kept = y != 0
    assert abs(kept.double().mean().item() - (1 - p)) < 0.02
    np.testing.assert_allclose(y[kept].numpy(), 1 / (1 - p), rtol=1e-12)
    assert not torch.equal(F.dropout(x, p), y), "a new mask at every call"
    torch.manual_seed(0)
    assert torch.equal(F.dropout(x, p, True), y)


def test_dropout_forms():
    x = torch.ones(5)
    assert torch.equal(F.dropout(x, 0.5, training=False), x)
    assert F.dropout(x, 0.0).tolist() == [1] * 5 and F.dropout(x, 1.0).tolist() == [0] * 5
    for p in (1.5, -0.1):
        with pytest.raises(ValueError, match="between 0 and 1"):
            F.dropout(x, p)
    torch.manual_seed(1)
    w = torch.ones(1000, dtype=F8, requires_grad=True)
    y = F.dropout(w, 0.5)
    y.sum().backward()
    assert torch.equal(w.grad, y.detach()), "the gradient uses the same mask"
    z = torch.ones(1000)
    assert F.dropout(z, 0.5, inplace=True) is z and set(z.unique().tolist()) == {0, 2}
    assert torch.dropout(x, 0.5, False).tolist() == [1] * 5


# ---------------------------------------------------------------- element-wise losses


def reduce(x, how):
    return {"none": lambda: x, "mean": x.mean, "sum": x.sum}[how]()


REDUCTIONS = ["none", "mean", "sum"]
LOSSES = [
    ("mse_loss", F.mse_loss, lambda x, y: (x - y) ** 2, -1, 1),
    ("l1_loss", F.l1_loss, lambda x, y: np.abs(x - y), -1, 1),
    (
        "smooth_l1_loss",
        F.smooth_l1_loss,
        lambda x, y: np.where(np.abs(x - y) < 1, 0.5 * (x - y) ** 2, np.abs(x - y) - 0.5),
        -1,
        1,
    ),
    (
        "binary_cross_entropy",
        F.binary_cross_entropy,
        lambda x, y: -(y * np.log(x) + (1 - y) * np.log(1 - x)),
        0.05,
        0.95,
    ),
    (
        "binary_cross_entropy_with_logits",
        F.binary_cross_entropy_with_logits,
        lambda x, y: np.log1p(np.exp(x)) - x * y,
        -3,
        3,
    ),
]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("label,f,g,lo,hi", LOSSES, ids=[c[0] for c in LOSSES])
def test_elementwise_losses(label, f, g, lo, hi, reduction):
    for shape in [(5,), (2, 3), ()]:
        x, y = rand(*shape, lo=lo, hi=hi), rand(*shape, seed=1, lo=0, hi=1)
        want = reduce(np.asarray(g(x.numpy(), y.numpy())), reduction)
        np.testing.assert_allclose(f(x, y, reduction=reduction).numpy(), want, rtol=1e-10)
    a = rand(2, 3, lo=lo, hi=hi, grad=True)
    b = rand(2, 3, seed=1, lo=0, hi=1)
    assert gradcheck(lambda v: f(v, b, reduction=reduction), (a,))
    assert gradgradcheck(lambda v: f(v, b, reduction=reduction), (a,))


def test_loss_gradients_reach_the_target():
    x, y = rand(3, grad=True), rand(3, seed=1, grad=True)
    assert gradcheck(F.mse_loss, (x, y)) and gradcheck(F.l1_loss, (x, y))
    assert gradcheck(F.binary_cross_entropy_with_logits, (x, y))


def test_loss_checks():
    for f in (F.mse_loss, F.l1_loss):
        with pytest.warns(UserWarning, match="target size"):
            assert f(torch.ones(2, 3), torch.zeros(3)).item() == 1
        with pytest.raises(ValueError, match="x is not a valid value for reduction"):
            f(torch.ones(2), torch.zeros(2), reduction="x")
        assert math.isnan(f(torch.ones(0), torch.zeros(0)).item())
        assert f(torch.ones(0), torch.zeros(0), reduction="sum").item() == 0
    for f in (F.binary_cross_entropy, F.binary_cross_entropy_with_logits):
        with pytest.raises(ValueError, match="size"):
            f(torch.full((2,), 0.5), torch.ones(3))


def test_bce_limits_and_weights():
    assert (
        F.binary_cross_entropy(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 0.0])).item() == 100
    ), "log is held at -100"
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        F.binary_cross_entropy(torch.tensor([1.5]), torch.tensor([1.0]))
    assert (
        F.binary_cross_entropy_with_logits(
            torch.tensor([1000.0, -1000.0]), torch.tensor([1.0, 0.0])
        ).item()
        == 0
    )
    x, y = rand(4, 2, lo=-2, hi=2), rand(4, 2, seed=1, lo=0, hi=1)
    w, pw = rand(2, seed=2, lo=0.5, hi=2), rand(2, seed=3, lo=0.5, hi=2)
    a, t = x.numpy(), y.numpy()
    s = 1 / (1 + np.exp(-a))
    want = -w.numpy() * (pw.numpy() * t * np.log(s) + (1 - t) * np.log(1 - s))
    got = F.binary_cross_entropy_with_logits(x, y, weight=w, pos_weight=pw, reduction="none")
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-10)
    got = F.binary_cross_entropy(torch.sigmoid(x), y, weight=w)
    np.testing.assert_allclose(
        got.item(), (-w.numpy() * (t * np.log(s) + (1 - t) * np.log(1 - s))).mean(), rtol=1e-10
    )


# ---------------------------------------------------------------- nll_loss and cross_entropy


def np_nll(logp, target, weight, reduction, ignore_index=-100):
    w = np.ones(logp.shape[1]) if weight is None else weight
    keep = target != ignore_index
    safe = np.where(keep, target, 0)
    per = -np.take_along_axis(logp, safe[:, None], 1).squeeze(1)
    scale = w[safe] * keep
    per = per * scale
    if reduction == "none":
        return per
    return per.sum() / scale.sum() if reduction == "mean" else per.sum()


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("extra", [(), (2,), (2, 3)])
def test_nll_and_cross_entropy(reduction, weighted, extra):
    x = rand(4, 3, *extra, lo=-2, hi=2)
    target = torch.tensor(np.random.default_rng(1).integers(0, 3, (4, *extra)))
    target[1] = -100
    weight = rand(3, seed=2, lo=0.5, hi=2) if weighted else None
    w = None if weight is None else weight.numpy()
    logp = np.log(np_softmax(x.numpy(), 1))
    want = np_nll(logp, target.numpy(), w, reduction)
    np.testing.assert_allclose(
        F.cross_entropy(x, target, weight, reduction=reduction).numpy(), want, rtol=1e-10
    )
    np.testing.assert_allclose(
        F.nll_loss(F.log_softmax(x, 1), target, weight, reduction=reduction).numpy(),
        want,
        rtol=1e-10,
    )
    own = target.clone()
    own[1] = 7
    got = F.cross_entropy(x, own, weight, ignore_index=7, reduction=reduction)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-10)
    a = rand(4, 3, *extra, grad=True)
    for f in (F.cross_entropy, F.nll_loss):
        g = lambda v, f=f: f(v, target, weight, reduction=reduction)
        assert gradcheck(g, (a,)) and gradgradcheck(g, (a,))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("smoothing", [0.1, 1.0])
def test_label_smoothing(reduction, weighted, smoothing):
    x = rand(5, 3, lo=-2, hi=2)
    target = torch.tensor([0, 2, 1, -100, 2])
    weight = rand(3, seed=2, lo=0.5, hi=2) if weighted else None
    w = np.ones(3) if weight is None else weight.numpy()
    logp = np.log(np_softmax(x.numpy(), 1))
    t = target.numpy()
    keep = t != -100
    safe = np.where(keep, t, 0)
    hard = -logp[np.arange(5), safe] * w[safe] * keep
    smooth = -(logp * w).sum(1) * keep
    per = (1 - smoothing) * hard + smoothing / 3 * smooth
    want = {"none": per, "sum": per.sum(), "mean": per.sum() / (w[safe] * keep).sum()}[reduction]
    got = F.cross_entropy(x, target, weight, reduction=reduction, label_smoothing=smoothing)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-10)
    a = rand(5, 3, grad=True)
    f = lambda v: F.cross_entropy(v, target, weight, reduction=reduction, label_smoothing=smoothing)
    assert gradcheck(f, (a,)) and gradgradcheck(f, (a,))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_cross_entropy_with_probabilities(reduction, smoothing):
    x, q = rand(4, 3, lo=-2, hi=2), rand(4, 3, seed=1, lo=0, hi=1)
    weight = rand(3, seed=2, lo=0.5, hi=2)
    p = q.numpy() * (1 - smoothing) + smoothing / 3
    per = -(np.log(np_softmax(x.numpy(), 1)) * p * weight.numpy()).sum(1)
    got = F.cross_entropy(x, q, weight, reduction=reduction, label_smoothing=smoothing)
    np.testing.assert_allclose(got.numpy(), reduce(per, reduction), rtol=1e-10)
    a, b = rand(4, 3, grad=True), rand(4, 3, seed=1, grad=True)
    assert gradcheck(lambda u, v: F.cross_entropy(u, v, weight, reduction=reduction), (a, b))


def test_cross_entropy_shapes_and_limits():
    assert F.cross_entropy(torch.zeros(3), torch.tensor(1)).item() == pytest.approx(math.log(3))
    assert F.nll_loss(torch.zeros(3), torch.tensor(1)).item() == 0
    assert F.cross_entropy(torch.tensor([[1000.0, 0.0]]), torch.tensor([1])).item() == 1000
    assert math.isnan(F.cross_entropy(torch.zeros(2, 3), torch.tensor([-100, -100])).item())
    assert (
        F.cross_entropy(torch.zeros(2, 3), torch.tensor([-100, -100]), reduction="sum").item() == 0
    )
    assert math.isnan(F.cross_entropy(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64)).item())
    x = torch.zeros(2, 3, requires_grad=True)
    F.cross_entropy(x, torch.tensor([0, -100])).backward()
    assert x.grad[1].tolist() == [0, 0, 0]
    np.testing.assert_allclose(x.grad[0].tolist(), [1 / 3 - 1, 1 / 3, 1 / 3], rtol=1e-6)


@pytest.mark.parametrize(
    "call,error,match",
    [
        (lambda z: F.cross_entropy(z, torch.tensor([0, 5])), IndexError, "5 is out of bounds"),
        (lambda z: F.cross_entropy(z, torch.tensor([0, -1])), IndexError, "-1 is out of bounds"),
        (lambda z: F.nll_loss(z, torch.tensor([0, 3])), IndexError, "3 is out of bounds"),
        (
            lambda z: F.cross_entropy(z, torch.tensor([0])),
            ValueError,
            r"batch_size \(2\).*batch_size \(1\)",
        ),
        (
            lambda z: F.nll_loss(z, torch.tensor([0])),
            ValueError,
            r"batch_size \(2\).*batch_size \(1\)",
        ),
        (lambda z: F.cross_entropy(z, torch.tensor([0.0, 1.0])), RuntimeError, None),
        (
            lambda z: F.cross_entropy(z, torch.tensor([0, 1]), reduction="x"),
            ValueError,
            "x is not a valid value for reduction",
        ),
        (
            lambda z: F.cross_entropy(z, torch.tensor([0, 1]), weight=torch.ones(2)),
            RuntimeError,
            "weight",
        ),
        (
            lambda z: F.cross_entropy(z, torch.tensor([0, 1]), label_smoothing=1.5),
            RuntimeError,
            "label_smoothing.*1.5",
        ),
        (lambda z: F.cross_entropy(z, torch.ones(2, 4)), RuntimeError, None),
    ],
)
def test_classification_errors(call, error, match):
    with pytest.raises(error, match=match):
        call(torch.zeros(2, 3))


def test_adaptive_pools_of_no_channels():
    for n, spatial in ((1, (4,)), (2, (4, 3)), (3, (3, 4, 3))):
        for channels in ((0,), (2, 0)):
            pool = getattr(F, f"adaptive_avg_pool{n}d")
            assert pool(torch.zeros(*channels, *spatial), 2).shape == (*channels, *(2,) * n)
        pool = getattr(F, f"adaptive_max_pool{n}d")
        assert pool(torch.zeros(0, *spatial), 2).shape == (0, *(2,) * n)
        with pytest.raises(RuntimeError, match="optional 0 dim batch size"):
            pool(torch.zeros(2, 0, *spatial), 2)
        with pytest.raises(RuntimeError, match="optional 0 dim batch size"):
            getattr(F, f"adaptive_avg_pool{n}d")(torch.zeros(2, 3, 0, *spatial[1:]), 2)
