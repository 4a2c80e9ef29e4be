# SPDX-License-Identifier: BSD-3-Clause
"""Layers, losses and nn.functional compared with NumPy formulas and finite differences."""

import math

import numpy as np
import pytest

import cograd as torch
import cograd.nn.functional as F
from cograd import nn
from cograd.autograd import gradcheck

X = np.array([[-7.0, -3.0, -1.5, -0.5, -0.1, 0.0], [0.1, 0.4, 0.9, 2.5, 6.5, 30.0]])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.logaddexp(0, x)


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def elu(x, a=1.0):
    return np.where(x > 0, x, a * np.expm1(np.minimum(x, 0)))


ERF = np.vectorize(math.erf)
ACTIVATIONS = [
    (nn.ReLU(), lambda x: np.maximum(x, 0)),
    (nn.ReLU6(), lambda x: np.clip(x, 0, 6)),
    (nn.GELU(), lambda x: x * 0.5 * (1 + ERF(x / math.sqrt(2)))),
    (
        nn.GELU("tanh"),
        lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
    (nn.SiLU(), lambda x: x * sigmoid(x)),
    (nn.Mish(), lambda x: x * np.tanh(softplus(x))),
    (nn.Softplus(), softplus),
    (nn.Softplus(2.0, 4.0), lambda x: np.where(2 * x > 4, x, softplus(2 * x) / 2)),
    (nn.LeakyReLU(0.2), lambda x: np.where(x > 0, x, 0.2 * x)),
    (nn.ELU(1.5), lambda x: elu(x, 1.5)),
    (nn.SELU(), lambda x: 1.0507009873554805 * elu(x, 1.6732632423543772)),
    (nn.CELU(2.0), lambda x: np.where(x > 0, x, 2 * np.expm1(np.minimum(x, 0) / 2))),
    (nn.Tanh(), np.tanh),
    (nn.Sigmoid(), sigmoid),
    (nn.Hardtanh(-1, 2), lambda x: np.clip(x, -1, 2)),
    (nn.Hardsigmoid(), lambda x: np.clip(x / 6 + 0.5, 0, 1)),
    (nn.Hardswish(), lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    (nn.LogSigmoid(), lambda x: -softplus(-x)),
    (nn.Softmax(1), lambda x: softmax(x, 1)),
    (nn.LogSoftmax(0), lambda x: np.log(softmax(x, 0))),
    (nn.Softmin(1), lambda x: softmax(-x, 1)),
    (nn.Softsign(), lambda x: x / (1 + abs(x))),
    (nn.Tanhshrink(), lambda x: x - np.tanh(x)),
    (nn.Softshrink(), lambda x: np.sign(x) * np.maximum(abs(x) - 0.5, 0)),
    (nn.Hardshrink(), lambda x: np.where(abs(x) > 0.5, x, 0)),
    (nn.Threshold(0.2, 9.0), lambda x: np.where(x > 0.2, x, 9.0)),
    (nn.GLU(), lambda x: x[:, :3] * sigmoid(x[:, 3:])),
]


@pytest.mark.parametrize("layer, formula", ACTIVATIONS, ids=[repr(a) for a, _ in ACTIVATIONS])
def test_activations(layer, formula):
    got = layer(torch.from_numpy(X.copy()))
    np.testing.assert_allclose(got.numpy(), formula(X), rtol=1e-6, atol=1e-7)
    smooth = np.array([[-5.7, -2.2, -0.7, -0.3], [0.3, 0.7, 3.3, 7.1]])
    x = torch.from_numpy(smooth).requires_grad_()
    # torch's Hardsigmoid stores 1/6 as float32, which is within these tolerances.
    assert gradcheck(layer, x, atol=1e-5)


@pytest.mark.parametrize(
    "name",
    [
        "relu",
        "relu6",
        "elu",
        "selu",
        "celu",
        "silu",
        "mish",
        "leaky_relu",
        "hardtanh",
        "hardsigmoid",
        "hardswish",
    ],
)
def test_inplace_activations(name):
    function = getattr(F, name)
    x = torch.from_numpy(X.copy())
    expected = function(x)
    assert function(x, inplace=True) is x and torch.equal(x, expected)
    leaf = torch.randn(5, dtype=torch.float64, requires_grad=True)
    (a,) = torch.autograd.grad(function(leaf * 1, inplace=True).sum(), leaf)
    (b,) = torch.autograd.grad(function(leaf).sum(), leaf)
    assert torch.allclose(a, b)


def test_inplace_modules():
    for layer in (nn.ReLU(True), nn.ReLU6(True), nn.ELU(inplace=True), nn.Threshold(0, 1, True)):
        x = torch.ones(2)
        assert layer(x) is x


def test_activation_errors():
    with pytest.raises(RuntimeError, match="Halving dimension must be even"):
        F.glu(torch.ones(2, 3))
    with pytest.warns(UserWarning, match="Implicit dimension choice for softmax"):
        F.softmax(torch.ones(2, 3))
    with pytest.raises(AssertionError, match="must be larger than"):
        nn.Hardtanh(1, 1)
    with pytest.raises(RuntimeError, match=r"lambda must be in range \[0, 3.40282e\+38\]"):
        F.softshrink(torch.ones(1), -1)


def test_prelu():
    x = torch.from_numpy(X.copy())
    assert torch.allclose(F.prelu(x, torch.tensor([0.5]).double()), torch.where(x > 0, x, x / 2))
    weight = torch.arange(6.0, dtype=torch.float64).requires_grad_()
    assert torch.allclose(F.prelu(x, weight), torch.where(x > 0, x, x * weight))
    assert gradcheck(
        F.prelu, (x[:, :5].clone().requires_grad_(), weight[:5].detach().requires_grad_())
    )
    with pytest.raises(RuntimeError, match="number"):
        F.prelu(x, torch.ones(4, dtype=torch.float64))


def test_linear_and_bilinear():
    layer = nn.Linear(3, 4).double()
    x = torch.randn(5, 2, 3, dtype=torch.float64)
    want = x.numpy() @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()
    np.testing.assert_allclose(layer(x).detach().numpy(), want)
    assert nn.Linear(3, 4, bias=False)(torch.ones(3)).shape == (4,)
    layer = nn.Bilinear(3, 2, 4).double()
    y = torch.randn(5, 2, 2, dtype=torch.float64)
    want = np.einsum("abi,oij,abj->abo", x.numpy(), layer.weight.detach().numpy(), y.numpy())
    got = layer(x, y).detach().numpy()
    np.testing.assert_allclose(got, want + layer.bias.detach().numpy())
    with pytest.raises(RuntimeError, match="batch dimensions do not match"):
        layer(x, y[:1])
    with pytest.raises(ValueError, match="in1_features must be > 0"):
        nn.Bilinear(0, 1, 1)


def test_linear_weight_as_plain_attribute():
    layer = nn.Linear(2, 2)
    weight = layer.weight.detach() * 0
    del layer.weight
    layer.weight = weight
    assert torch.equal(layer(torch.ones(2)), layer.bias)


def test_shape_layers():
    assert nn.Flatten()(torch.ones(2, 3, 4)).shape == (2, 12)
    assert nn.Flatten(0, 1)(torch.ones(2, 3, 4)).shape == (6, 4)
    assert nn.Unflatten(1, (3, 4))(torch.ones(2, 12)).shape == (2, 3, 4)
    with pytest.raises(TypeError, match="tuple of ints"):
        nn.Unflatten(1, 3)
    x = torch.ones(1)
    assert nn.Identity(3, a=4)(x) is x


def test_embedding():
    layer = nn.Embedding(5, 3, padding_idx=1)
    index = torch.tensor([[0, 1], [4, 0]])
    out = layer(index)
    assert out.shape == (2, 2, 3) and torch.equal(out[1, 0], layer.weight[4])
    out.sum().backward()
    assert layer.weight.grad[:, 0].tolist() == [2, 0, 0, 0, 1]
    frozen = nn.Embedding.from_pretrained(torch.ones(2, 3))
    assert not frozen.weight.requires_grad and frozen(torch.tensor(1)).tolist() == [1, 1, 1]
    limited = nn.Embedding.from_pretrained(torch.tensor([[3.0, 4.0], [0.3, 0.4]]), max_norm=1.0)
    got = limited(torch.tensor([0, 1, 0]))
    assert torch.allclose(got, torch.tensor([[0.6, 0.8], [0.3, 0.4], [0.6, 0.8]]))
    with pytest.raises(AssertionError, match="within num_embeddings"):
        nn.Embedding(3, 2, padding_idx=3)


def test_norms():
    x = torch.randn(4, 2, 3, dtype=torch.float64)
    layer = nn.LayerNorm((2, 3)).double()
    a = x.numpy()
    mean, var = a.mean((1, 2), keepdims=True), a.var((1, 2), keepdims=True)
    np.testing.assert_allclose(layer(x).detach().numpy(), (a - mean) / np.sqrt(var + 1e-5))
    assert nn.LayerNorm(3, elementwise_affine=False).weight is None
    assert nn.LayerNorm(3, bias=False).bias is None
    layer = nn.RMSNorm(3, eps=1e-3).double()
    want = a / np.sqrt((a * a).mean(-1, keepdims=True) + 1e-3)
    np.testing.assert_allclose(layer(x).detach().numpy(), want)
    with pytest.raises(RuntimeError, match="normalized_shape"):
        nn.RMSNorm(4)(x)


def test_dropout():
    torch.manual_seed(0)
    layer = nn.Dropout(0.25)
    x = torch.ones(10000)
    out = layer(x)
    assert sorted(set(out.tolist())) == pytest.approx([0, 4 / 3])
    assert (out == 0).to(torch.float32).mean().item() == pytest.approx(0.25, abs=0.02)
    assert torch.equal(layer.eval()(x), x)
    assert nn.Dropout(0.5, inplace=True)(x) is x
    for p in (-0.1, 1.1):
        with pytest.raises(ValueError, match="has to be between 0 and 1"):
            nn.Dropout(p)
        with pytest.raises(ValueError, match="has to be between 0 and 1"):
            F.dropout(x, p)


DROPOUTS = ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout")


@pytest.mark.parametrize("name", DROPOUTS)
def test_dropout_that_is_off_takes_a_leaf_in_place(name):
    module = getattr(nn, name)
    x = torch.ones(2, 3, 4, 5, requires_grad=True)
    x = x if name in ("Dropout2d", "Dropout3d", "Dropout") else x[0].detach().requires_grad_()
    assert module(0.4, inplace=True).eval()(x) is x
    assert module(0.0, inplace=True)(x) is x


@pytest.mark.parametrize("inplace", [False, True])
def test_channels_of_dropout3d(inplace):
    for shape, channels in (((2, 30, 2, 2, 2), 2), ((30, 2, 2, 2), 1)):
        torch.manual_seed(0)
        x = torch.ones(shape)
        out = F.dropout3d(x, 0.5, inplace=inplace)
        assert out.shape == shape and (out is x) == inplace
        kept = out.flatten(channels)
        assert torch.equal(kept, kept[..., :1].expand_as(kept))
        assert sorted(set(kept[..., 0].flatten().tolist())) == [0, 2]
        assert torch.equal(F.dropout3d(torch.ones(shape), 0.5, training=False), torch.ones(shape))


RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(5, 4)), RNG.normal(size=(5, 4))
SIGN = np.where(RNG.normal(size=(5, 4)) > 0, 1.0, -1.0)
LOGP = np.log(softmax(A, 1))
P = softmax(B, 1)
CLASSES = np.array([0, 3, 1, 1, 2])
ERROR = np.abs(A - B)
LOSSES = [
    (nn.L1Loss, {}, (A, B), ERROR),
    (nn.MSELoss, {}, (A, B), ERROR**2),
    (nn.SmoothL1Loss, dict(beta=0.7), (A, B), np.where(ERROR < 0.7, ERROR**2 / 1.4, ERROR - 0.35)),
    (
        nn.HuberLoss,
        dict(delta=0.7),
        (A, B),
        np.where(ERROR < 0.7, ERROR**2 / 2, 0.7 * (ERROR - 0.35)),
    ),
    (nn.NLLLoss, {}, (LOGP, CLASSES), -LOGP[np.arange(5), CLASSES]),
    (nn.CrossEntropyLoss, {}, (A, CLASSES), -LOGP[np.arange(5), CLASSES]),
    (
        nn.BCELoss,
        {},
        (sigmoid(A), sigmoid(B)),
        -sigmoid(B) * np.log(sigmoid(A)) - (1 - sigmoid(B)) * np.log(1 - sigmoid(A)),
    ),
    (nn.BCEWithLogitsLoss, {}, (A, sigmoid(B)), softplus(A) - A * sigmoid(B)),
    (nn.KLDivLoss, {}, (LOGP, P), P * (np.log(P) - LOGP)),
    (nn.KLDivLoss, dict(log_target=True), (LOGP, np.log(P)), P * (np.log(P) - LOGP)),
    (nn.PoissonNLLLoss, {}, (A, B**2), np.exp(A) - B**2 * A),
    (nn.GaussianNLLLoss, {}, (A, B, P), 0.5 * (np.log(P) + (A - B) ** 2 / P)),
    (
        nn.CosineEmbeddingLoss,
        dict(margin=0.1),
        (A, B, SIGN[:, 0]),
        np.where(
            SIGN[:, 0] == 1,
            1 - (A * B).sum(1) / np.sqrt((A**2).sum(1) * (B**2).sum(1)),
            np.maximum(0, (A * B).sum(1) / np.sqrt((A**2).sum(1) * (B**2).sum(1)) - 0.1),
        ),
    ),
    (nn.MarginRankingLoss, dict(margin=0.5), (A, B, SIGN), np.maximum(0, -SIGN * (A - B) + 0.5)),
    (
        nn.HingeEmbeddingLoss,
        dict(margin=0.5),
        (A, SIGN),
        np.where(SIGN == 1, A, np.maximum(0, 0.5 - A)),
    ),
    (nn.SoftMarginLoss, {}, (A, SIGN), softplus(-SIGN * A)),
]


@pytest.mark.filterwarnings("ignore:reduction")
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize(
    "kind, kwargs, inputs, expected", LOSSES, ids=[f"{c[0].__name__}{c[1]}" for c in LOSSES]
)
def test_losses(kind, kwargs, inputs, expected, reduction):
    loss = kind(reduction=reduction, **kwargs)
    tensors = [torch.from_numpy(np.array(value)) for value in inputs]
    got = loss(*tensors)
    want = {"none": expected, "sum": expected.sum(), "mean": expected.mean()}[reduction]
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-7, atol=1e-9)
    first = tensors[0].clone().requires_grad_()
    assert gradcheck(lambda x: loss(x, *tensors[1:]), first)


def test_loss_details():
    a, b = torch.from_numpy(A), torch.from_numpy(B)
    weight = torch.from_numpy(P)
    want = (P * (A - B) ** 2).sum() / P.sum()
    assert F.mse_loss(a, b, weight=weight).item() == pytest.approx(want)
    assert F.mse_loss(a, b, size_average=False).item() == pytest.approx(((A - B) ** 2).sum())
    assert F.l1_loss(a, b, reduce=False).shape == (5, 4)
    batch = F.kl_div(torch.from_numpy(LOGP), weight, reduction="batchmean").item()
    assert batch == pytest.approx((P * (np.log(P) - LOGP)).sum() / 5)
    assert F.soft_margin_loss(torch.tensor([-1000.0]), torch.tensor([1.0])).item() == 1000
    zeros = torch.zeros(2, 3, requires_grad=True)
    F.cosine_embedding_loss(zeros, torch.ones(2, 3), torch.ones(2)).backward()
    assert bool(zeros.grad.isfinite().all())
    with pytest.warns(UserWarning, match="target size"):
        F.mse_loss(a, b[0])
    with pytest.raises(ValueError, match="x is not a valid value for reduction"):
        F.smooth_l1_loss(a, b, reduction="x")
    with pytest.raises(ValueError, match="Weights and input must have the same size"):
        F.mse_loss(a, b, weight=weight[0])
    with pytest.raises(ValueError, match="negative entry"):
        F.gaussian_nll_loss(a, b, -weight)
    with pytest.raises(ValueError, match="incorrect size"):
        F.gaussian_nll_loss(a, b, weight[:2])
    with pytest.raises(RuntimeError, match="non-positive values for delta"):
        F.huber_loss(a, b, delta=0.0)


def test_weighted_classification():
    weight = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
    loss = nn.CrossEntropyLoss(weight, ignore_index=3)
    assert list(loss.state_dict()) == ["weight"]
    got = loss(torch.from_numpy(A), torch.from_numpy(CLASSES)).item()
    keep = CLASSES != 3
    w = np.array([1.0, 2, 3, 4])[CLASSES[keep]]
    want = -(w * LOGP[np.arange(5), CLASSES][keep]).sum() / w.sum()
    assert got == pytest.approx(want)
    smooth = nn.CrossEntropyLoss(label_smoothing=0.1)(
        torch.from_numpy(A), torch.from_numpy(CLASSES)
    )
    mixed = 0.9 * LOGP[np.arange(5), CLASSES] + 0.1 * LOGP.mean(1)
    assert smooth.item() == pytest.approx(-mixed.mean())
    pos = nn.BCEWithLogitsLoss(pos_weight=torch.tensor([3.0, 1, 1, 1], dtype=torch.float64))
    target = sigmoid(B)
    factor = np.array([3.0, 1, 1, 1])
    want = (factor * target * softplus(-A) + (1 - target) * softplus(A)).mean()
    assert pos(torch.from_numpy(A), torch.from_numpy(target)).item() == pytest.approx(want)


def test_distances():
    a, b = torch.from_numpy(A), torch.from_numpy(B)
    cos = (A * B).sum(1) / np.sqrt((A**2).sum(1) * (B**2).sum(1))
    np.testing.assert_allclose(F.cosine_similarity(a, b).numpy(), cos)
    np.testing.assert_allclose(nn.CosineSimilarity()(a, b).numpy(), cos)
    dist = np.sqrt(((A - B + 1e-6) ** 2).sum(1))
    np.testing.assert_allclose(nn.PairwiseDistance()(a, b).numpy(), dist)
    np.testing.assert_allclose(F.normalize(a).numpy(), A / np.linalg.norm(A, axis=1, keepdims=True))
    got = F.triplet_margin_loss(a, b, a.roll(1, 0)).item()
    far = np.sqrt(((A - np.roll(A, 1, 0) + 1e-6) ** 2).sum(1))
    assert got == pytest.approx(np.maximum(0, 1 + dist - far).mean())


def test_one_hot():
    assert F.one_hot(torch.tensor([[0, 2]])).tolist() == [[[1, 0, 0], [0, 0, 1]]]
    assert F.one_hot(torch.tensor([1]), 4).tolist() == [[0, 1, 0, 0]]
    for bad, text in (
        (lambda: F.one_hot(torch.tensor([1.0])), "LongTensor"),
        (lambda: F.one_hot(torch.tensor([-1])), "non-negative"),
        (lambda: F.one_hot(torch.tensor([2**63 - 1])), "class value 9223372036854775807 is too"),
        (lambda: F.one_hot(torch.tensor([3]), 2), "smaller than num_classes"),
    ):
        with pytest.raises(RuntimeError, match=text):
            bad()


def test_pad():
    x = torch.arange(4.0).reshape(2, 2).requires_grad_()
    y = F.pad(x, (1, 0, 0, 1), value=9.0)
    assert y.tolist() == [[9, 0, 1], [9, 2, 3], [9, 9, 9]]
    (y * 2).sum().backward()
    assert x.grad.tolist() == [[2, 2], [2, 2]]
    assert F.pad(x, (-1, 0)).tolist() == [[1], [3]]
    with pytest.raises(RuntimeError, match="must be even"):
        F.pad(x, (1,))


def test_gumbel_softmax():
    torch.manual_seed(0)
    logits = torch.randn(4, 3, requires_grad=True)
    soft = F.gumbel_softmax(logits, tau=0.5)
    assert torch.allclose(soft.sum(-1), torch.ones(4))
    hard = F.gumbel_softmax(logits, hard=True)
    assert torch.allclose(hard.max(-1)[0], torch.ones(4))
    (hard * torch.randn(4, 3)).sum().backward()
    assert bool((logits.grad != 0).any())


def np_attention(q, k, v, mask, scale):
    scores = q @ np.swapaxes(k, -1, -2) * scale + mask
    return softmax(scores, -1) @ v


def test_scaled_dot_product_attention():
    q, k, v = (RNG.normal(size=(2, 4, n, 8)) for n in (3, 5, 5))
    tq, tk, tv = map(torch.from_numpy, (q, k, v))
    scale = 1 / math.sqrt(8)
    base = F.scaled_dot_product_attention(tq, tk, tv)
    np.testing.assert_allclose(base.numpy(), np_attention(q, k, v, 0, scale))
    add = RNG.normal(size=(3, 5))
    got = F.scaled_dot_product_attention(tq, tk, tv, attn_mask=torch.from_numpy(add), scale=0.3)
    np.testing.assert_allclose(got.numpy(), np_attention(q, k, v, add, 0.3))
    causal = np.where(np.tril(np.ones((3, 5))) > 0, 0, -np.inf)
    got = F.scaled_dot_product_attention(tq, tk, tv, is_causal=True)
    np.testing.assert_allclose(got.numpy(), np_attention(q, k, v, causal, scale))
    keep = torch.ones(3, 5, dtype=torch.bool)
    keep[0] = False
    got = F.scaled_dot_product_attention(tq, tk, tv, attn_mask=keep)
    assert got[..., 0, :].abs().sum().item() == 0
    np.testing.assert_allclose(got[..., 1:, :].numpy(), base[..., 1:, :].numpy())
    got = F.scaled_dot_product_attention(tq, tk[:, :2], tv[:, :2], enable_gqa=True)
    want = np_attention(q, np.repeat(k[:, :2], 2, 1), np.repeat(v[:, :2], 2, 1), 0, scale)
    np.testing.assert_allclose(got.numpy(), want)
    both = keep & torch.ones(3, 5, dtype=torch.bool).tril()
    want = F.scaled_dot_product_attention(tq, tk, tv, attn_mask=both)
    got = F.scaled_dot_product_attention(tq, tk, tv, attn_mask=keep, is_causal=True)
    np.testing.assert_array_equal(got.numpy(), want.numpy())
    bias = torch.from_numpy(add)
    got = F.scaled_dot_product_attention(tq, tk, tv, attn_mask=bias, is_causal=True)
    np.testing.assert_allclose(got.numpy(), np_attention(q, k, v, add + causal, scale))
    # torch refuses both where its formula runs: three dims, dropout, a mask that requires grad.
    for args, mask, rate in (
        ((tq[0], tk[0], tv[0]), keep, 0.0),
        ((tq, tk, tv), keep, 0.5),
        ((tq, tk, tv), bias.clone().requires_grad_(), 0.0),
    ):
        with pytest.raises(RuntimeError, match="should not be set when is_causal"):
            F.scaled_dot_product_attention(*args, mask, rate, is_causal=True)
    small = [torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    assert gradcheck(lambda a, b, c: F.scaled_dot_product_attention(a, b, c, is_causal=True), small)


@pytest.mark.parametrize(
    "sizes, shapes, message",
    [
        ({}, ((2, 3, 4), (5, 3, 4), (6, 3, 4)), r"key shape .*5, 3, 4.* match value shape .*6, 3"),
        ({}, ((2, 4), (5, 4), (6, 4)), r"key shape .*5, 1, 4.* match value shape .*6, 1, 4"),
        (
            dict(kdim=3, vdim=5),
            ((2, 3, 4), (5, 3, 3), (6, 3, 5)),
            r"batch dims .*5, 3.* do not match value's .*6, 3",
        ),
    ],
)
def test_each_key_has_a_value(sizes, shapes, message):
    layer = nn.MultiheadAttention(4, 2, **sizes)
    with pytest.raises(AssertionError, match=message):
        layer(*(torch.ones(shape) for shape in shapes))


@pytest.mark.parametrize(
    "kwargs",
    [
        dict(),
        dict(bias=False),
        dict(batch_first=True),
        dict(kdim=3, vdim=5),
        dict(add_bias_kv=True, add_zero_attn=True),
    ],
)
def test_multihead_attention(kwargs):
    layer = nn.MultiheadAttention(8, 2, dtype=torch.float64, **kwargs)
    for param in layer.parameters():
        nn.init.normal_(param, std=0.5)
    q = RNG.normal(size=(2, 3, 8))
    k = RNG.normal(size=(2, 5, kwargs.get("kdim", 8)))
    v = RNG.normal(size=(2, 5, kwargs.get("vdim", 8)))
    hidden = np.zeros((2, 5), dtype=bool)
    hidden[1, 3:] = True
    p = {name: value.detach().numpy() for name, value in layer.named_parameters()}
    if "in_proj_weight" in p:
        weights = np.split(p["in_proj_weight"], 3)
    else:
        weights = [p[f"{name}_proj_weight"] for name in "qkv"]
    biases = np.split(p["in_proj_bias"], 3) if "in_proj_bias" in p else [0, 0, 0]
    pq, pk, pv = (x @ w.T + b for x, w, b in zip((q, k, v), weights, biases))
    mask = np.where(hidden, -np.inf, 0)[:, None, None]
    if "bias_k" in p:
        pk = np.concatenate([pk, np.repeat(p["bias_k"], 2, 0), np.zeros((2, 1, 8))], 1)
        pv = np.concatenate([pv, np.repeat(p["bias_v"], 2, 0), np.zeros((2, 1, 8))], 1)
        mask = np.concatenate([mask, np.zeros((2, 1, 1, 2))], -1)

    def heads(x):
        return x.reshape(2, x.shape[1], 2, 4).swapaxes(1, 2)

    weights = softmax(heads(pq) @ heads(pk).swapaxes(-1, -2) / 2 + mask, -1)
    want = (weights @ heads(pv)).swapaxes(1, 2).reshape(2, 3, 8)
    want = want @ p["out_proj.weight"].T + p.get("out_proj.bias", 0)
    inputs = [torch.from_numpy(x) for x in (q, k, v)]
    if not kwargs.get("batch_first"):
        inputs = [x.transpose(0, 1) for x in inputs]
    out, seen = layer(*inputs, key_padding_mask=torch.from_numpy(hidden))
    if not kwargs.get("batch_first"):
        out = out.transpose(0, 1)
    np.testing.assert_allclose(out.detach().numpy(), want)
    np.testing.assert_allclose(seen.detach().numpy(), weights.mean(1))
    _, per_head = layer(*inputs, average_attn_weights=False)
    assert per_head.shape[:2] == (2, 2)
    assert layer(*inputs, need_weights=False)[1] is None


def test_multihead_attention_masks_and_errors():
    layer = nn.MultiheadAttention(4, 2)
    x = torch.randn(3, 4)
    blocked = torch.ones(3, 3, dtype=torch.bool).triu(1)
    out, weights = layer(x, x, x, attn_mask=blocked)
    assert out.shape == (3, 4) and weights[0].tolist() == [1, 0, 0]
    with pytest.raises(RuntimeError, match="shape of the 2D attn_mask"):
        layer(x, x, x, attn_mask=blocked[:2])
    with pytest.raises(AssertionError, match="divisible by num_heads"):
        nn.MultiheadAttention(5, 2)
    with pytest.raises(RuntimeError, match="Need attn_mask"):
        layer(x, x, x, is_causal=True)


REPRS = [
    (nn.Linear(2, 3, bias=False), "Linear(in_features=2, out_features=3, bias=False)"),
    (nn.Bilinear(1, 2, 3), "Bilinear(in1_features=1, in2_features=2, out_features=3, bias=True)"),
    (nn.Identity(), "Identity()"),
    (nn.Flatten(), "Flatten(start_dim=1, end_dim=-1)"),
    (nn.Unflatten(1, (2, 3)), "Unflatten(dim=1, unflattened_size=(2, 3))"),
    (
        nn.Embedding(5, 3, padding_idx=1, max_norm=2.0),
        "Embedding(5, 3, padding_idx=1, max_norm=2.0)",
    ),
    (nn.LayerNorm(4), "LayerNorm((4,), eps=1e-05, elementwise_affine=True, bias=True)"),
    (nn.RMSNorm(4), "RMSNorm((4,), eps=None, elementwise_affine=True)"),
    (nn.Dropout(0.2), "Dropout(p=0.2, inplace=False)"),
    (nn.ReLU(True), "ReLU(inplace=True)"),
    (nn.GELU(), "GELU(approximate='none')"),
    (nn.Softplus(), "Softplus(beta=1.0, threshold=20.0)"),
    (nn.LeakyReLU(0.2, True), "LeakyReLU(negative_slope=0.2, inplace=True)"),
    (nn.Hardtanh(-2, 2), "Hardtanh(min_val=-2, max_val=2)"),
    (nn.Softmax(1), "Softmax(dim=1)"),
    (nn.PReLU(3), "PReLU(num_parameters=3)"),
    (nn.GLU(), "GLU(dim=-1)"),
    (nn.Softshrink(), "Softshrink(0.5)"),
    (nn.CrossEntropyLoss(), "CrossEntropyLoss()"),
    (
        nn.MultiheadAttention(4, 2),
        (
            "MultiheadAttention(\n  (out_proj): NonDynamicallyQuantizableLinear(in_features=4, "
            "out_features=4, bias=True)\n)"
        ),
    ),
    (
        nn.ModuleList([nn.Tanh(), nn.Tanh(), nn.ReLU()]),
        "ModuleList(\n  (0-1): 2 x Tanh()\n  (2): ReLU()\n)",
    ),
    (nn.ModuleDict({"a": nn.Tanh()}), "ModuleDict(\n  (a): Tanh()\n)"),
    (nn.ModuleList(), "ModuleList()"),
]


@pytest.mark.parametrize("layer, expected", REPRS, ids=[type(case[0]).__name__ for case in REPRS])
def test_layer_repr(layer, expected):
    assert repr(layer) == expected


def test_clip_grad():
    params = [
        nn.Parameter(torch.zeros(2)),
        nn.Parameter(torch.zeros(1)),
        nn.Parameter(torch.ones(1)),
    ]
    params[0].grad, params[1].grad = torch.tensor([3.0, 0.0]), torch.tensor([4.0])
    total = nn.utils.clip_grad_norm_(params, 1.0)
    assert total.item() == 5
    assert params[0].grad[0].item() == pytest.approx(0.6, rel=1e-5)
    assert nn.utils.clip_grad_norm_(iter(params), 10.0).item() == pytest.approx(1, rel=1e-5)
    assert params[1].grad.item() == pytest.approx(0.8, rel=1e-5)
    assert nn.utils.clip_grad_norm_(params, 10.0, math.inf).item() == pytest.approx(0.8, rel=1e-5)
    nn.utils.clip_grad_value_(params, 0.5)
    assert params[0].grad.tolist() == [0.5, 0] and params[1].grad.tolist() == [0.5]
    params[0].grad[0] = math.nan
    with pytest.raises(RuntimeError, match="non-finite"):
        nn.utils.clip_grad_norm_(params, 1.0, error_if_nonfinite=True)
    assert nn.utils.clip_grad_norm_([], 1.0).item() == 0


def test_parameter_vector():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    vector = nn.utils.parameters_to_vector(net.parameters())
    assert vector.shape == (9,) and vector.requires_grad
    nn.utils.vector_to_parameters(torch.arange(9.0), net.parameters())
    assert net[1].weight.tolist() == [[6, 7]] and net[1].weight.requires_grad
    assert net[0].bias.tolist() == [4, 5]
    with pytest.raises(TypeError, match="expected cograd.Tensor"):
        nn.utils.vector_to_parameters([1.0], net.parameters())


def test_new_data_of_the_weight_of_instance_norm_does_not_change_the_gradient():
    layer = nn.InstanceNorm1d(3, affine=True).double()
    x = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    (want,) = torch.autograd.grad(layer(x).square().sum(), x)
    out = layer(x).square().sum()
    layer.weight.data = layer.weight.data * 3 + 1
    torch.testing.assert_close(torch.autograd.grad(out, x)[0], want)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_second_derivatives_of_grid_sample_in_three_dims(padding):
    torch.manual_seed(4)
    image = torch.randn(1, 2, 3, 3, 3, dtype=torch.float64, requires_grad=True)
    places = [-0.8, -0.45, -0.21, 0.17, 0.4, 0.71]
    grid = torch.tensor(places, dtype=torch.float64).repeat(2).reshape(1, 1, 2, 2, 3)
    grid.requires_grad_()

    def sample(image, grid):
        return F.grid_sample(image, grid, padding_mode=padding, align_corners=False)

    assert torch.autograd.gradgradcheck(sample, (image, grid))
