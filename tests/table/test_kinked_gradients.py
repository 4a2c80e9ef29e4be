# SPDX-License-Identifier: BSD-3-Clause
"""Gradients of piecewise linear ops, differentiated again: zeros with a graph, as in torch."""

import json
import pathlib

import pytest
from conftest import leaf, same
from op_table import OPS, TABLE, arguments, call, is_float, results, samples_of, tensors_in

import cograd as torch
import cograd.nn.functional as F
from cograd import func
from cograd.autograd import functional, grad

# Recorded from torch 2.13: op -> sample -> a letter for each float argument. r: the gradient of the
# results' sum has a derivative with respect to it; z: this derivative is 0; others: it has none.
RECORDED = json.loads(
    (pathlib.Path(__file__).parents[1] / "recorded" / "second_derivatives.json").read_text()
)


def total(t):
    return t.real.sum() if t.is_complex() else t.sum()


def second_derivative(record, sample, i):
    """Returns the gradient of float argument i, and the gradient of that."""
    args, kwargs = arguments(record, sample)
    x = [t for t in tensors_in((args, kwargs)) if is_float(t)][i].requires_grad_()
    if record["name"].endswith("_"):
        args = tuple(t.clone() if t is x else t for t in args)
    found = results(call(OPS.function(record), args, kwargs))
    loss = sum(total(t) * 1.3 for t in found if t.requires_grad)
    (g,) = grad(loss, x, create_graph=True)
    assert g.requires_grad, f"{record['name']}({sample}): the gradient by {i} has no graph"
    return g, grad(total(g) * 1.3, x)[0]


@pytest.mark.parametrize(
    "record",
    [pytest.param(r, id=r["name"]) for r in TABLE if r["differentiable"] and r["name"] in RECORDED],
)
def test_gradients_may_be_differentiated_where_torch_lets_them(record):
    want = RECORDED[record["name"]]
    for sample in samples_of(record):
        for i, letter in enumerate(want.get(sample, "")):
            if letter in "rz":
                _, second = second_derivative(record, sample, i)
                zero = not (second.abs() > 5e-7).any()
                assert zero == (letter == "z"), f"{record['name']}({sample}), {i}: {second}"


def test_what_was_recorded_is_still_there():
    samples = {r["name"]: samples_of(r) for r in TABLE}
    found = sum(s in samples.get(name, ()) for name, of in RECORDED.items() for s in of)
    assert found > 0.9 * sum(map(len, RECORDED.values()))


X = torch.tensor(
    [[[-1.1, 0.3, 2.0, -0.2, 0.7, -3.5], [0.9, -0.6, 4.0, 1.2, -2.0, 7.0]]], dtype=torch.float64
)
TARGET = torch.tensor([[[0.1, 0.4, -2.0, 0.0, 3.0, 1.0], [0.0, 0.0, 1.0, -1.0, 2.0, 9.0]]])
IMAGE = torch.arange(32.0, dtype=torch.float64).sin().reshape(1, 2, 4, 4)
KINKED = {
    "relu": (F.relu, X),
    "relu_": (lambda x: F.relu_(x * 1), X),
    "relu_ of a view": (lambda x: written(x, F.relu_), X),
    "leaky_relu": (F.leaky_relu, X),
    "leaky_relu_ of a view": (lambda x: written(x, F.leaky_relu_), X),
    "relu6": (F.relu6, X),
    "rrelu": (F.rrelu, X),
    "rrelu, training": (lambda x: F.rrelu(x, training=True), X),
    "prelu": (lambda x: F.prelu(x, torch.tensor([0.3], dtype=x.dtype)), X),
    "hardtanh": (F.hardtanh, X),
    "hardsigmoid": (F.hardsigmoid, X),
    "hardshrink": (F.hardshrink, X),
    "softshrink": (F.softshrink, X),
    "threshold": (lambda x: F.threshold(x, 0.1, 0.5), X),
    "l1_loss": (lambda x: F.l1_loss(x, TARGET.to(x.dtype)), X),
    "huber_loss": (lambda x: F.huber_loss(x * 9, TARGET.to(x.dtype), delta=1e-9), X),
    "batch_norm, evaluation": (lambda x: F.batch_norm(x, X.new_ones(2), X.new_ones(2)), X),
    "nll_loss": (lambda x: F.nll_loss(x[0], torch.tensor([1, 4])), X),
    "max_pool1d": (lambda x: F.max_pool1d(x, 2), X),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), IMAGE),
    "max_pool2d with indices": (lambda x: F.max_pool2d(x, 2, return_indices=True)[0], IMAGE),
    "max_pool3d": (lambda x: F.max_pool3d(x, (1, 2, 2)), IMAGE),
    "adaptive_max_pool1d": (lambda x: F.adaptive_max_pool1d(x, 4), X),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, 3), IMAGE),
    "adaptive_max_pool3d": (lambda x: F.adaptive_max_pool3d(x, (1, 3, 3)), IMAGE),
    "fractional_max_pool2d": (lambda x: F.fractional_max_pool2d(x, 2, output_size=2), IMAGE),
    "avg_pool1d": (lambda x: F.avg_pool1d(x, 2), X),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), IMAGE),
    "adaptive_avg_pool1d": (lambda x: F.adaptive_avg_pool1d(x, 4), X),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 3), IMAGE),
    "interpolate, area": (lambda x: F.interpolate(x, size=3, mode="area"), IMAGE),
    "pad, reflect": (lambda x: F.pad(x, (1, 2), mode="reflect"), X),
    "pad, replicate": (lambda x: F.pad(x, (1, 2), mode="replicate"), X),
    "pad of nothing": (lambda x: F.pad(x, (0, 0), mode="reflect"), X),
    "polar": (lambda x: torch.polar(x, TARGET.to(x.dtype)).real, X),
}
DRAWN = ("rrelu, training", "fractional_max_pool2d")  # jacrev requires vmap's randomness
kinked = pytest.mark.parametrize("f,x", KINKED.values(), ids=KINKED)


def written(x, f_):
    y = x * 1
    f_(y[..., 1:])
    return y


@kinked
def test_zeros_with_a_graph(f, x):
    x = x.clone().requires_grad_()
    (g,) = grad(f(x).sum(), x, create_graph=True)
    assert g.requires_grad
    (second,) = grad(g.square().sum(), x, create_graph=True)
    assert same(second, torch.zeros_like(x))
    (plain,) = grad(f(x).sum(), x)
    assert not plain.requires_grad and plain.grad_fn is None


@kinked
def test_where_another_tensor_takes_part(f, x):
    x, w = x.clone().requires_grad_(), leaf(2.0)
    torch.manual_seed(0)
    (g,) = grad((f(x) * w).sum(), x, create_graph=True)
    by_x, by_w = grad(g.sum(), (x, w))
    torch.manual_seed(0)
    assert same(by_x, torch.zeros_like(x))
    assert same(by_w, grad(f(x).sum(), x)[0].sum().item())


@pytest.mark.parametrize(
    "f,x",
    [v for k, v in KINKED.items() if k not in DRAWN],
    ids=[k for k in KINKED if k not in DRAWN],
)
def test_transforms(f, x):
    def loss(x):
        return (f(x) * x.sum()).sum()

    want = func.jacrev(func.jacfwd(loss))(x)
    numeric = finite_hessian(loss, x)
    assert same(want, numeric, tol=1e-5)
    for found in (
        func.hessian(loss)(x),
        func.jacrev(func.jacrev(loss))(x),
        func.jacfwd(func.jacrev(loss))(x),
        func.jacrev(func.jacrev(loss), chunk_size=2)(x),
        functional.hessian(loss, x),
        functional.hessian(loss, x, vectorize=True),
    ):
        assert same(found, want)
    two = torch.stack([x, x])
    assert same(func.vmap(func.hessian(loss))(two), torch.stack([want, want]))


def finite_hessian(loss, x, eps=1e-5):
    rows = []
    for step in torch.eye(x.numel(), dtype=x.dtype).reshape(-1, *x.shape) * eps:
        ends = []
        for at in (x + step, x - step):
            at.requires_grad_()
            ends.append(grad(loss(at), at)[0])
        rows.append((ends[0] - ends[1]) / (2 * eps))
    return torch.stack(rows).reshape(*x.shape, *x.shape)


def test_the_penalty_on_a_critics_gradient():
    torch.manual_seed(0)
    critic = torch.nn.Sequential(
        torch.nn.ReflectionPad2d(1), torch.nn.MaxPool2d(2), torch.nn.LeakyReLU(0.2)
    ).double()
    x = IMAGE.clone().requires_grad_()
    (g,) = grad(critic(x).sum(), x, create_graph=True)
    ((g.flatten(1).norm(2, dim=1) - 1) ** 2).mean().backward()
    assert same(x.grad, torch.zeros_like(x))


def test_batched_cotangents():
    x = X.clone().requires_grad_()
    y = F.relu(x)
    rows = torch.eye(x.numel(), dtype=x.dtype).reshape(-1, *x.shape)
    (g,) = grad(y, x, rows, create_graph=True, is_grads_batched=True)
    assert g.requires_grad and g.shape == rows.shape
    (second,) = grad(g.square().sum(), x)
    assert same(second, torch.zeros_like(x))
