# SPDX-License-Identifier: BSD-3-Clause
"""Methods that subclasses of torch's optimizers and schedules override are called as in torch."""

import pytest

import cograd as torch
from cograd.optim import LBFGS, SGD, lr_scheduler


def parameter(*values, **options):
    return torch.tensor(values, requires_grad=True, **options)


# ---------------------------------------------------------------------- LBFGS


@pytest.mark.parametrize(
    ("dtype", "max_eval", "expected", "evaluations"),
    [(torch.float32, 50, -0.000404, 22), (torch.float64, 50, -2.3438e41, 62)],
)
def test_line_search_on_a_nearly_constant_loss(dtype, max_eval, expected, evaluations):
    """The points of the search become equal; the expected values are torch's."""
    x = parameter(0.0, dtype=dtype)
    options = {"max_iter": 2, "max_eval": max_eval, "tolerance_grad": 0, "tolerance_change": 0}
    optimizer = LBFGS([x], line_search_fn="strong_wolfe", **options)

    def closure():
        optimizer.zero_grad()
        loss = 1e-4 * x.sum() + 1e6
        loss.backward()
        return loss

    optimizer.step(closure)
    optimizer.step(closure)
    assert x.item() == pytest.approx(expected, rel=1e-4)
    assert optimizer.state[x]["func_evals"] == evaluations


def test_lbfgs_calls_its_methods():
    class Told(LBFGS):
        calls = []

        def _gather_flat_grad(self):
            self.calls.append("_gather_flat_grad")
            return super()._gather_flat_grad()

        def _add_grad(self, step_size, direction):
            self.calls.append("_add_grad")
            return super()._add_grad(step_size, direction)

        def _directional_evaluate(self, closure, x, t, d):
            self.calls.append("_directional_evaluate")
            return super()._directional_evaluate(closure, x, t, d)

        def _clone_param(self):
            self.calls.append("_clone_param")
            return super()._clone_param()

        def _set_param(self, params_data):
            self.calls.append("_set_param")
            return super()._set_param(params_data)

    x = parameter(3.0, -1.0)
    optimizer = Told([x], line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = (x * x).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert x.abs().max() < 1e-3
    names = {"_gather_flat_grad", "_add_grad", "_directional_evaluate", "_clone_param"}
    assert set(Told.calls) == names | {"_set_param"}


# ---------------------------------------------------------------------- schedules


def test_plateau_passes_the_epoch():
    class Told(lr_scheduler.ReduceLROnPlateau):
        epochs = []

        def _reduce_lr(self, epoch):
            self.epochs.append(epoch)
            super()._reduce_lr(epoch)

    optimizer = SGD([parameter(1.0)], lr=1.0)
    schedule = Told(optimizer, patience=0)
    for metric in (1.0, 2.0, 0.5, 3.0):
        schedule.step(metric)
    assert Told.epochs == [2, 4]
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.01)


def test_plateau_methods():
    class Reversed(lr_scheduler.ReduceLROnPlateau):
        def _is_better(self, a, best):
            return not super()._is_better(a, best)

        def _init_is_better(self, mode, threshold, threshold_mode):
            super()._init_is_better(mode=mode, threshold=threshold, threshold_mode=threshold_mode)
            self.told = mode

        def _reset(self):
            super()._reset()
            self.was_reset = True

    schedule = Reversed(SGD([parameter(1.0)], lr=1.0), patience=0)
    assert schedule.was_reset and schedule.told == "min"
    schedule.step(1.0)
    assert schedule.num_bad_epochs == 0 and schedule.get_last_lr() == [0.1]


def test_update_lr_gets_the_epoch():
    class Told(lr_scheduler.StepLR):
        def _update_lr(self, epoch=None):
            self.__dict__.setdefault("epochs", []).append(epoch)
            super()._update_lr(epoch)

    schedule = Told(SGD([parameter(1.0)], lr=1.0), step_size=1)
    schedule.optimizer.step()
    schedule.step()
    with pytest.warns(UserWarning, match="epoch parameter"):
        schedule.step(5)
    assert schedule.epochs == [None, None, 5]


def test_one_cycle_anneals_by_its_method():
    class Flat(lr_scheduler.OneCycleLR):
        def _anneal_func(self, start, end, pct):
            return start

    optimizer = SGD([parameter(1.0)], lr=1.0, momentum=0.9)
    assert Flat(optimizer, max_lr=2.5, total_steps=10).get_last_lr() == [0.1]
    assert lr_scheduler.OneCycleLR._annealing_cos(1.0, 3.0, 0.5) == pytest.approx(2.0)
    assert lr_scheduler.OneCycleLR._annealing_linear(1.0, 3.0, 0.25) == pytest.approx(1.5)
