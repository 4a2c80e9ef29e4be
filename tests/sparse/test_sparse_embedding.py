# SPDX-License-Identifier: BSD-3-Clause
"""Embeddings with sparse gradients, and the optimizers that step by them."""

import io

import pytest

import cograd as torch
from cograd import nn, optim
from cograd.autograd import gradcheck

INDEX = torch.tensor([[1, 3, 1], [0, 3, 4]])


def table(rows=6, **options):
    layer = nn.Embedding(rows, 2, sparse=True, **options)
    with torch.no_grad():
        layer.weight.copy_(torch.arange(rows * 2.0).reshape(rows, 2) / 7)
    return layer


def test_gradients_are_sparse_and_add_up():
    layer = table()
    layer(INDEX).square().sum().backward()
    g = layer.weight.grad
    assert g.layout == torch.sparse_coo and g.is_sparse and g.shape == (6, 2) and g._nnz() == 6
    assert g._indices().tolist() == [[1, 3, 1, 0, 3, 4]] and not g.is_coalesced()
    count = torch.bincount(INDEX.flatten(), minlength=6)[:, None]
    want = 2 * layer.weight.detach() * count
    torch.testing.assert_close(g.to_dense(), want)
    layer(INDEX).square().sum().backward()
    assert layer.weight.grad._nnz() == 12
    torch.testing.assert_close(layer.weight.grad.to_dense(), 2 * want)
    layer.weight.sum().backward()
    assert layer.weight.grad.layout == torch.strided
    torch.testing.assert_close(layer.weight.grad, 2 * want + 1)
    layer(INDEX).square().sum().backward()
    torch.testing.assert_close(layer.weight.grad, 3 * want + 1)


def test_one_backward_with_both_kinds_of_gradients():
    layer = table()
    (layer(INDEX).sum() + layer.weight.sum() + layer(INDEX[0]).sum()).backward()
    count = torch.bincount(torch.cat((INDEX.flatten(), INDEX[0])), minlength=6)
    torch.testing.assert_close(layer.weight.grad[:, 0], 1.0 + count)
    layer = table()
    (layer(INDEX).sum() + layer(INDEX[0]).sum()).backward()
    assert layer.weight.grad.is_sparse
    torch.testing.assert_close(layer.weight.grad.to_dense()[:, 0], count.float())


def test_zero_grad_clip_and_hooks():
    layer = table()
    seen = []
    layer.weight.register_hook(lambda g: seen.append(g) or g * 2)
    layer(INDEX).sum().backward()
    assert seen[0].is_sparse
    torch.testing.assert_close(layer.weight.grad.to_dense(), 2 * seen[0].to_dense())
    norm = layer.weight.grad.to_dense().norm()
    got = nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
    torch.testing.assert_close(got, norm)
    torch.testing.assert_close(layer.weight.grad.to_dense().norm(), torch.tensor(1.0))
    optim.SGD(layer.parameters(), lr=1.0).zero_grad(set_to_none=False)
    assert layer.weight.grad.is_sparse and layer.weight.grad._nnz() == 0
    layer.zero_grad()
    assert layer.weight.grad is None


def test_padding_and_other_options():
    layer = table(padding_idx=1)
    layer(INDEX).sum().backward()
    assert layer.weight.grad._indices().tolist() == [[3, 0, 3, 4]]
    with pytest.raises(RuntimeError, match="scale_grad_by_freq not supported with sparse"):
        table(scale_grad_by_freq=True)(INDEX)
    layer = table(max_norm=0.5)
    layer(INDEX).sum().backward()
    assert layer.weight[4].norm() <= 0.5001 and layer.weight[5].norm() > 1
    with pytest.raises(IndexError):
        table()(torch.tensor([9]))
    with torch.no_grad():
        assert not table()(INDEX).requires_grad


def test_tables_that_are_no_leaves_get_dense_gradients():
    w = torch.ones(6, 2, dtype=torch.float64, requires_grad=True)

    def f(w):
        return nn.functional.embedding(INDEX, w * 2, sparse=True).square()

    f(w).sum().backward()
    assert w.grad.layout == torch.strided
    assert gradcheck(f, (w,))
    rows = torch.func.grad(lambda w: nn.functional.embedding(INDEX, w, sparse=True).sum())(w)
    torch.testing.assert_close(rows[:, 0], torch.bincount(INDEX.flatten(), minlength=6).double())


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("padding", [None, 1])
def test_bags(mode, padding):
    layers = [
        nn.EmbeddingBag(6, 2, mode=mode, sparse=s, padding_idx=padding) for s in (True, False)
    ]
    layers[1].load_state_dict(layers[0].state_dict())
    offsets = torch.tensor([0, 2, 2, 5])
    for args in ((INDEX,), (INDEX.flatten(), offsets)):
        outs = [layer(*args) for layer in layers]
        torch.testing.assert_close(*outs)
        for layer, out in zip(layers, outs):
            layer.zero_grad()
            (out * torch.arange(out.numel()).reshape(out.shape)).sum().backward()
        assert layers[0].weight.grad.is_sparse
        torch.testing.assert_close(layers[0].weight.grad.to_dense(), layers[1].weight.grad)


def test_bags_with_factors():
    factors = [torch.rand(2, 3, requires_grad=True)]
    factors.append(factors[0].detach().clone().requires_grad_())
    weights = [torch.randn(6, 2).requires_grad_()]
    weights.append(weights[0].detach().clone().requires_grad_())
    for w, p, sparse in zip(weights, factors, (True, False)):
        out = nn.functional.embedding_bag(INDEX, w, mode="sum", per_sample_weights=p, sparse=sparse)
        out.square().sum().backward()
    torch.testing.assert_close(weights[0].grad.to_dense(), weights[1].grad)
    torch.testing.assert_close(factors[0].grad, factors[1].grad)
    with pytest.raises(ValueError, match="max mode does not support sparse"):
        nn.functional.embedding_bag(INDEX, weights[0], mode="max", sparse=True)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {}),
        ("SGD", {"momentum": 0.9, "dampening": 0.1}),
        ("SGD", {"momentum": 0.9, "nesterov": True}),
        ("SGD", {"maximize": True}),
        ("Adagrad", {}),
        ("Adagrad", {"lr_decay": 0.1, "initial_accumulator_value": 0.2}),
    ],
)
def test_steps_equal_those_by_dense_gradients(name, options):
    layers = [nn.Embedding(6, 2, sparse=s) for s in (True, False)]
    for layer in layers:
        layer.weight.data.copy_(table().weight.data)
    steps = [getattr(optim, name)(x.parameters(), lr=0.05, **options) for x in layers]
    for index in (INDEX, INDEX, INDEX):
        for layer, step in zip(layers, steps):
            step.zero_grad()
            layer(index).square().sum().backward()
            step.step()
    torch.testing.assert_close(layers[0].weight, layers[1].weight)
    assert torch.equal(layers[0].weight[5], table().weight[5])


def test_sparse_adam_changes_only_rows_with_a_gradient():
    layer, other = table(), nn.Embedding(6, 2)
    other.weight.data.copy_(layer.weight.data)
    a = optim.SparseAdam(layer.parameters(), lr=0.05)
    b = optim.Adam(other.parameters(), lr=0.05)
    for _ in range(3):
        for net, step in ((layer, a), (other, b)):
            step.zero_grad()
            net(INDEX).square().sum().backward()
            step.step()
    rows = [0, 1, 3, 4]
    torch.testing.assert_close(layer.weight[rows], other.weight[rows], rtol=1e-5, atol=1e-6)
    state = a.state[layer.weight]
    assert state["step"] == 3 and (state["exp_avg"][2] == 0).all()
    before = layer.weight.detach().clone()
    a.zero_grad()
    layer(torch.tensor([1])).sum().backward()
    a.step()
    changed = (layer.weight != before).any(1)
    assert changed.tolist() == [False, True, False, False, False, False]
    file = io.BytesIO()
    torch.save(a.state_dict(), file, format="torch")
    file.seek(0)
    new = optim.SparseAdam(layer.parameters(), lr=0.1)
    new.load_state_dict(torch.load(file))
    assert new.state[layer.weight]["step"] == 4


def test_what_optimizers_refuse():
    layer = table()
    layer(INDEX).sum().backward()
    for name in (
        "Adam",
        "AdamW",
        "RMSprop",
        "Adadelta",
        "Adamax",
        "NAdam",
        "RAdam",
        "Rprop",
        "ASGD",
    ):
        with pytest.raises(RuntimeError, match="does not support sparse gradients"):
            getattr(optim, name)(layer.parameters()).step()
    for name in ("SGD", "Adagrad"):
        with pytest.raises(RuntimeError, match="weight_decay option is not compatible"):
            getattr(optim, name)(layer.parameters(), weight_decay=0.1).step()
    dense = torch.ones(2, requires_grad=True)
    dense.sum().backward()
    with pytest.raises(RuntimeError, match="does not support dense gradients"):
        optim.SparseAdam([dense]).step()
    with pytest.raises(ValueError, match="requires dense parameter tensors"):
        optim.SparseAdam([torch.eye(2).to_sparse()])
    for options, text in (
        ({"lr": 0.0}, "learning rate"),
        ({"eps": 0.0}, "epsilon"),
        ({"betas": (1.0, 0.5)}, "beta"),
    ):
        with pytest.raises(ValueError, match=text):
            optim.SparseAdam([dense], **options)


def test_groups_with_both_kinds_and_lbfgs():
    layer, linear = table(), nn.Linear(2, 1)
    step = optim.SGD([*layer.parameters(), *linear.parameters()], lr=0.1, momentum=0.5)
    before = linear.weight.detach().clone()
    for _ in range(2):
        step.zero_grad()
        linear(layer(INDEX)).sum().backward()
        step.step()
    assert not torch.equal(before, linear.weight)
    assert step.state[layer.weight]["momentum_buffer"].is_sparse
    layer = table()
    lbfgs = optim.LBFGS(layer.parameters(), lr=0.1)

    def closure():
        lbfgs.zero_grad()
        loss = layer(INDEX).square().sum()
        loss.backward()
        return loss

    assert lbfgs.step(closure) > closure()


def test_gradients_with_a_history():
    layer = table()
    (g,) = torch.autograd.grad(layer(INDEX).pow(3).sum(), layer.weight, create_graph=True)
    assert g.is_sparse and g.requires_grad
    (second,) = torch.autograd.grad(g.coalesce().values().sum(), layer.weight)
    count = torch.bincount(INDEX.flatten(), minlength=6)[:, None]
    torch.testing.assert_close(second.to_dense(), 6 * layer.weight.detach() * count)
    layer.weight.grad = None
    layer(INDEX).pow(2).sum().backward(create_graph=True)
    assert layer.weight.grad.requires_grad
