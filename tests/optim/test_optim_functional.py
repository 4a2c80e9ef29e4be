# SPDX-License-Identifier: BSD-3-Clause
"""Optimizers as functions over lists, compared with the steps of the classes."""

import inspect

import pytest

import cograd as torch
from cograd.optim import _functional as F

ADAM = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "step")
BETAS = {"beta1": 0.8, "beta2": 0.9}
# name: class, its options, names of the state, the function's options if they differ.
CASES = {
    "sgd": ("SGD", {"momentum": 0.9, "nesterov": True}, ["momentum_buffer"], {"dampening": 0.0}),
    "adam": ("Adam", {"betas": (0.8, 0.9), "amsgrad": True}, ADAM, BETAS),
    "adamw": ("AdamW", {"betas": (0.8, 0.9), "weight_decay": 0.1}, ADAM, BETAS),
    "adamax": ("Adamax", {"betas": (0.8, 0.9)}, ["exp_avg", "exp_inf", "step"], BETAS),
    "nadam": (
        "NAdam",
        {"betas": (0.8, 0.9), "decoupled_weight_decay": True, "weight_decay": 0.1},
        ["exp_avg", "exp_avg_sq", "mu_product", "step"],
        BETAS,
    ),
    "radam": ("RAdam", {"betas": (0.8, 0.9)}, ["exp_avg", "exp_avg_sq", "step"], BETAS),
    "adadelta": ("Adadelta", {"weight_decay": 0.1}, ["square_avg", "acc_delta", "step"], {}),
    "adagrad": ("Adagrad", {"lr_decay": 0.1}, ["sum", "step"], {}),
    "asgd": ("ASGD", {"t0": 1.0}, ["ax", "mu", "eta", "step"], {}),
    "rmsprop": (
        "RMSprop",
        {"momentum": 0.5, "centered": True},
        ["square_avg", "grad_avg", "momentum_buffer", "step"],
        {},
    ),
    "rprop": (
        "Rprop",
        {},
        ["prev", "step_size", "step"],
        {"step_size_min": 1e-6, "step_size_max": 50, "etaminus": 0.5, "etaplus": 1.2},
    ),
    "adafactor": ("Adafactor", {}, ["row_var", "col_var", "variance", "step"], {}),
}


def start(name, **extra):
    torch.manual_seed(0)
    params = [torch.randn(3, 4, requires_grad=True), torch.randn(5, requires_grad=True)]
    kind, options, *_ = CASES[name]
    if "eps" in inspect.signature(getattr(F, name)).parameters:
        options = {"eps": 1e-6, **options}
    optimizer = getattr(torch.optim, kind)(params, **options, **extra)
    for param in params:
        param.grad = torch.randn_like(param)
    return params, optimizer


def arguments(name, optimizer, grads):
    """Returns copies of the params and the state as the function expects them, and its options."""
    _, _, names, special = CASES[name]
    group = optimizer.param_groups[0]
    params = [param.detach().clone() for param in group["params"]]
    states = [optimizer.state[param] for param in group["params"]]
    lists = [
        [state[key].clone() if key in state else None for state in states]
        if any(key in state for state in states)
        else []
        for key in names
    ]
    takes = inspect.signature(getattr(F, name)).parameters
    takes = list(takes)[len(lists) + 2 :]
    options = {key: value for key, value in group.items() if key in takes}
    if name == "adafactor":
        options.update(eps1=None, eps2=1e-3)
    return params, [params, grads, *lists], {**options, **special}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("foreach", [None, False])
def test_a_step_is_that_of_the_class(name, foreach):
    originals, optimizer = start(name, foreach=foreach)
    optimizer.step()
    params, lists, options = arguments(name, optimizer, [p.grad.clone() for p in originals])
    with torch.no_grad():
        getattr(F, name)(*lists, **options)
    optimizer.step()
    for param, original in zip(params, originals):
        assert torch.equal(param, original.detach())
        assert param.grad is None
    for key, values in zip(CASES[name][2], lists[2:]):
        for value, original in zip(values, originals):
            assert (value is None) == (key not in optimizer.state[original])
            assert value is None or torch.equal(value, optimizer.state[original][key]), key


def adam_lists(requires_grad=False):
    param = torch.tensor([1.0, -2.0], requires_grad=requires_grad)
    zeros = [[torch.zeros(2)], [torch.zeros(2)], [], [torch.tensor(0.0)]]
    return param, [[param], [torch.tensor([0.5, 0.25])], *zeros]


OPTIONS = {
    "amsgrad": False,
    "beta1": 0.9,
    "beta2": 0.99,
    "lr": 0.1,
    "weight_decay": 0.0,
    "eps": 1e-8,
    "maximize": False,
}


def test_a_first_step_of_momentum_makes_the_buffer():
    param, grad, buffers = torch.ones(3), torch.full((3,), 2.0), [None]
    options = dict.fromkeys(("weight_decay", "dampening"), 0.0)
    F.sgd([param], [grad], buffers, lr=0.5, momentum=0.9, nesterov=False, maximize=False, **options)
    assert buffers[0].tolist() == [2.0] * 3 and buffers[0] is not grad
    assert param.tolist() == [0.0] * 3
    F.sgd([param], [grad], buffers, lr=0.5, momentum=0.9, nesterov=False, maximize=True, **options)
    torch.testing.assert_close(buffers[0], torch.full((3,), -0.2))


def test_gradients_are_scaled_and_steps_left_out():
    param, lists = adam_lists()
    torch.optim.adam.adam(*lists, found_inf=torch.tensor(1.0), **OPTIONS)
    assert param.tolist() == [1.0, -2.0] and lists[5][0].item() == 0
    torch.optim.adam.adam(*lists, grad_scale=torch.tensor(2.0), **OPTIONS)
    torch.testing.assert_close(lists[2][0], torch.tensor([0.025, 0.0125]))


def test_a_recorded_step_has_a_gradient():
    param, lists = adam_lists()
    grad = lists[1][0].requires_grad_()
    F.adam(*lists, differentiable=True, **{**OPTIONS, "eps": 1.0})
    param.sum().backward()
    # The first step is 0.1 * g / (|g| + 1).
    torch.testing.assert_close(grad.grad, -0.1 / (grad.detach() + 1) ** 2)
    assert lists[2][0].requires_grad


def test_bad_calls_change_nothing():
    param, lists = adam_lists(requires_grad=True)
    with pytest.raises(RuntimeError, match=r"adam\(\): a leaf that requires grad is written"):
        F.adam(*lists, **OPTIONS)
    with torch.no_grad():
        with pytest.raises(ValueError, match=r"adam\(\): exp_avg has 0 items, expected one for"):
            F.adam(*lists[:2], [], *lists[3:], **OPTIONS)
        with pytest.raises(RuntimeError, match="must contain a list of singleton tensors"):
            F.adam(*lists[:5], [0], **OPTIONS)
    assert param.tolist() == [1.0, -2.0] and lists[5][0].item() == 0
