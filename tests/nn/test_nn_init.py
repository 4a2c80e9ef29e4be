# SPDX-License-Identifier: BSD-3-Clause
"""nn.init: bounds, moments, structure and errors."""

import math

import pytest

import cograd as torch
from cograd import nn
from cograd.nn import init


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def moments(t):
    return t.mean().item(), t.std().item()


def test_uniform_and_normal():
    t = torch.empty(20000, dtype=torch.float64)
    assert init.uniform_(t, -2, 4) is t
    assert t.min().item() >= -2 and t.max().item() < 4
    mean, std = moments(t)
    assert mean == pytest.approx(1, abs=0.06) and std == pytest.approx(6 / math.sqrt(12), rel=0.03)
    mean, std = moments(init.normal_(t, 3, 0.5))
    assert mean == pytest.approx(3, abs=0.02) and std == pytest.approx(0.5, rel=0.03)


def test_trunc_normal():
    t = init.trunc_normal_(torch.empty(20000, dtype=torch.float64), 1.0, 2.0, -1.0, 3.0)
    assert t.min().item() >= -1 and t.max().item() <= 3
    mean, std = moments(t)
    # N(0, 1) truncated at +-1 has the standard deviation 0.5396.
    assert mean == pytest.approx(1, abs=0.03) and std == pytest.approx(2 * 0.5396, rel=0.03)
    with pytest.warns(UserWarning, match="more than 2 std"):
        init.trunc_normal_(torch.empty(2), mean=10.0)


def test_constants():
    t = torch.empty(2, 3)
    assert init.constant_(t, 2.5).tolist() == [[2.5] * 3] * 2
    assert init.ones_(t).sum().item() == 6 and init.zeros_(t).sum().item() == 0
    assert init.eye_(t).tolist() == [[1, 0, 0], [0, 1, 0]]
    with pytest.raises(ValueError, match="2 dimensions"):
        init.eye_(torch.empty(3))


def test_dirac():
    t = init.dirac_(torch.empty(4, 2, 3), groups=2)
    expected = torch.zeros(4, 2, 3)
    for row, col in ((0, 0), (1, 1), (2, 0), (3, 1)):
        expected[row, col, 1] = 1
    assert torch.equal(t, expected)
    with pytest.raises(ValueError, match="3, 4, or 5"):
        init.dirac_(torch.empty(2, 2))


@pytest.mark.parametrize(
    "name, kwargs, std",
    [
        ("xavier_uniform_", dict(), math.sqrt(2 / 500)),
        ("xavier_uniform_", dict(gain=2.0), 2 * math.sqrt(2 / 500)),
        ("xavier_normal_", dict(), math.sqrt(2 / 500)),
        ("kaiming_uniform_", dict(), math.sqrt(2 / 200)),
        ("kaiming_uniform_", dict(a=math.sqrt(5)), math.sqrt(1 / 3 / 200)),
        ("kaiming_uniform_", dict(mode="fan_out", nonlinearity="relu"), math.sqrt(2 / 300)),
        ("kaiming_normal_", dict(nonlinearity="linear"), math.sqrt(1 / 200)),
        ("kaiming_normal_", dict(nonlinearity="tanh"), 5 / 3 * math.sqrt(1 / 200)),
    ],
)
def test_scaled(name, kwargs, std):
    t = torch.empty(300, 200)
    getattr(init, name)(t, **kwargs)
    mean, seen = moments(t)
    assert abs(mean) < 0.02 * std and seen == pytest.approx(std, rel=0.02)
    if "uniform" in name:
        assert t.abs().max().item() <= std * math.sqrt(3) * 1.0001


def test_generator():
    def draw(name, seed, **kwargs):
        generator = torch.Generator()
        generator.manual_seed(seed)
        t = torch.empty(5, 5)
        return getattr(init, name)(t, generator=generator, **kwargs)

    for name in (
        "uniform_",
        "normal_",
        "trunc_normal_",
        "xavier_uniform_",
        "xavier_normal_",
        "kaiming_uniform_",
        "kaiming_normal_",
    ):
        assert torch.equal(draw(name, 1), draw(name, 1))
        assert not torch.equal(draw(name, 1), draw(name, 2))
    assert torch.equal(draw("sparse_", 1, sparsity=0.5), draw("sparse_", 1, sparsity=0.5))


def test_sparse():
    t = init.sparse_(torch.empty(10, 4), 0.25)
    assert (t == 0).sum(0).tolist() == [3, 3, 3, 3]


def test_orthogonal():
    if not hasattr(getattr(torch, "linalg", None), "qr"):
        with pytest.raises(NotImplementedError, match="linalg.qr"):
            init.orthogonal_(torch.empty(2, 2))
        return
    for shape in ((3, 5), (5, 3), (4, 2, 2)):
        t = init.orthogonal_(torch.empty(*shape, dtype=torch.float64), gain=2)
        flat = t.reshape(shape[0], -1)
        small = flat.mm(flat.t()) if flat.shape[0] <= flat.shape[1] else flat.t().mm(flat)
        assert torch.allclose(small, 4 * torch.eye(small.shape[0], dtype=torch.float64))


def test_gains():
    assert init.calculate_gain("relu") == math.sqrt(2)
    assert init.calculate_gain("leaky_relu", 0.5) == pytest.approx(math.sqrt(2 / 1.25))
    assert init.calculate_gain("tanh") == 5 / 3 and init.calculate_gain("linear") == 1
    with pytest.raises(ValueError, match="Unsupported nonlinearity x"):
        init.calculate_gain("x")
    with pytest.raises(ValueError, match="not a valid number"):
        init.calculate_gain("leaky_relu", "a")


def test_errors_and_gradients():
    with pytest.raises(ValueError, match="fewer than 2 dimensions"):
        init.xavier_uniform_(torch.empty(3))
    with pytest.raises(ValueError, match="Mode x not supported"):
        init.kaiming_uniform_(torch.empty(3, 3), mode="x")
    with pytest.warns(UserWarning, match="zero-element"):
        init.kaiming_uniform_(torch.empty(0, 3))
    param = nn.Parameter(torch.empty(3, 3))
    init.normal_(param)
    assert param.requires_grad and param.grad_fn is None


def test_layers_start_as_in_torch():
    linear = nn.Linear(100, 400)
    assert linear.weight.abs().max().item() <= 0.1 and linear.bias.abs().max().item() <= 0.1
    assert linear.weight.std().item() == pytest.approx(0.1 / math.sqrt(3), rel=0.03)
    bilinear = nn.Bilinear(25, 3, 50)
    assert bilinear.weight.abs().max().item() <= 0.2 < bilinear.weight.abs().max().item() * 1.05
    table = nn.Embedding(200, 50, padding_idx=-1)
    assert table.padding_idx == 199 and table.weight[199].abs().sum().item() == 0
    assert table.weight[:199].std().item() == pytest.approx(1, rel=0.05)
    norm = nn.LayerNorm(5)
    assert norm.weight.tolist() == [1] * 5 and norm.bias.tolist() == [0] * 5
    assert nn.PReLU(2).weight.tolist() == [0.25] * 2
