# SPDX-License-Identifier: BSD-3-Clause
"""cross, renorm, polygamma, embedding with max_norm, and the node names of torch."""

import math

import numpy as np
import pytest

import cograd as torch
from cograd import func, nn
from cograd.autograd import gradcheck, gradgradcheck
from cograd.func import functional_call

F8 = torch.float64
F = torch.nn.functional
LOOK_UP = nn.Embedding(4, 3, max_norm=1.0, dtype=F8)


def rand(*shape, seed=0):
    return torch.tensor(np.random.default_rng(seed).normal(size=shape), dtype=F8)


def test_cross_values_and_errors():
    a, b = rand(4, 3), rand(1, 3, seed=1)
    want = np.cross(a.numpy(), b.numpy())
    np.testing.assert_allclose(torch.linalg.cross(a, b).numpy(), want)
    np.testing.assert_allclose(torch.cross(a.mT, b.mT).numpy(), want.T)
    np.testing.assert_allclose(a.cross(b, dim=1).numpy(), want)
    out = torch.empty(0, dtype=F8)
    assert torch.linalg.cross(a, b, out=out) is out and out.shape == (4, 3)
    for f, args, text in (
        (torch.linalg.cross, (a, b[0]), "same number of dimensions"),
        (torch.linalg.cross, (a.mT, b.mT), "must have length 3. Got 4 and 1"),
        (torch.cross, (rand(2, 4), rand(2, 4)), "no dimension of size 3"),
    ):
        with pytest.raises(RuntimeError, match=text):
            f(*args)


def test_cross_gradients():
    a, b = rand(2, 3).requires_grad_(), rand(1, 3, seed=1).requires_grad_()
    assert gradcheck(torch.linalg.cross, (a, b)) and gradgradcheck(torch.linalg.cross, (a, b))


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, math.inf])
def test_renorm(p):
    x = rand(4, 2, 3)
    got = torch.renorm(x, p, 0, 1.0)
    rows = x.reshape(4, -1).numpy()
    norms = np.linalg.norm(rows, p, axis=1, keepdims=True)
    want = np.where(norms > 1, rows / (norms + 1e-7), rows)
    np.testing.assert_allclose(got.reshape(4, -1).numpy(), want, rtol=1e-12)
    y = x.clone()
    assert y.renorm_(p, 0, 1.0) is y and torch.equal(y, got)
    x.requires_grad_()
    assert gradcheck(lambda x: torch.renorm(x, p, 0, 1.0), (x,))
    assert gradcheck(lambda x: (x * 1).renorm_(p, 0, 1.0), (x,))


def test_renorm_errors():
    x = rand(2, 2)
    for args, text in (((0, 0, 1.0), "non-positive"), ((2, 0, -1.0), "maxnorm to be >= 0")):
        with pytest.raises(RuntimeError, match=text):
            torch.renorm(x, *args)
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        torch.renorm(x[0], 2, 0, 1.0)


def test_polygamma_values():
    x = torch.tensor([0.5, 1.0, 30.0], dtype=F8)
    zeta3, pi2 = 1.2020569031595942, math.pi**2
    assert torch.polygamma(0, x).tolist() == torch.digamma(x).tolist()
    np.testing.assert_allclose(torch.polygamma(1, x)[:2].tolist(), [pi2 / 2, pi2 / 6])
    np.testing.assert_allclose(torch.polygamma(2, x)[:2].tolist(), [-14 * zeta3, -2 * zeta3])
    np.testing.assert_allclose(x.polygamma(3)[:2].tolist(), [math.pi**4, math.pi**4 / 15])
    # psi_n(x + 1) = psi_n(x) + (-1)^n n! / x^(n + 1), also below 0
    for n in (1, 2, 3, 6):
        z = torch.tensor([-2.6, -0.3, 0.7, 11.0], dtype=F8)
        step = (-1) ** n * math.factorial(n) / z ** (n + 1)
        left, right = torch.polygamma(n, z + 1), torch.polygamma(n, z) + step
        np.testing.assert_allclose(left.numpy(), right.numpy(), rtol=1e-9)
    assert torch.polygamma(1, torch.tensor(0.0)).item() == math.inf
    assert torch.polygamma(1, torch.tensor([1, 2])).dtype is torch.float32
    with pytest.raises(RuntimeError, match="negative n"):
        torch.polygamma(-1, x)


@pytest.mark.parametrize("n", [0, 1, 2, 4])
def test_polygamma_gradients(n):
    x = torch.tensor([0.6, 1.7, -0.4], dtype=F8, requires_grad=True)
    assert gradcheck(lambda x: torch.polygamma(n, x), (x,))
    assert gradcheck(lambda x: (x * 1).polygamma_(n), (x,))


def test_embedding_max_norm():
    index = torch.tensor([[0, 2], [2, 2]])
    for weight in (rand(4, 3) * 3, (rand(3, 4) * 3).mT):
        before, version = weight.clone(), weight._version
        got = F.embedding(index, weight, max_norm=1.0)
        assert weight._version == version + 1
        assert torch.equal(weight[[1, 3]], before[[1, 3]])
        rows = before[[0, 2]]
        want = rows / (rows.norm(dim=1, keepdim=True) + 1e-7)
        np.testing.assert_allclose(weight[[0, 2]].numpy(), want.numpy(), rtol=1e-12)
        assert torch.equal(got, weight[index])
    leaf = (rand(4, 3) * 3).requires_grad_()
    F.embedding(index, leaf, max_norm=1.0, norm_type=1.0).sum().backward()
    assert leaf.grad[:, 0].tolist() == [1, 0, 3, 0]
    assert leaf[0].abs().sum().item() == pytest.approx(1)
    untouched = leaf.detach().clone()
    with pytest.raises(IndexError, match="got 9 for 4 rows"):
        F.embedding(torch.tensor([1, 9]), leaf, max_norm=0.1)
    assert torch.equal(leaf.detach(), untouched)


MANY = torch.tensor([0, 2, 2])


def limited(weight, index=MANY):
    return F.embedding(index, weight, max_norm=1.0).pow(2).sum()


def test_embedding_max_norm_of_an_argument_of_a_transform():
    """The argument is written, as in torch; what the function captured is not."""
    weight = rand(4, 3) * 3
    plain = weight.clone().requires_grad_()
    limited(plain).backward()
    for transform in (
        func.grad,
        func.jacrev,
        lambda f: lambda w: func.vjp(f, w)[1](torch.ones((), dtype=F8))[0],
        lambda f: func.grad(lambda w: functional_call(LOOK_UP, {"weight": w}, MANY).pow(2).sum()),
    ):
        mine = weight.clone()
        np.testing.assert_allclose(transform(limited)(mine).numpy(), plain.grad.numpy())
        assert torch.equal(mine, plain.detach())
    second = func.hessian(limited)(weight.clone()).reshape(12, 12)
    assert second.diag().tolist() == [2] * 3 + [0] * 3 + [4] * 3 + [0] * 3
    with pytest.raises(RuntimeError, match="embedding_renorm_.*captured"):
        func.grad(lambda x: (limited(weight) * x).sum())(torch.ones(3))


def test_embedding_max_norm_of_a_weight_for_each_sample():
    weights = torch.stack([rand(4, 3) * 3, rand(4, 3, seed=1) * 0.1])
    each, rows = [], weights.clone()
    for row in rows:
        each.append(func.grad(limited)(row))
    for transform in (func.vmap(func.grad(limited)), func.vmap(func.jacrev(limited))):
        mine = weights.clone()
        assert torch.equal(transform(mine), torch.stack(each))
        assert torch.equal(mine, rows)
    last = weights.movedim(0, 2).contiguous()
    assert torch.equal(func.vmap(limited, in_dims=2)(last), func.vmap(limited)(weights.clone()))
    assert torch.equal(last.movedim(2, 0), rows)
    index = torch.tensor([[0, 1], [2, 3]])
    got = func.vmap(limited)(weights.clone(), index)
    assert torch.equal(got, torch.stack([limited(w.clone(), i) for w, i in zip(weights, index)]))
    for f in (limited, func.grad(limited)):
        with pytest.raises(RuntimeError, match="input has a value for each sample|reads values"):
            func.vmap(f, in_dims=(None, 0))(weights[0], index)


def test_embedding_scale_grad_by_freq():
    w = torch.ones(3, 2, requires_grad=True)
    F.embedding(torch.tensor([0, 2, 2]), w, scale_grad_by_freq=True).sum().backward()
    assert w.grad.tolist() == [[1, 1], [0, 0], [1, 1]]


NAMES = {
    "x.mean()": "MeanBackward0",
    "x.mean(0)": "MeanBackward1",
    "x.prod()": "ProdBackward0",
    "x.prod(0)": "ProdBackward1",
    "x.max()": "MaxBackward1",
    "x.min(0)[0]": "MinBackward0",
    "x.median()": "MedianBackward0",
    "x.median(0)[0]": "MedianBackward1",
    "x.clamp(0, 1)": "ClampBackward1",
    "x.clamp(x, x)": "ClampBackward0",
    "x.clamp_min(0)": "ClampMinBackward0",
    "x.clamp_max(x)": "ClampMaxBackward1",
    "x ** 2": "PowBackward0",
    "x ** x": "PowBackward1",
    "2 ** x": "PowBackward2",
    "torch.rot90(x)": "Rot90Backward0",
    "torch.diag(x)": "DiagonalBackward0_copy",
    "torch.diag(x[0])": "DiagEmbedBackward0",
    "torch.kron(x, x)": "UnsafeViewBackward0",
    "torch.linalg.cross(x, x)": "LinalgCrossBackward0",
    "x.squeeze()": "SqueezeBackward0",
    "x.squeeze(0)": "SqueezeBackward1",
    "x.squeeze((0, 1))": "SqueezeBackward2",
}


@pytest.mark.parametrize("call", NAMES)
def test_node_names(call):
    x = rand(3, 3).requires_grad_()
    assert eval(call, {"torch": torch, "x": x}).grad_fn.name() == NAMES[call]


def test_to_other():
    x = torch.ones(2, dtype=torch.int64)
    other = torch.zeros(1, dtype=F8)
    assert x.to(other).dtype is F8 and x.to(other=other).dtype is F8
    assert x.to(x) is x and x.to(x, copy=True) is not x
