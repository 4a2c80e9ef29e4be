# SPDX-License-Identifier: BSD-3-Clause
"""LBFGS, Muon and Adafactor where their values are known; hooks of all optimizers, averaged models,
swapped state, and what schedules refuse.
"""

import copy
import pickle
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import cograd as torch
from cograd import nn, optim
from cograd.optim import lr_scheduler, swa_utils
from cograd.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

PAGE = Path(__file__).resolve().parents[2] / "docs" / "optim.md"


def parameter(*values, dtype=torch.float64):
    return torch.tensor(values, dtype=dtype, requires_grad=True)


# LBFGS


def closure_of(optimizer, function):
    def closure():
        optimizer.zero_grad()
        loss = function()
        loss.backward()
        closure.calls += 1
        return loss

    closure.calls = 0
    return closure


def test_lbfgs_finds_the_valley_of_rosenbrock():
    x = parameter(-1.2, 1.0)
    exact = {"tolerance_change": 1e-15, "tolerance_grad": 1e-10}
    optimizer = optim.LBFGS([x], line_search_fn="strong_wolfe", max_iter=100, **exact)
    closure = closure_of(optimizer, lambda: 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2)
    first = optimizer.step(closure)
    assert first.item() == pytest.approx(24.2)
    torch.testing.assert_close(x.detach(), torch.ones(2, dtype=torch.float64), rtol=0, atol=1e-7)
    state = optimizer.state[x]
    assert state["func_evals"] == closure.calls
    assert len(state["old_dirs"]) == len(state["old_stps"]) == len(state["ro"])


def test_lbfgs_of_a_quadratic_needs_few_iterations():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((6, 6))
    a, b = root @ root.T + np.eye(6), rng.standard_normal(6)
    x = torch.zeros(6, dtype=torch.float64, requires_grad=True)
    exact = {"tolerance_change": 1e-15, "tolerance_grad": 1e-10}
    optimizer = optim.LBFGS([x], line_search_fn="strong_wolfe", max_iter=40, **exact)
    ta, tb = torch.tensor(a), torch.tensor(b)
    optimizer.step(closure_of(optimizer, lambda: 0.5 * x @ ta @ x - tb @ x))
    np.testing.assert_allclose(x.detach().numpy(), np.linalg.solve(a, b), atol=1e-8)
    assert optimizer.state[x]["n_iter"] < 30


def test_lbfgs_options_and_errors():
    x, y = parameter(1.0), parameter(2.0)
    with pytest.raises(ValueError, match="parameter groups"):
        optim.LBFGS([{"params": [x]}, {"params": [y]}])
    optimizer = optim.LBFGS([x, y], lr=0.1, history_size=2, max_iter=6)
    with pytest.raises(TypeError, match="closure"):
        optimizer.step()
    closure = closure_of(optimizer, lambda: ((x - 3) ** 2).sum())  # y has no gradient
    for _ in range(3):
        optimizer.step(closure)
    assert len(optimizer.state[x]["old_dirs"]) == 2
    assert y.item() == 2
    optimizer.param_groups[0]["line_search_fn"] = "golden"
    with pytest.raises(RuntimeError, match="only 'strong_wolfe' is supported"):
        optimizer.step(closure)
    x.data.fill_(3.0)
    evaluated = closure.calls
    optimizer.step(closure)  # nothing is left to do
    assert closure.calls == evaluated + 1


def test_lbfgs_of_complex_and_strided_parameters():
    z = torch.tensor([1 + 2j, -1j], dtype=torch.complex128, requires_grad=True)
    w = torch.ones(3, 2, dtype=torch.float64).t().requires_grad_()
    optimizer = optim.LBFGS([z, w], line_search_fn="strong_wolfe", max_iter=30)
    target = torch.tensor([0.5 - 1j, 2 + 0j], dtype=torch.complex128)
    optimizer.step(
        closure_of(optimizer, lambda: (z - target).abs().square().sum() + ((w - 4) ** 2).sum())
    )
    torch.testing.assert_close(z.detach(), target, rtol=0, atol=1e-8)
    torch.testing.assert_close(w.detach(), torch.full((2, 3), 4.0, dtype=torch.float64))


def test_lbfgs_continues_from_its_state():
    runs = []
    for reload in (False, True):
        x = parameter(-1.2, 1.0)
        optimizer = optim.LBFGS([x], line_search_fn="strong_wolfe", max_iter=4)

        def function(x=x):
            return 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2

        for _ in range(4):
            optimizer.step(closure_of(optimizer, function))
            if reload:
                saved = pickle.loads(pickle.dumps(optimizer.state_dict()))
                optimizer = optim.LBFGS([x], line_search_fn="strong_wolfe", max_iter=4)
                optimizer.load_state_dict(saved)
        runs.append(x.tolist())
    assert runs[0] == runs[1]


# Muon, Adafactor


@pytest.mark.parametrize("shape", [(4, 9), (9, 4), (5, 5)])
def test_muon_steps_by_about_orthogonal_matrices(shape):
    p = torch.zeros(*shape, requires_grad=True)
    p.grad = torch.randn(*shape)
    optim.Muon([p], lr=1.0, weight_decay=0, momentum=0, nesterov=False).step()
    scale = max(1, shape[0] / shape[1]) ** 0.5
    singular = torch.linalg.svdvals(p.detach() / scale)
    assert 0.5 < singular.min() and singular.max() < 1.4
    u, _, v = torch.linalg.svd(p.grad, full_matrices=False)
    assert ((p.detach() * (u @ v)).sum() < -0.6 * scale * min(shape)).item()


def test_muon_and_adafactor_refuse_what_they_cannot_take():
    with pytest.raises(ValueError, match="Muon only supports 2D parameters"):
        optim.Muon([parameter(1.0)])
    with pytest.raises(ValueError, match="Adjust learning rate function"):
        optim.Muon([torch.ones(2, 2, requires_grad=True)], adjust_lr_fn="other")
    z = torch.ones(2, 2, dtype=torch.complex64, requires_grad=True)
    z.grad = torch.ones(2, 2, dtype=torch.complex64)
    for kind in (optim.Muon, optim.Adafactor):
        with pytest.raises(RuntimeError, match="does not support complex parameters"):
            kind([z]).step()
    for options, text in (
        ({"d": 0.5}, "Clipping threshold d should be >= 1 but is: 0.5"),
        ({"beta2_decay": 0.1}, "beta2_decay should be <= 0 but is: 0.1"),
        ({"eps": (-1, 0)}, "epsilon1 should be >= 0 but is: -1"),
        ({"eps": (None, -1)}, "epsilon2 should be >= 0 but is: -1"),
    ):
        with pytest.raises(ValueError, match=re.escape(text)):
            optim.Adafactor([parameter(1.0)], **options)


# hooks of all optimizers


def test_global_hooks_surround_those_of_an_optimizer():
    p = parameter(1.0)
    p.grad = torch.ones(1, dtype=torch.float64)
    optimizer, seen = optim.SGD([p]), []
    handles = [
        register_optimizer_step_pre_hook(lambda o, a, k: seen.append("all before")),
        register_optimizer_step_post_hook(lambda o, a, k: seen.append("all after")),
    ]
    optimizer.register_step_pre_hook(lambda o, a, k: seen.append("before"))
    optimizer.register_step_post_hook(lambda o, a, k: seen.append("after"))
    try:
        optimizer.step()
    finally:
        for handle in handles:
            handle.remove()
    assert seen == ["all before", "before", "after", "all after"]
    seen.clear()
    optimizer.step()
    assert seen == ["before", "after"]


@pytest.mark.parametrize("kind", [optim.LBFGS, optim.SGD])
def test_hooks_see_the_arguments_of_the_unbound_step(kind):
    p, seen = parameter(1.0), []
    optimizer = kind([p])
    closure = closure_of(optimizer, lambda: (p**2).sum())
    optimizer.register_step_pre_hook(lambda o, a, k: seen.append((a, k)))
    optimizer.register_step_post_hook(lambda o, a, k: seen.append((a, k)))
    optimizer.step(closure)
    optimizer.step(closure=closure)
    by_name = ((optimizer,), {"closure": closure})
    assert seen == [((optimizer, closure), {})] * 2 + [by_name] * 2


def test_a_hook_replaces_the_arguments_of_a_step():
    p, calls = parameter(1.0), []
    optimizer = optim.SGD([p])
    optimizer.register_step_pre_hook(lambda o, a, k: ((*a, lambda: calls.append(1)), k))
    optimizer.step()
    assert calls == [1]


# averaged models


def test_averages_are_equal_or_exponential():
    model = nn.Linear(1, 1)
    values = [1.0, 2.0, 6.0, 7.0]

    def averaged(**kwargs):
        average = swa_utils.AveragedModel(model, **kwargs)
        for value in values:
            model.weight.data.fill_(value)
            average.update_parameters(model)
        return average.module.weight.item()

    assert averaged() == pytest.approx(4.0)
    assert averaged(avg_fn=swa_utils.get_swa_avg_fn()) == pytest.approx(4.0)
    decayed = 0.5 * (0.5 * (0.5 * 1 + 0.5 * 2) + 0.5 * 6) + 0.5 * 7
    assert averaged(multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.5)) == pytest.approx(decayed)
    assert averaged(avg_fn=swa_utils.get_ema_avg_fn(0.5)) == pytest.approx(decayed)
    with pytest.raises(AssertionError, match="Only one of avg_fn and multi_avg_fn"):
        averaged(avg_fn=abs, multi_avg_fn=abs)
    for make in (swa_utils.get_ema_avg_fn, swa_utils.get_ema_multi_avg_fn):
        with pytest.raises(ValueError, match=r"Invalid decay value 1\.5"):
            make(1.5)


def test_buffers_are_copied_or_averaged():
    model = nn.Linear(1, 1)
    model.register_buffer("seen", torch.tensor([0.0]))
    model.register_buffer("count", torch.tensor([0]))
    results = []
    for use_buffers in (False, True):
        average = swa_utils.AveragedModel(model, use_buffers=use_buffers)
        for value in (2, 4):
            model.seen.fill_(value)
            model.count.fill_(value)
            average.update_parameters(model)
        results.append((average.module.seen.item(), average.module.count.item()))
        assert average.n_averaged == 2
    assert results == [(4.0, 4), (3.0, 3)]
    x = torch.rand(2, 1)
    torch.testing.assert_close(average(x), average.module(x))
    assert "n_averaged" in average.state_dict()


class _BatchNorm(nn.Module):
    """Has the attributes of a batch norm that update_bn needs."""

    def __init__(self):
        super().__init__()
        self.momentum = 0.1
        self.register_buffer("running_mean", torch.ones(2))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def reset_running_stats(self):
        self.running_mean.zero_()
        self.num_batches_tracked.zero_()

    def forward(self, x):
        assert self.training and self.momentum is None
        self.num_batches_tracked += 1
        self.running_mean += (x.mean(0) - self.running_mean) / self.num_batches_tracked
        return x


def test_update_bn_takes_the_mean_over_batches():
    model = nn.Sequential(_BatchNorm(), nn.Linear(2, 1))
    model.eval()
    data = [torch.rand(3, 2) for _ in range(4)]
    swa_utils.update_bn([(batch, None) for batch in data], model)
    torch.testing.assert_close(model[0].running_mean, torch.stack(data).mean((0, 1)))
    assert model[0].momentum == 0.1
    assert not model.training
    swa_utils.update_bn(data, nn.Linear(2, 1))  # nothing to do


# swapped state


def test_swapped_parameters_and_state():
    p, q = parameter(1.0, 2.0), parameter(5.0, 6.0)
    optimizer = optim.Adam([p], lr=0.1)
    with pytest.raises(RuntimeError, match="initialized optimizer state"):
        with optim.swap_in_optimizer_params_and_state(optimizer, {"p": q}, {}):
            pass
    p.grad = torch.ones(2, dtype=torch.float64)
    optimizer.step()
    saved = copy.deepcopy(optimizer.state_dict())
    saved["param_groups"][0]["lr"] = 1.0
    before, groups = p.detach().clone(), optimizer.param_groups[0]["params"]
    q.grad = torch.ones(2, dtype=torch.float64)
    with optim.swap_in_optimizer_params_and_state(optimizer, {"p": q}, saved):
        assert optimizer.param_groups[0]["params"][0] is q
        optimizer.step()
    assert optimizer.param_groups[0]["params"] is groups
    assert optimizer.param_groups[0]["lr"] == 0.1
    assert torch.equal(p.detach(), before)
    torch.testing.assert_close(q.detach(), torch.tensor([4.0, 5.0], dtype=torch.float64))
    assert saved["state"][0]["step"] == 2
    assert optimizer.state[p]["step"] == 1
    assert q not in optimizer.state


@pytest.mark.parametrize(
    "change, text",
    [
        (lambda s: s.update(state=[]), "to be a dict"),
        (lambda s: s.update(state={0: 1}), "state of each parameter"),
        (lambda s: s["state"].update({7: {}}), "extra keys"),
        (lambda s: s.update(param_groups={}), "list of dicts"),
        (lambda s: s.update(param_groups=[]), "0 parameter groups"),
        (lambda s: s["param_groups"][0].pop("lr"), "Keys only in live"),
        (lambda s: s["param_groups"][0].update(params=[0, 1]), "has 2 params"),
        (lambda s: s["param_groups"][0].update(params="0"), "are indices"),
    ],
)
def test_swapped_state_must_fit(change, text):
    p = parameter(1.0)
    p.grad = torch.ones(1, dtype=torch.float64)
    optimizer = optim.Adam([p])
    optimizer.step()
    saved = copy.deepcopy(optimizer.state_dict())
    change(saved)
    with pytest.raises(RuntimeError, match=text):
        with optim.swap_in_optimizer_params_and_state(optimizer, {"p": p}, saved):
            pass
    assert optimizer.param_groups[0]["params"] == [p]


# schedules


def sgd(groups=1, **options):
    return optim.SGD([{"params": [parameter(1.0)]} for _ in range(groups)], lr=0.1, **options)


def test_schedules_refuse():
    s = lr_scheduler
    optimizer, other = sgd(2, momentum=0.9), sgd()
    flat = s.StepLR(optimizer, 1)
    for make, error, text in (
        (lambda: s.MultiplicativeLR(optimizer, [1]), ValueError, "Expected 2 lr_lambdas"),
        (lambda: s.MultiplicativeLR(optimizer, 1), TypeError, "should be a function, but got int"),
        (lambda: s.SequentialLR(optimizer, [], []), ValueError, "at least one scheduler"),
        (lambda: s.SequentialLR(optimizer, [flat], [1]), ValueError, "one more than the number"),
        (lambda: s.SequentialLR(other, [flat], []), ValueError, "same optimizer"),
        (lambda: s.SequentialLR(other, [1], []), TypeError, "`optimizer` as its attribute"),
        (lambda: s.ChainedScheduler([]), ValueError, "at least one scheduler to be chained"),
        (lambda: s.ChainedScheduler([1]), TypeError, "`optimizer` as its attribute"),
        (
            lambda: s.ChainedScheduler([s.ReduceLROnPlateau(optimizer)]),
            ValueError,
            "does not support `ReduceLROnPlateau`",
        ),
        (lambda: s.ReduceLROnPlateau(optimizer, factor=1.0), ValueError, "Factor should be < 1"),
        (lambda: s.ReduceLROnPlateau(optimizer, "up"), ValueError, "mode up is unknown"),
        (lambda: s.ReduceLROnPlateau(1), TypeError, "int is not an Optimizer"),
        (lambda: s.ReduceLROnPlateau(optimizer, min_lr=[0]), ValueError, "expected 2 min_lrs"),
        (lambda: s.CyclicLR(optimizer, 0.1, 1, mode="up"), ValueError, "mode is invalid"),
        (lambda: s.CyclicLR(optimizer, [0.1], 1), ValueError, "base_lr has 1 values"),
        (
            lambda: s.CyclicLR(optim.Adagrad([parameter(1.0)]), 0.1, 1),
            ValueError,
            "must support momentum or beta1",
        ),
        (lambda: s.CosineAnnealingWarmRestarts(optimizer, 0), ValueError, "positive integer T_0"),
        (
            lambda: s.CosineAnnealingWarmRestarts(optimizer, 1, 0.5),
            ValueError,
            "integer T_mult >= 1",
        ),
        (
            lambda: s.CosineAnnealingWarmRestarts(optimizer, 1, eta_min="0"),
            ValueError,
            "float or int eta_min",
        ),
        (lambda: swa_utils.SWALR(optimizer, 0.1, -1), ValueError, "greater than 0, got -1"),
        (
            lambda: swa_utils.SWALR(optimizer, 0.1, anneal_strategy="up"),
            ValueError,
            "'cos' or 'linear'",
        ),
    ):
        with pytest.raises(error, match=text):
            make()


def test_plateau_grows_with_the_groups():
    optimizer = sgd()
    schedule = lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, min_lr=0.05)
    optimizer.add_param_group({"params": [parameter(2.0)], "lr": 1.0})
    schedule.step(1.0)
    schedule.step(torch.tensor(1.0))
    assert schedule.get_last_lr() == [0.05, pytest.approx(0.1)]
    schedule = lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, min_lr=[0, 0])
    optimizer.add_param_group({"params": [parameter(3.0)]})
    schedule.step(1.0)
    with pytest.raises(RuntimeError, match="number of param groups"):
        schedule.step(1.0)


def test_restarts_at_any_epoch():
    optimizer = sgd()
    schedule = lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 4, 2)
    for epoch, rate in ((0.0, 0.1), (2, 0.05), (4, 0.1), (8, 0.05), (12, 0.1)):
        schedule.step(epoch)
        assert optimizer.param_groups[0]["lr"] == pytest.approx(rate)
    with pytest.raises(ValueError, match="non-negative epoch"):
        schedule.step(-1)


def test_schedules_warn_where_torchs_do():
    optimizer = sgd()
    schedule = lr_scheduler.ReduceLROnPlateau(optimizer)
    with pytest.warns(UserWarning, match="The epoch parameter"):
        schedule.step(1.0, 3)
    for make in (
        lambda: lr_scheduler.MultiplicativeLR(optimizer, lambda e: 1),
        lambda: lr_scheduler.CyclicLR(optimizer, 0.1, 1, cycle_momentum=False),
        lambda: lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 3),
        lambda: swa_utils.SWALR(optimizer, 0.1),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            schedule = make()
        with pytest.warns(UserWarning, match="get_last_lr"):
            schedule.get_lr()


def test_names():
    assert sorted(lr_scheduler.__all__) == sorted(set(lr_scheduler.__all__))
    for module in (optim, lr_scheduler, swa_utils):
        for name in module.__all__:
            assert getattr(module, name).__doc__, name


@pytest.mark.skipif(not PAGE.is_file(), reason="not run from a source checkout")
def test_page_runs():
    names = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S):
        exec(block, names)
    assert names["average"].n_averaged == 10
