# SPDX-License-Identifier: BSD-3-Clause
"""Optimizers compared with a NumPy reference, step by step; groups, state, hooks, schedules."""

import copy
import gc
import math
import pickle
import warnings
import weakref

import numpy as np
import pytest

import cograd as torch
from cograd import nn, optim
from cograd.optim import lr_scheduler

STEPS = 8
START = np.array([1.0, -2.0, 0.5, 3.0])
CURVE = np.array([1.0, 2.0, 3.0, 0.5])


def gradient(p):
    """Returns the gradient of sum(CURVE * (p - 0.3)^2 + sin p)."""
    return 2 * CURVE * (p - 0.3) + np.cos(p)


def sgd(lr, momentum=0, dampening=0, weight_decay=0, nesterov=False, maximize=False):
    p, buf = START.copy(), None
    for _ in range(STEPS):
        g = -gradient(p) if maximize else gradient(p)
        g = g + weight_decay * p
        if momentum:
            buf = g.copy() if buf is None else momentum * buf + (1 - dampening) * g
            g = g + momentum * buf if nesterov else buf
        p = p - lr * g
        yield p


def adam(
    lr=1e-3,
    betas=(0.9, 0.999),
    eps=1e-8,
    weight_decay=0,
    amsgrad=False,
    maximize=False,
    decoupled=False,
):
    p = START.copy()
    m = v = top = np.zeros(4)
    for t in range(1, STEPS + 1):
        g = -gradient(p) if maximize else gradient(p)
        if decoupled:
            p = p * (1 - lr * weight_decay)
        else:
            g = g + weight_decay * p
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        top = np.maximum(top, v)
        second = (top if amsgrad else v) / (1 - betas[1] ** t)
        p = p - lr * (m / (1 - betas[0] ** t)) / (np.sqrt(second) + eps)
        yield p


def adamw(weight_decay=1e-2, **kwargs):
    return adam(weight_decay=weight_decay, decoupled=True, **kwargs)


def rmsprop(
    lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False, maximize=False
):
    p = START.copy()
    v = mean = buf = np.zeros(4)
    for _ in range(STEPS):
        g = (-gradient(p) if maximize else gradient(p)) + weight_decay * p
        v = alpha * v + (1 - alpha) * g * g
        mean = alpha * mean + (1 - alpha) * g
        step = g / (np.sqrt(v - mean * mean if centered else v) + eps)
        if momentum:
            buf = momentum * buf + step
            step = buf
        p = p - lr * step
        yield p


def adagrad(
    lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10, maximize=False
):
    p = START.copy()
    total = np.full(4, float(initial_accumulator_value))
    for t in range(STEPS):
        g = (-gradient(p) if maximize else gradient(p)) + weight_decay * p
        total = total + g * g
        p = p - lr / (1 + t * lr_decay) * g / (np.sqrt(total) + eps)
        yield p


CASES = [
    ("SGD", sgd, dict(lr=0.01)),
    ("SGD", sgd, dict(lr=0.01, momentum=0.9)),
    ("SGD", sgd, dict(lr=0.01, momentum=0.9, dampening=0.3, weight_decay=0.1)),
    ("SGD", sgd, dict(lr=0.01, momentum=0.9, nesterov=True)),
    ("SGD", sgd, dict(lr=0.01, momentum=0.5, maximize=True)),
    ("Adam", adam, dict()),
    ("Adam", adam, dict(lr=0.1, betas=(0.5, 0.7), weight_decay=0.1)),
    ("Adam", adam, dict(lr=0.3, amsgrad=True, betas=(0.5, 0.3))),
    ("Adam", adam, dict(lr=0.1, maximize=True, eps=1e-3)),
    ("AdamW", adamw, dict(lr=0.1)),
    ("AdamW", adamw, dict(lr=0.1, weight_decay=0.5, amsgrad=True)),
    ("RMSprop", rmsprop, dict()),
    ("RMSprop", rmsprop, dict(momentum=0.9, centered=True, weight_decay=0.1)),
    ("Adagrad", adagrad, dict(lr=0.1)),
    ("Adagrad", adagrad, dict(lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.2)),
]


def loss(p):
    return (torch.from_numpy(CURVE) * (p - 0.3) ** 2 + p.sin()).sum()


def take_step(optimizer, p):
    optimizer.zero_grad()
    loss(p).backward()
    optimizer.step()


@pytest.mark.parametrize("name, reference, kwargs", CASES)
def test_steps_match_reference(name, reference, kwargs):
    p = nn.Parameter(torch.from_numpy(START.copy()))
    optimizer = getattr(optim, name)([p], **kwargs)
    for expected in reference(**kwargs):
        take_step(optimizer, p)
        np.testing.assert_allclose(p.detach().numpy(), expected, rtol=1e-12, atol=1e-14)
    assert p.is_leaf and p.requires_grad


@pytest.mark.parametrize("name, reference, kwargs", CASES)
def test_state_dict_continues(name, reference, kwargs):
    a = nn.Parameter(torch.from_numpy(START.copy()))
    first = getattr(optim, name)([a], **kwargs)
    for _ in range(3):
        take_step(first, a)
    b = nn.Parameter(a.detach().clone())
    second = getattr(optim, name)([b], lr=99.0)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    for _ in range(3):
        take_step(first, a)
        take_step(second, b)
        assert torch.equal(a, b)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_common_behaviour(name):
    kind = getattr(optim, name)
    a, b = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    optimizer = kind([a, b], lr=0.1)
    a.grad = torch.ones(2)
    version = a.detach().clone()
    optimizer.step()
    assert bool((a != version).all()) and b.tolist() == [1, 1]
    optimizer.zero_grad(set_to_none=False)
    assert a.grad.tolist() == [0, 0]
    optimizer.zero_grad()
    assert a.grad is None
    assert optimizer.step(lambda: 5) == 5
    with pytest.raises(ValueError, match="Invalid learning rate: -1"):
        kind([a], lr=-1)
    with pytest.raises(ValueError, match="Invalid weight_decay value"):
        kind([a], weight_decay=-1)
    with pytest.raises(ValueError, match="empty parameter list"):
        kind([])
    with pytest.raises(TypeError, match="iterable of Tensors or dicts"):
        kind(a)
    with pytest.raises(TypeError, match="one of the params is int"):
        kind([1])
    with pytest.raises(ValueError, match="can't optimize a non-leaf Tensor"):
        kind([a * 2])


def test_closure_runs_with_grad():
    p = nn.Parameter(torch.ones(1))
    optimizer = optim.SGD([p], lr=0.5)

    def closure():
        optimizer.zero_grad()
        value = (p * 2).sum()
        value.backward()
        return value

    with torch.no_grad():
        assert optimizer.step(closure).item() == 2
    assert p.item() == 0


def test_groups():
    a, b = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    optimizer = optim.SGD([{"params": [a], "lr": 1.0}, {"params": b}], lr=0.25)
    a.grad = b.grad = torch.ones(1)
    optimizer.step()
    assert a.item() == 0 and b.item() == 0.75
    c = nn.Parameter(torch.ones(1))
    optimizer.add_param_group({"params": c, "momentum": 0.9})
    assert [g["momentum"] for g in optimizer.param_groups] == [0, 0, 0.9]
    with pytest.raises(ValueError, match="more than one parameter group"):
        optimizer.add_param_group({"params": [a]})
    with pytest.raises(TypeError, match="must be a dict"):
        optimizer.add_param_group([a])
    with pytest.raises(TypeError, match="ordered collections"):
        optimizer.add_param_group({"params": {a}})
    named = optim.SGD(nn.Linear(1, 1).named_parameters(), lr=1)
    assert named.param_groups[0]["param_names"] == ["weight", "bias"]


def test_state_dict_format():
    a, b = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(1))
    optimizer = optim.Adam([{"params": [a]}, {"params": [b], "lr": 1.0}], lr=0.5)
    a.grad = torch.ones(2)
    optimizer.step()
    state = optimizer.state_dict()
    assert list(state) == ["state", "param_groups"]
    assert [g["params"] for g in state["param_groups"]] == [[0], [1]]
    assert state["param_groups"][1]["lr"] == 1.0
    assert list(state["state"]) == [0]
    assert list(state["state"][0]) == ["step", "exp_avg", "exp_avg_sq"]
    step = state["state"][0]["step"]
    assert step.shape == () and step.dtype == torch.float32 and step.item() == 1
    with pytest.raises(ValueError, match="different number of parameter groups"):
        optim.Adam([a]).load_state_dict(state)
    with pytest.raises(ValueError, match="doesn't match the size"):
        optim.Adam([{"params": []}, {"params": [a]}]).load_state_dict(state)


def test_loaded_state_takes_the_dtype_of_the_parameter():
    a = nn.Parameter(torch.ones(2))
    first = optim.Adam([a])
    a.grad = torch.ones(2)
    first.step()
    b = nn.Parameter(torch.ones(2, dtype=torch.float64))
    second = optim.Adam([b])
    second.load_state_dict(first.state_dict())
    assert second.state[b]["exp_avg"].dtype == torch.float64
    assert second.state[b]["step"].dtype == torch.float32
    assert second.state[b]["exp_avg"].data_ptr() != first.state[a]["exp_avg"].data_ptr()


def test_repr():
    text = repr(optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1))
    assert text == (
        "SGD (\n"
        "Parameter Group 0\n"
        "    dampening: 0\n"
        "    differentiable: False\n"
        "    foreach: None\n"
        "    fused: None\n"
        "    lr: 0.1\n"
        "    maximize: False\n"
        "    momentum: 0\n"
        "    nesterov: False\n"
        "    weight_decay: 0\n"
        ")"
    )


def test_hooks():
    p = nn.Parameter(torch.ones(1))
    optimizer = optim.SGD([p], lr=0.1)
    seen = []
    handles = [
        optimizer.register_step_pre_hook(lambda o, a, k: seen.append("pre")),
        optimizer.register_step_post_hook(lambda o, a, k: seen.append("post")),
        optimizer.register_state_dict_pre_hook(lambda o: seen.append("state pre")),
        optimizer.register_state_dict_post_hook(lambda o, s: {**s, "more": 1}),
        optimizer.register_load_state_dict_pre_hook(lambda o, s: seen.append(s.pop("more"))),
        optimizer.register_load_state_dict_post_hook(lambda o: seen.append("loaded")),
    ]
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    assert seen == ["pre", "post", "state pre", 1, "loaded"]
    for handle in handles:
        handle.remove()
    assert "more" not in optimizer.state_dict()


def test_hooks_run_around_a_users_step():
    class Sign(optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        @torch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    p.add_(p.grad.sign(), alpha=-group["lr"])

    p = nn.Parameter(torch.ones(2))
    optimizer = Sign([p], lr=0.5)
    seen = []
    optimizer.register_step_post_hook(lambda o, a, k: seen.append(1))
    p.grad = torch.tensor([2.0, -3.0])
    optimizer.step()
    assert p.tolist() == [0.5, 1.5] and seen == [1]


def test_deepcopy_and_pickle():
    p = nn.Parameter(torch.ones(2))
    optimizer = optim.SGD([p], lr=0.1, momentum=0.9)
    p.grad = torch.ones(2)
    optimizer.step()
    for other in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        q = other.param_groups[0]["params"][0]
        assert q is not p and torch.equal(other.state[q]["momentum_buffer"], torch.ones(2))
        q.grad = torch.ones(2)
        other.step()


def test_tensor_learning_rate():
    p = nn.Parameter(torch.ones(1))
    p.grad = torch.ones(1)
    optim.SGD([p], lr=torch.tensor(0.5)).step()
    assert p.item() == 0.5


# schedules: the rates of the first ten epochs in closed form


def cosine(t):
    return 0.01 + (0.1 - 0.01) * (1 + math.cos(math.pi * t / 4)) / 2


SCHEDULES = [
    ("LambdaLR", dict(lr_lambda=lambda t: 0.9**t), lambda t: 0.1 * 0.9**t),
    ("StepLR", dict(step_size=3, gamma=0.5), lambda t: 0.1 * 0.5 ** (t // 3)),
    ("MultiStepLR", dict(milestones=[2, 5, 5]), lambda t: 0.1 * 0.1 ** ((t >= 2) + 2 * (t >= 5))),
    ("ConstantLR", dict(factor=0.5, total_iters=4), lambda t: 0.1 * (0.5 if t < 4 else 1)),
    ("LinearLR", dict(start_factor=0.2, total_iters=4), lambda t: 0.1 * (0.2 + 0.2 * min(t, 4))),
    ("ExponentialLR", dict(gamma=0.8), lambda t: 0.1 * 0.8**t),
    ("PolynomialLR", dict(total_iters=6, power=2), lambda t: 0.1 * (1 - min(t, 6) / 6) ** 2),
    ("CosineAnnealingLR", dict(T_max=4, eta_min=0.01), cosine),
]


@pytest.mark.parametrize("name, kwargs, expected", SCHEDULES)
def test_schedules(name, kwargs, expected):
    optimizer = optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1)
    schedule = getattr(lr_scheduler, name)(optimizer, **kwargs)
    seen = []
    for _ in range(10):
        assert schedule.get_last_lr() == [optimizer.param_groups[0]["lr"]]
        seen.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert seen == pytest.approx([expected(t) for t in range(10)], rel=1e-9, abs=1e-15)
    other = getattr(lr_scheduler, name)(optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1), **kwargs)
    other.load_state_dict(schedule.state_dict())
    assert other.last_epoch == schedule.last_epoch


def test_one_cycle():
    optimizer = optim.SGD([nn.Parameter(torch.ones(1))], lr=9.0, momentum=0.9)
    schedule = lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=11, pct_start=0.5)
    rates, momenta = [], []
    for _ in range(11):
        rates.append(optimizer.param_groups[0]["lr"])
        momenta.append(optimizer.param_groups[0]["momentum"])
        optimizer.step()
        if len(rates) < 11:
            schedule.step()
    assert rates[0] == pytest.approx(1 / 25) and rates[-1] == pytest.approx(1 / 25 / 1e4)
    top = 0.5 * 11 - 1
    low = 1 / 25 / 1e4
    t = 7
    part = (t - top) / (10 - top)
    assert rates[t] == pytest.approx(low + (1 - low) * (1 + math.cos(math.pi * part)) / 2)
    assert momenta[0] == pytest.approx(0.95) and momenta[-1] == pytest.approx(0.95)
    assert min(momenta) < 0.87
    with pytest.raises(ValueError, match="total number of steps is 11|total steps is 11"):
        schedule.step()
        schedule.step()
    with pytest.raises(ValueError, match="total_steps OR"):
        lr_scheduler.OneCycleLR(optimizer, max_lr=1.0)


def test_schedule_warns_about_the_order_of_calls():
    optimizer = optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1)
    schedule = lr_scheduler.StepLR(optimizer, 1)
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        schedule.step()
    optimizer = optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1)
    schedule = lr_scheduler.StepLR(optimizer, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.step()
        schedule.step()


def test_schedule_errors():
    optimizer = optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1)
    with pytest.raises(TypeError, match="int is not an Optimizer"):
        lr_scheduler.StepLR(3, 1)
    with pytest.raises(KeyError, match="initial_lr"):
        lr_scheduler.StepLR(optimizer, 1, last_epoch=3)
    with pytest.raises(ValueError, match="Expected 1 lr_lambdas, but got 2"):
        lr_scheduler.LambdaLR(optimizer, [abs, abs])


# ---- differentiable=True -------------------------------------------------------------------------

DIFFERENTIABLE = [
    (optim.SGD, {"lr": 0.1}),
    (optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.2, "weight_decay": 0.1}),
    (optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}),
    (optim.Adam, {"lr": 0.1}),
    (optim.Adam, {"lr": 0.1, "weight_decay": 0.1, "amsgrad": True, "betas": (0.8, 0.9)}),
    (optim.AdamW, {"lr": 0.1, "weight_decay": 0.2, "maximize": True}),
    (optim.RMSprop, {"lr": 0.1, "weight_decay": 0.1}),
    (optim.RMSprop, {"lr": 0.1, "momentum": 0.8, "centered": True}),
    (optim.Adagrad, {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1}),
    (optim.Adadelta, {"lr": 0.5, "rho": 0.8, "eps": 1e-2, "weight_decay": 0.1}),
    (optim.Adamax, {"lr": 0.1, "weight_decay": 0.1, "maximize": True}),
    (optim.NAdam, {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    (optim.RAdam, {"lr": 0.1, "weight_decay": 0.1, "betas": (0.8, 0.7)}),
    (optim.Rprop, {"lr": 0.1}),
    (optim.ASGD, {"lr": 0.1, "lambd": 0.1, "t0": 0, "weight_decay": 0.1}),
]


def unroll(kind, options, start, data, steps=3):
    """Returns the parameter after recorded steps on sum((p * data)^3)."""
    param = start.clone()
    opt = kind([param], differentiable=True, **options)
    for _ in range(steps):
        loss = ((param.clone() * data) ** 3).sum()  # a step writes param, so no graph may save it
        (param.grad,) = torch.autograd.grad(loss, param, create_graph=True)
        opt.step()
    return param


@pytest.mark.parametrize("kind, options", DIFFERENTIABLE)
def test_differentiable_steps_have_the_gradients_of_their_values(kind, options):
    start = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64, requires_grad=True)
    data = torch.tensor([0.7, 1.1, -0.4], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda p, d: unroll(kind, options, p, d), (start, data))


@pytest.mark.parametrize("kind, options", DIFFERENTIABLE)
def test_differentiable_steps_have_the_values_of_plain_ones(kind, options):
    start = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64, requires_grad=True)
    data = torch.tensor([0.7, 1.1, -0.4], dtype=torch.float64)
    param = start.detach().clone().requires_grad_()
    opt = kind([param], **options)
    for _ in range(4):
        opt.zero_grad()
        ((param * data) ** 3).sum().backward()
        opt.step()
    torch.testing.assert_close(
        unroll(kind, options, start, data, steps=4), param, rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize(
    "kind, name",
    [
        (optim.SGD, "lr"),
        (optim.SGD, "weight_decay"),
        (optim.SGD, "momentum"),
        (optim.Adam, "lr"),
        (optim.Adam, "weight_decay"),
        (optim.Adam, "betas"),
        (optim.AdamW, "lr"),
        (optim.AdamW, "weight_decay"),
        (optim.RMSprop, "lr"),
        (optim.RMSprop, "alpha"),
        (optim.RMSprop, "weight_decay"),
        (optim.Adagrad, "lr"),
        (optim.Adagrad, "lr_decay"),
        (optim.Adadelta, "rho"),
        (optim.Adamax, "betas"),
        (optim.NAdam, "betas"),
        (optim.NAdam, "lr"),
        (optim.RAdam, "weight_decay"),
        (optim.ASGD, "lambd"),
    ],
)
def test_gradient_of_an_option(kind, name):
    start = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    data = torch.tensor([0.7, 1.1, -0.4], dtype=torch.float64, requires_grad=True)

    def run(value):
        options = {"lr": 0.1, name: (value, value * 1.05) if name == "betas" else value}
        return unroll(kind, options, start.requires_grad_(), data)

    assert torch.autograd.gradcheck(run, torch.tensor(0.3, dtype=torch.float64, requires_grad=True))


def test_differentiable_is_refused_where_it_cannot_be():
    leaf_ = torch.ones(2, requires_grad=True)
    for kind in (optim.SGD, optim.Adam, optim.AdamW, optim.Adagrad):
        with pytest.raises(RuntimeError, match="`fused` does not support `differentiable`"):
            kind([leaf_], differentiable=True, fused=True)
    opt = optim.SGD([leaf_], lr=0.1, differentiable=True)
    leaf_.grad = torch.ones(2)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        opt.step()
    param = leaf_.clone()
    opt = optim.Adam([param], differentiable=True)
    param.grad = torch.ones(2)
    opt.state[param] = {
        "step": torch.tensor(1.0, requires_grad=True),
        "exp_avg": torch.zeros(2),
        "exp_avg_sq": torch.zeros(2),
    }
    with pytest.raises(RuntimeError, match="`requires_grad` is not supported for `step`"):
        opt.step()


def test_one_differentiable_group():
    a, b = (torch.ones(2, requires_grad=True) for _ in range(2))
    inner = a.clone()
    opt = optim.SGD([{"params": [inner], "differentiable": True}, {"params": [b]}], lr=0.5)
    inner.grad, b.grad = a * 3, torch.ones(2)
    opt.step()
    inner.sum().backward()
    assert a.grad.tolist() == [-0.5, -0.5] and b.tolist() == [0.5, 0.5] and b.is_leaf


# ---- checkpoints of older releases, warnings -----------------------------------------------------


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam, optim.AdamW, optim.RMSprop, optim.Adagrad])
def test_checkpoint_without_later_options_and_with_a_number_as_step(kind):
    def run(old):
        param = torch.tensor([1.0, 2.0], requires_grad=True)
        opt = kind([param], lr=0.1)
        for turn in range(3):
            opt.zero_grad()
            (param**3).sum().backward()
            opt.step()
            if old and turn == 0:
                state = opt.state_dict()
                for group in state["param_groups"]:
                    for name in ("maximize", "foreach", "differentiable", "fused", "capturable"):
                        group.pop(name, None)
                    for name in ("nesterov", "amsgrad", "centered", "decoupled_weight_decay"):
                        group.pop(name, None)
                for of_param in state["state"].values():
                    if "step" in of_param:
                        of_param["step"] = int(of_param["step"].item())
                opt = kind([param], lr=0.1)
                opt.load_state_dict(state)
                assert all(
                    isinstance(s.get("step", param), torch.Tensor) for s in opt.state.values()
                )
        return param

    assert torch.equal(run(True), run(False))


def test_duplicate_parameters_warn():
    a = torch.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="group with duplicate parameters"):
        opt = optim.SGD([a, a], lr=0.1)
    a.grad = torch.ones(2)
    opt.step()
    np.testing.assert_allclose(a.detach().numpy(), [0.8, 0.8], rtol=1e-6)  # twice, as in torch
    assert opt.state_dict()["param_groups"][0]["params"] == [0, 0]


def test_groups_with_and_without_names_do_not_mix():
    opt = optim.SGD([("a", torch.ones(2, requires_grad=True))], lr=0.1)
    with pytest.raises(ValueError, match="cannot add param group without names"):
        opt.add_param_group({"params": [torch.ones(2, requires_grad=True)]})


def test_schedule_warns_about_an_epoch():
    opt = optim.SGD([torch.ones(2, requires_grad=True)], lr=1.0)
    schedule = optim.lr_scheduler.StepLR(opt, 2)
    opt.step()
    with pytest.warns(UserWarning, match="epoch parameter in `scheduler.step"):
        schedule.step(4)
    assert schedule.get_last_lr() == [pytest.approx(0.01)]


SCHEDULES = [
    (lr_scheduler.LambdaLR, (lambda epoch: 0.5,)),
    (lr_scheduler.StepLR, (2,)),
    (lr_scheduler.MultiStepLR, ([2],)),
    (lr_scheduler.ConstantLR, ()),
    (lr_scheduler.LinearLR, ()),
    (lr_scheduler.ExponentialLR, (0.9,)),
    (lr_scheduler.PolynomialLR, ()),
    (lr_scheduler.CosineAnnealingLR, (5,)),
    (lr_scheduler.OneCycleLR, (1.0, 10)),
]


@pytest.mark.parametrize("kind, args", SCHEDULES, ids=lambda x: getattr(x, "__name__", ""))
def test_schedule_warns_about_get_lr_outside_of_a_step(kind, args):
    opt = optim.SGD([torch.ones(2, requires_grad=True)], lr=1.0, momentum=0.9)
    schedule = kind(opt, *args)
    opt.step()
    schedule.step()  # it calls get_lr without a warning
    with pytest.warns(UserWarning, match=r"please use `get_last_lr\(\)`"):
        schedule.get_lr()


def test_schedule_warns_about_an_overridden_step():
    opt = optim.SGD([torch.ones(2, requires_grad=True)], lr=1.0)
    schedule = optim.lr_scheduler.StepLR(opt, 2)
    opt.step = lambda: None
    with pytest.warns(UserWarning, match="has been overridden after learning rate scheduler"):
        schedule.step()
    again = optim.lr_scheduler.StepLR(opt, 2)  # made after it: watches this step
    opt.step()
    again.step()


def test_a_watched_optimizer_is_freed_at_once():
    opt = optim.SGD([torch.ones(2, requires_grad=True)], lr=1.0)
    optim.lr_scheduler.StepLR(opt, 2)
    gone = weakref.ref(opt)
    gc.disable()
    try:
        del opt
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "kind, order",
    [
        (
            optim.Adam,
            "lr betas eps weight_decay amsgrad maximize foreach capturable differentiable fused "
            "decoupled_weight_decay",
        ),
        (
            optim.RMSprop,
            "lr momentum alpha eps centered weight_decay capturable foreach maximize "
            "differentiable",
        ),
        (
            optim.Adagrad,
            "lr lr_decay eps weight_decay initial_accumulator_value foreach maximize "
            "differentiable fused",
        ),
        (
            optim.Adadelta,
            "lr rho eps weight_decay maximize capturable foreach differentiable",
        ),
        (
            optim.NAdam,
            "lr betas eps weight_decay momentum_decay decoupled_weight_decay maximize foreach "
            "capturable differentiable",
        ),
        (
            optim.RAdam,
            "lr betas eps weight_decay maximize foreach capturable decoupled_weight_decay "
            "differentiable",
        ),
        (optim.Rprop, "lr etas step_sizes foreach maximize differentiable capturable"),
    ],
)
def test_groups_have_torchs_order_of_options(kind, order):
    """The orders are those that torch prints for ``state_dict()["param_groups"]``."""
    optimizer = kind([nn.Parameter(torch.ones(1))])
    assert list(optimizer.defaults) == order.split()
    assert list(optimizer.state_dict()["param_groups"][0]) == [*order.split(), "params"]


def test_state_dicts_have_torchs_order_of_keys():
    """The orders are those that torch prints."""
    p = nn.Parameter(torch.tensor([1.0, 2.0]))
    optimizer = optim.LBFGS([p], max_iter=3)

    def closure():
        optimizer.zero_grad()
        loss = (p**4).sum()
        loss.backward()
        return loss

    end = "d t old_dirs old_stps ro H_diag prev_flat_grad prev_loss"
    for _ in range(2):
        optimizer.step(closure)
        assert list(optimizer.state[p]) == f"func_evals n_iter al {end}".split()
    optimizer = optim.LBFGS([p], max_iter=1)
    for _ in range(2):
        optimizer.step(closure)
    assert list(optimizer.state[p]) == f"func_evals n_iter {end} al".split()
    steps = optim.SGD([p], lr=0.1, momentum=0.9)
    one = lr_scheduler.OneCycleLR(steps, 0.1, total_steps=5).state_dict()
    first = "total_steps _schedule_phases _anneal_func_type cycle_momentum"
    assert list(one)[:4] == first.split()
    cyclic = lr_scheduler.CyclicLR(steps, 0.1, 0.2).state_dict()
    assert list(cyclic)[-2:] == ["_last_lr", "_scale_fn_custom"]
