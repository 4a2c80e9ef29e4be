# SPDX-License-Identifier: BSD-3-Clause
"""jit.trace and trace_module: what runs, what is checked, what is shared."""

import copy
import pickle

import pytest

import cograd as torch
from cograd import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(8, 4))
        self.register_buffer("scale", torch.ones(1))
        self.register_buffer("hidden", torch.ones(1), persistent=False)

    def forward(self, x):
        y = self.norm(self.conv(x)) * 1
        y += 1
        y[:, 0] = 2
        y = y.mean((2, 3)).view(x.size(0), -1)
        return self.head(y) * torch.tensor(2.0) * self.scale * self.hidden

    def features(self, x):
        return self.conv(x) * torch.tensor([3.0])


def images(n, size=8):
    return torch.arange(n * 3.0 * size * size).view(n, 3, size, size).sin()


def test_module():
    model = Net()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    traced = torch.jit.trace(model, images(2))
    for key, value in model.state_dict().items():
        assert torch.equal(value, before[key])
    assert isinstance(traced, torch.jit.ScriptModule)
    assert traced.original_name == "Net"
    assert [name for name, _ in traced.named_modules()] == [n for n, _ in model.named_modules()]
    assert list(traced.state_dict()) == list(model.state_dict())
    assert all(p is q for p, q in zip(traced.parameters(), model.parameters(), strict=True))
    x = images(5, 6)
    assert torch.equal(traced(x), model(x))
    assert traced.norm.num_batches_tracked == 2
    traced(x).sum().backward()
    found = [p.grad for p in model.parameters()]
    model.zero_grad()
    model(x).sum().backward()
    for a, b in zip(found, model.parameters(), strict=True):
        torch.testing.assert_close(a, b.grad)
    assert "conv2d = cograd.conv2d(x, conv_weight" in traced.code
    assert [n.name for n in traced.graph.find_nodes(op="placeholder")] == ["x"]


def test_copies():
    traced = torch.jit.trace(Net().eval(), images(2))
    for other in (copy.deepcopy(traced), pickle.loads(pickle.dumps(traced))):
        assert torch.equal(other(images(3)), traced(images(3)))
        assert other.conv.weight is not traced.conv.weight
        with torch.no_grad():
            other.conv.weight.zero_()
        assert traced.conv.weight.any()
    assert traced.double()(images(1).double()).dtype is torch.float64


def test_function():
    def scaled(x, pair):
        return x * pair[0].sum() + 1, (pair[1],)

    traced = torch.jit.trace(scaled, (torch.ones(2), (torch.ones(3), torch.zeros(1))))
    assert isinstance(traced, torch.jit.ScriptFunction)
    assert traced.name == "scaled"
    x = torch.ones(4, requires_grad=True)
    out, (rest,) = traced(x, (torch.full((2,), 2.0), x))
    assert out.tolist() == [5] * 4
    assert rest is x
    out.sum().backward()
    assert x.grad.tolist() == [4] * 4
    with pytest.warns(UserWarning, match="already a ScriptModule"):
        assert torch.jit.trace(traced, x) is traced


def test_methods():
    model = Net().eval()
    traced = torch.jit.trace_module(model, {"forward": images(1), "features": images(1)})
    assert torch.equal(traced.features(images(2)), model.features(images(2)))
    assert torch.equal(traced(images(2)), model(images(2)))
    one = torch.jit.trace(model.features, images(1))
    assert torch.equal(one.features(images(2)), model.features(images(2)))
    with pytest.raises(RuntimeError, match="forward was not traced"):
        one(images(2))
    with pytest.raises(RuntimeError, match="traced as a part"):
        traced.conv(images(1))


def test_keyword_arguments():
    traced = torch.jit.trace(
        lambda x, y: x - y, example_kwarg_inputs={"y": torch.ones(1), "x": torch.ones(1)}
    )
    assert traced(y=torch.tensor([1.0]), x=torch.tensor([5.0])).item() == 4


def test_arguments_that_come_back_may_be_copies():
    traced = torch.jit.trace(lambda x: x.contiguous().view(-1), torch.ones(2, 3))
    assert traced(torch.arange(6).view(2, 3).t()).tolist() == [0, 3, 1, 4, 2, 5]


def branch(x):
    return x if x.sum() > 0 else -x


def test_branches():
    assert not torch.jit.is_tracing()
    with pytest.warns(torch.jit.TracerWarning, match="to a Python boolean") as found:
        traced = torch.jit.trace(branch, torch.ones(2))
    assert found[0].filename == __file__
    assert traced(-torch.ones(2)).tolist() == [-1, -1]
    with pytest.warns(torch.jit.TracerWarning, match="Converting a size"):
        torch.jit.trace(lambda x: x if x.shape[0] > 1 else -x, torch.ones(2))


@pytest.mark.filterwarnings("ignore:Converting")
def test_checks_of_other_inputs():
    with pytest.warns(
        torch.jit.TracerWarning, match="Output nr 1. of the traced function does not"
    ):
        with pytest.raises(torch.jit.TracingCheckError, match="Graphs differed"):
            torch.jit.trace(branch, torch.ones(2), check_inputs=[(-torch.ones(2),)])


def test_random_results_warn():
    with pytest.warns(torch.jit.TracerWarning, match="does not match"):
        torch.jit.trace(lambda x: x + torch.rand(2), torch.ones(2))


@pytest.mark.parametrize("wrapped", [False, True])
def test_differing_results_warn_with_the_line(wrapped):
    function = lambda x: x + torch.rand(2)
    model = nn.Module()
    model.forward = function
    with pytest.warns(torch.jit.TracerWarning, match="does not match") as found:
        torch.jit.trace(model if wrapped else function, torch.ones(2))
    assert found[0].filename == __file__


def test_is_tracing():
    seen = []
    torch.jit.trace(lambda x: (seen.append(torch.jit.is_tracing()), x + 1)[1], torch.ones(1))
    assert True in seen


def test_refused():
    weight = nn.Parameter(torch.ones(2))
    x = torch.ones(2)
    for function, inputs, message in (
        (lambda x: [x], x, "Encountering a list at the output"),
        (lambda x: {"a": x}, x, "Encountering a dict at the output"),
        (lambda x: (x, 1), x, "Only tensors, lists, tuples"),
        (lambda x: x * weight, x, "Cannot insert a Tensor that requires grad"),
        (lambda x, n: x * n, (x, 3), "Type 'int' cannot be traced"),
        (lambda x: x.requires_grad_(), x, "cannot record gradients"),
    ):
        with pytest.raises(RuntimeError, match=message):
            torch.jit.trace(function, inputs)
    assert torch.jit.trace(lambda x: {"a": [x]}, x, strict=False)(x)["a"][0] is x
