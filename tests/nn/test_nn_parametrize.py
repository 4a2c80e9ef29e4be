# SPDX-License-Identifier: BSD-3-Clause
"""Parametrizations, the older norms, pruning, fusion and other nn.utils."""

import copy
import pickle

import pytest

import cograd as torch
from cograd import nn
from cograd.nn import utils
from cograd.nn.utils import parametrizations, parametrize, prune


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).T

    def right_inverse(self, x):
        return x.triu()


class Doubled(nn.Module):
    def forward(self, x):
        return 2 * x


def test_a_parametrized_weight_is_a_function_of_what_is_stored():
    torch.manual_seed(1)
    layer = nn.Linear(3, 3)
    before = type(layer)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    assert isinstance(layer, before)
    assert type(layer).__name__ == "ParametrizedLinear"
    assert parametrize.is_parametrized(layer)
    assert parametrize.is_parametrized(layer, "weight")
    assert not parametrize.is_parametrized(layer, "bias")
    assert parametrize.type_before_parametrizations(layer) is before
    assert list(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    assert torch.equal(layer.weight, layer.weight.T)
    layer(torch.ones(2, 3)).sum().backward()
    assert layer.parametrizations.weight.original.grad.shape == (3, 3)
    assert not layer.parametrizations.weight.original.grad.tril(-1).any()
    new = torch.ones(3, 3)
    layer.weight = new
    assert torch.equal(layer.weight, new)
    parametrize.register_parametrization(layer, "weight", Doubled())
    assert torch.equal(layer.weight, 2 * new)
    other = copy.deepcopy(layer)
    assert torch.equal(other.weight, layer.weight)
    with pytest.raises(RuntimeError, match="state_dict"):
        pickle.dumps(layer)
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is before
    assert torch.equal(layer.weight, 2 * new)
    assert isinstance(layer.weight, nn.Parameter)
    assert parametrize.is_parametrized(other)


def test_values_are_kept_while_a_cache_is_open():
    layer = parametrizations.weight_norm(nn.Linear(3, 2))
    assert layer.weight is not layer.weight
    with parametrize.cached():
        first = layer.weight
        assert layer.weight is first
    assert layer.weight is not first


def test_parametrizations_are_transferred():
    layer, other = parametrizations.weight_norm(nn.Linear(3, 2)), nn.Linear(3, 2)
    parametrize.transfer_parametrizations_and_params(layer, other)
    assert torch.equal(layer.weight, other.weight)


@pytest.mark.parametrize(
    "call",
    [
        lambda m: parametrize.register_parametrization(m, "none", Doubled()),
        lambda m: parametrize.remove_parametrizations(m, "weight"),
        lambda m: parametrize.register_parametrization(m, "weight", nn.Flatten(0)),
        lambda m: parametrize.ParametrizationList([], m.weight),
        lambda m: parametrizations.orthogonal(m, orthogonal_map="sine"),
        lambda m: parametrizations.orthogonal(m, "bias"),
        lambda m: parametrizations.spectral_norm(m, n_power_iterations=0),
        lambda m: utils.remove_weight_norm(m),
        lambda m: utils.remove_spectral_norm(m),
        lambda m: prune.remove(m, "weight"),
        lambda m: prune.l1_unstructured(m, "weight", 1.5),
        lambda m: prune.l1_unstructured(m, "weight", 100),
    ],
)
def test_what_does_not_fit_is_refused(call):
    layer = nn.Linear(3, 2)
    before = layer.weight.detach().clone()
    with pytest.raises(ValueError):
        call(layer)
    assert torch.equal(layer.weight, before)


@pytest.mark.parametrize("size", [(3, 5), (5, 5), (5, 3)])
@pytest.mark.parametrize("kind", ["matrix_exp", "cayley", "householder"])
def test_orthogonal_weights_stay_orthogonal(size, kind):
    torch.manual_seed(2)
    layer = nn.Linear(*size).double()
    parametrizations.orthogonal(layer, orthogonal_map=kind)

    def off():
        w = layer.weight if size[1] >= size[0] else layer.weight.T
        return (w.T @ w - torch.eye(min(size), dtype=w.dtype)).abs().max().item()

    assert off() < 1e-12
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    start = layer.weight.detach().clone()
    for _ in range(3):
        optimizer.zero_grad()
        layer(torch.ones(1, size[0], dtype=torch.float64)).pow(2).sum().backward()
        optimizer.step()
    assert off() < 1e-12
    assert not torch.allclose(layer.weight, start)


def test_spectral_norms_are_one():
    torch.manual_seed(3)
    x = torch.randn(4, 6)
    for make in (parametrizations.spectral_norm, utils.spectral_norm):
        layer = make(nn.Linear(6, 5), n_power_iterations=50)
        layer(x)
        assert torch.linalg.svdvals(layer.weight.detach())[0].item() == pytest.approx(1, abs=1e-3)
    named = list(layer.state_dict())
    assert named == ["bias", "weight_orig", "weight_u", "weight_v"]
    weight = layer.weight.detach().clone()
    utils.remove_spectral_norm(layer)
    torch.testing.assert_close(layer.weight.detach(), weight, atol=1e-4, rtol=1e-4)


def test_weight_norms_split_magnitude_and_direction():
    torch.manual_seed(4)
    layer = nn.Linear(6, 5)
    weight = layer.weight.detach().clone()
    with pytest.warns(FutureWarning, match="deprecated"):
        old = utils.weight_norm(copy.deepcopy(layer))
    assert list(old.state_dict()) == ["bias", "weight_g", "weight_v"]
    assert old.weight_g.shape == (5, 1)
    new = parametrizations.weight_norm(copy.deepcopy(layer))
    torch.testing.assert_close(new.weight.detach(), weight)
    with torch.no_grad():
        old.weight_g.mul_(2)
    new.load_state_dict(old.state_dict())
    torch.testing.assert_close(new.weight.detach(), 2 * weight)
    old(torch.ones(1, 6))
    utils.remove_weight_norm(old)
    torch.testing.assert_close(old.weight.detach(), 2 * weight)
    with pytest.warns(FutureWarning), pytest.raises(RuntimeError, match="two weight_norm"):
        utils.weight_norm(utils.weight_norm(layer))


def test_pruning_multiplies_by_masks():
    torch.manual_seed(5)
    layer = nn.Linear(4, 3)
    weight = layer.weight.detach().clone()
    prune.l1_unstructured(layer, "weight", 5)
    assert list(layer.state_dict()) == ["bias", "weight_orig", "weight_mask"]
    assert prune.is_pruned(nn.Sequential(layer))
    small = weight.abs().flatten().topk(5, largest=False).indices.sort().values
    gone = (layer.weight_mask.flatten() == 0).nonzero().flatten()
    assert torch.equal(gone, small)
    layer(torch.ones(1, 4)).sum().backward()
    assert torch.equal(layer.weight_orig.grad == 0, layer.weight_mask == 0)
    prune.random_unstructured(layer, "weight", 0.5)
    assert layer.weight_mask.sum() == 3
    prune.custom_from_mask(layer, "weight", torch.zeros(3, 4))
    assert not layer.weight.any()
    prune.remove(layer, "weight")
    assert not prune.is_pruned(layer)
    assert isinstance(layer.weight, nn.Parameter)
    assert not layer.weight.any()


def test_pruning_of_channels_and_of_several_layers():
    torch.manual_seed(6)
    layer = nn.Linear(4, 6)
    prune.ln_structured(layer, "weight", 0.5, n=2, dim=0)
    norms = layer.weight_orig.detach().norm(dim=1)
    assert torch.equal(layer.weight_mask.sum(1) == 0, norms <= norms.sort().values[2])
    prune.random_structured(layer, "weight", 1, dim=1)
    assert (layer.weight_mask.sum(0) == 0).sum() == 1
    first, second = nn.Linear(4, 3), nn.Linear(3, 2)
    prune.global_unstructured(
        [(first, "weight"), (second, "weight")], prune.L1Unstructured, amount=0.5
    )
    assert first.weight_mask.sum() + second.weight_mask.sum() == 9
    with pytest.raises(TypeError):
        prune.global_unstructured([(first, "weight")], prune.LnStructured, amount=0.5, n=2)
    t = torch.tensor([1.0, -3.0, 2.0])
    assert prune.L1Unstructured(1).prune(t).tolist() == [0, -3, 2]


def test_normalisation_becomes_part_of_the_weights():
    torch.manual_seed(7)
    x, w, b = torch.randn(5, 4), torch.randn(3, 4), torch.randn(3)
    mean, var, scale, shift = torch.randn(3), torch.rand(3), torch.randn(3), torch.randn(3)
    fused_w, fused_b = utils.fuse_linear_bn_weights(w, b, mean, var, 1e-5, scale, shift)
    want = (x @ w.T + b - mean) / (var + 1e-5).sqrt() * scale + shift
    torch.testing.assert_close(x @ fused_w.T + fused_b, want)
    conv_w = w.reshape(3, 4, 1, 1)
    other, _ = utils.fuse_conv_bn_weights(conv_w, None, mean, var, 1e-5, scale, shift)
    torch.testing.assert_close(other.reshape(3, 4), fused_w)
    back, _ = utils.fuse_conv_bn_weights(
        conv_w.transpose(0, 1), None, mean, var, 1e-5, scale, shift, transpose=True
    )
    torch.testing.assert_close(back.transpose(0, 1), other)


def test_small_helpers():
    before = torch.get_rng_state()
    layer = utils.skip_init(nn.Linear, 3, 4)
    assert layer.weight.shape == (4, 3) and layer.weight.device.type == "cpu"
    assert torch.equal(torch.get_rng_state(), before), "it draws random numbers"
    with pytest.raises(RuntimeError, match="device"):
        utils.skip_init(nn.ReLU)
    model = nn.DataParallel(layer)
    assert list(model.state_dict()) == ["module.weight", "module.bias"]
    x = torch.randn(2, 3)
    assert torch.equal(model(x), layer(x))
    assert torch.equal(nn.parallel.data_parallel(layer, x), layer(x))
    layer(x).sum().backward()
    with pytest.warns(FutureWarning, match="clip_grad_norm_"):
        utils.clip_grad_norm(layer.parameters(), 0.5)
    assert utils.get_total_norm([p.grad for p in layer.parameters()]).item() <= 0.5 + 1e-6
    t = torch.zeros(4, 4)
    with pytest.warns(FutureWarning, match="orthogonal_"):
        assert nn.init.orthogonal(t) is t
    torch.testing.assert_close(t @ t.T, torch.eye(4), atol=1e-5, rtol=1e-5)


def test_the_original_of_a_parametrization_can_have_one():
    torch.manual_seed(3)
    layer = nn.Linear(3, 3)
    first = layer.weight.detach().clone()
    parametrize.register_parametrization(layer, "weight", Symmetric())
    parametrize.register_parametrization(layer.parametrizations.weight, "original", Tripled())
    assert [name for name, _ in layer.named_parameters()] == [
        "bias",
        "parametrizations.weight.parametrizations.original.original",
    ]
    inner = layer.parametrizations.weight.parametrizations.original.original
    want = first.triu() + first.triu(1).T
    torch.testing.assert_close(layer.weight, want)
    layer.weight.sum().backward()
    torch.testing.assert_close(inner.grad, 3 * (2 * torch.ones(3, 3).triu() - torch.eye(3)))
    layer.weight = 2 * want  # through both inverses
    torch.testing.assert_close(layer.weight, 2 * want)
    torch.testing.assert_close(inner, 2 * first.triu() / 3)
    parametrize.register_parametrization(layer, "weight", Doubled(), unsafe=True)
    torch.testing.assert_close(layer.weight, 4 * want)
    parametrize.remove_parametrizations(layer.parametrizations.weight, "original")
    torch.testing.assert_close(layer.weight, 4 * want)
    assert [name for name, _ in layer.named_parameters()][1] == "parametrizations.weight.original"


class Tripled(nn.Module):
    def forward(self, x):
        return x * 3

    def right_inverse(self, x):
        return x / 3


class Parts(nn.Module):
    """A parametrization that consists of given functions."""

    def __init__(self, forward, right_inverse=None):
        super().__init__()
        self.forward = forward
        if right_inverse is not None:
            self.right_inverse = right_inverse


@pytest.mark.parametrize(
    ("forward", "inverse", "message"),
    [
        (lambda x: x.float(), None, r"may not change the dtype of the tensor, unless the `unsafe`"),
        (lambda x: x[:2], None, r"may not change the shape .*\nmodule.weight.shape: .*\[3, 3\]"),
        (lambda x: 3, None, r"must return a tensor. Got int."),
        (lambda x: x, lambda x: x.float(), r"right_inverse must have the same dtype as module.we"),
        (lambda x: x, lambda x: x[:2], r"right_inverse must have the same shape as module.weight"),
        (lambda x: x, lambda x: (x, x), r"right_inverse must return a tensor. Got: tuple"),
    ],
)
def test_a_second_parametrization_that_does_not_fit_is_refused(forward, inverse, message):
    layer = nn.Linear(3, 3).double()
    parametrize.register_parametrization(layer, "weight", Doubled())
    with pytest.raises(ValueError, match=message):
        parametrize.register_parametrization(layer, "weight", Parts(forward, inverse))
    assert len(layer.parametrizations.weight) == 1
    parametrize.register_parametrization(
        layer, "weight", Parts(lambda x: x, lambda x: x[:2]), unsafe=True
    )


@pytest.mark.parametrize(
    ("inverse", "message"),
    [
        (lambda x: x.float(), r"Tensor 0 returned by `right_inverse` has dtype .*float32 while"),
        (lambda x: (x / 2, 1), r"Got element 1 of type int"),
        (lambda x: (x / 2,), r"of length 2. Got a sequence of length 1"),
        (lambda x: 3, r"must return a sequence of tensors. Got int"),
    ],
)
def test_a_value_whose_inverse_does_not_fit_is_refused(inverse, message):
    layer = nn.Linear(3, 3).double()
    halves = Parts(lambda a, b: a + b, lambda x: (x / 2, x / 2))
    parametrize.register_parametrization(layer, "weight", halves)
    before = layer.weight.clone()
    halves.right_inverse = (lambda x: (x.float(), x)) if "Tensor 0" in message else inverse
    with pytest.raises(ValueError, match=message):
        layer.weight = torch.ones(3, 3, dtype=torch.float64)
    assert torch.equal(layer.weight, before)
