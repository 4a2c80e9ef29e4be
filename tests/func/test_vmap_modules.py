# SPDX-License-Identifier: BSD-3-Clause
"""Modules and optimizers under vmap and functional_call."""

import pytest

import cograd as torch
import cograd.nn.functional as F
from cograd import nn, optim
from cograd.func import (
    functional_call,
    grad,
    replace_all_batch_norm_modules_,
    stack_module_state,
    vmap,
)

pytestmark = pytest.mark.filterwarnings("ignore:vmap")

F8 = torch.float64


class Normed(nn.Module):
    """A batch norm in evaluation mode, by buffers."""

    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features))
        self.track_running_stats = True
        self.register_buffer("running_mean", torch.randn(features))
        self.register_buffer("running_var", torch.rand(features) + 0.5)
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        mean, var = self.running_mean, self.running_var
        if self.training or mean is None:
            mean, var = x.mean(0), x.var(0, unbiased=False)
        if self.training and self.running_mean is not None:
            self.running_mean.mul_(0.9).add_(0.1 * mean.detach())
        return (x - mean) / (var + 1e-5).sqrt() * self.weight


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2)

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]


MODULES = {
    "Linear": (lambda: nn.Linear(4, 3), (5, 4)),
    "MLP": (lambda: nn.Sequential(nn.Linear(4, 5), nn.GELU(), nn.Linear(5, 2)), (5, 4)),
    "Bilinear": (lambda: nn.Sequential(nn.Linear(4, 4), nn.PReLU(4), nn.Softplus()), (5, 4)),
    "LayerNorm": (lambda: nn.LayerNorm(4), (5, 4)),
    "RMSNorm": (lambda: nn.RMSNorm(4), (5, 4)),
    "Dropout in evaluation": (lambda: nn.Dropout(0.5).eval(), (5, 4)),
    "batch norm in evaluation": (lambda: Normed(4).eval(), (5, 4)),
    "MultiheadAttention": (Attention, (5, 2, 4)),
    "Softmax": (lambda: nn.Sequential(nn.Linear(4, 4), nn.Softmax(-1)), (5, 4)),
}


def built(name):
    torch.manual_seed(0)
    make, shape = MODULES[name]
    return make().double(), shape


@pytest.mark.parametrize("name", MODULES)
def test_modules_of_samples(name):
    module, shape = built(name)
    x = torch.randn(3, *shape, dtype=F8)
    torch.testing.assert_close(vmap(module)(x), torch.stack([module(a) for a in x]))


@pytest.mark.parametrize("name", MODULES)
def test_gradients_of_parameters_for_each_sample(name):
    module, shape = built(name)
    x = torch.randn(3, *shape, dtype=F8)
    params = {k: p.detach() for k, p in module.named_parameters()}

    def loss(params, a):
        return functional_call(module, params, a).pow(2).sum()

    got = vmap(grad(loss), (None, 0))(params, x)
    for k in params:
        torch.testing.assert_close(got[k], torch.stack([grad(loss)(params, a)[k] for a in x]))


@pytest.mark.parametrize("name", MODULES)
def test_ensembles(name):
    models = []
    for seed in range(3):
        torch.manual_seed(seed)
        make, shape = MODULES[name]
        models.append(make().double())
    params, buffers = stack_module_state(models)
    x = torch.randn(*shape, dtype=F8)
    if not params:
        return
    got = vmap(lambda p, b, x: functional_call(models[0], (p, b), x), (0, 0, None))(
        params, buffers, x
    )
    torch.testing.assert_close(got, torch.stack([m(x) for m in models]))


def test_an_embedding_of_samples():
    torch.manual_seed(0)
    module = nn.Embedding(7, 3, padding_idx=0).double()
    index = torch.randint(0, 7, (4, 5))
    torch.testing.assert_close(vmap(module)(index), module(index))
    weight = module.weight.detach()

    def loss(w, i):
        return functional_call(module, {"weight": w}, i).pow(2).sum()

    want = torch.stack([grad(loss)(weight, i) for i in index])
    torch.testing.assert_close(vmap(grad(loss), (None, 0))(weight, index), want)


@pytest.mark.parametrize("randomness", ["same", "different", "error"])
def test_dropout_in_training(randomness):
    module, x = nn.Dropout(0.5), torch.ones(4, 30)
    if randomness == "error":
        with pytest.raises(RuntimeError, match="called random operation"):
            vmap(module)(x)
        return
    rows = vmap(module, randomness=randomness)(x)
    assert (len({tuple(r.tolist()) for r in rows}) == 1) == (randomness == "same")


def test_running_statistics_of_a_captured_module_are_not_written():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 4), Normed(4)).double()
    x = torch.randn(3, 6, 4, dtype=F8)
    with pytest.raises(RuntimeError, match="vmap: inplace arithmetic"):
        vmap(module)(x)
    assert replace_all_batch_norm_modules_(module) is module
    assert module[1].running_mean is None
    assert not module[1].track_running_stats
    assert "1.running_mean" not in dict(module.named_buffers())
    torch.testing.assert_close(vmap(module)(x), torch.stack([module(a) for a in x]))


@pytest.mark.parametrize(
    "make",
    [
        lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: optim.Adam(p, lr=0.1),
        lambda p: optim.AdamW(p, lr=0.1),
    ],
)
def test_optimizers_take_gradients_of_transforms(make):
    """A step with the gradients of func.grad equals a step with those of backward."""

    def model():
        torch.manual_seed(0)
        return nn.Linear(4, 1).double()

    x = torch.randn(6, 4, dtype=F8)
    one, other = model(), model()
    steps = make(one.parameters()), make(other.parameters())
    for _ in range(3):
        one.zero_grad()
        one(x).pow(2).mean().backward()
        params = dict(other.named_parameters())
        rows = vmap(grad(lambda p, a: functional_call(other, p, a).pow(2).sum()), (None, 0))(
            {k: p.detach() for k, p in params.items()}, x
        )
        for k, p in params.items():
            p.grad = rows[k].mean(0)
        for s in steps:
            s.step()
        torch.testing.assert_close(list(one.parameters()), list(other.parameters()))


def test_an_optimizer_runs_inside_of_a_vmap():
    """Each sample trains its own parameter."""

    def train(target):
        w = (target * 0).requires_grad_()
        opt = optim.SGD([w], lr=0.25)
        for _ in range(3):
            opt.zero_grad()
            ((w - target) ** 2).sum().backward()
            opt.step()
        return w.detach()

    targets = torch.randn(3, 2, dtype=F8)
    torch.testing.assert_close(vmap(train)(targets), torch.stack([train(t) for t in targets]))


def test_losses_of_samples():
    x, y = torch.randn(3, 5, 4, dtype=F8), torch.randint(0, 4, (3, 5))
    for f in (F.cross_entropy, lambda a, b: F.nll_loss(a.log_softmax(-1), b)):
        torch.testing.assert_close(
            vmap(f)(x, y), torch.stack([f(a, b) for a, b in zip(x, y, strict=True)])
        )
