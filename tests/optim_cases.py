# SPDX-License-Identifier: BSD-3-Clause
"""Optimizers and schedules with options, as programs that run with cograd and with torch.

With torch installed, ``python tests/optim_cases.py`` records what torch computes.
"""

import json
import math
import pathlib
import warnings

import numpy as np

RECORDED = pathlib.Path(__file__).parent / "recorded"
STEPS = 20

OPTIMIZERS = {
    "SGD": [
        {"lr": 0.05},
        {"lr": 0.05, "momentum": 0.9, "dampening": 0.2, "weight_decay": 0.1},
        {"lr": 0.05, "momentum": 0.9, "nesterov": True, "maximize": True},
    ],
    "Adam": [
        {},
        {"lr": 0.1, "weight_decay": 0.1, "eps": 1e-3},
        {"lr": 0.1, "amsgrad": True, "maximize": True, "betas": (0.6, 0.5)},
        {"lr": 0.1, "decoupled_weight_decay": True, "weight_decay": 0.3},
    ],
    "AdamW": [{}, {"lr": 0.1, "amsgrad": True, "weight_decay": 0.3, "maximize": True}],
    "RMSprop": [
        {},
        {"momentum": 0.9, "alpha": 0.8},
        {"centered": True, "weight_decay": 0.1, "eps": 1e-3},
        {"centered": True, "momentum": 0.5, "maximize": True},
    ],
    "Adagrad": [
        {},
        {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.2},
        {"lr": 0.1, "eps": 1e-2, "maximize": True},
    ],
    "Adadelta": [{}, {"lr": 0.5, "rho": 0.7, "weight_decay": 0.1, "eps": 1e-4, "maximize": True}],
    "Adamax": [
        {},
        {"lr": 0.1, "weight_decay": 0.1, "maximize": True, "betas": (0.5, 0.7), "eps": 0.1},
    ],
    "NAdam": [
        {},
        {"lr": 0.02, "weight_decay": 0.1, "betas": (0.8, 0.9)},
        {
            "lr": 0.1,
            "weight_decay": 0.1,
            "decoupled_weight_decay": True,
            "maximize": True,
            "momentum_decay": 0.1,
        },
    ],
    "RAdam": [
        {},
        {"lr": 0.1, "weight_decay": 0.1, "betas": (0.8, 0.7), "eps": 1e-3},
        {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True},
    ],
    "Rprop": [
        {},
        {"lr": 0.1, "etas": (0.3, 1.5), "step_sizes": (1e-3, 0.2)},
        {"maximize": True},
    ],
    "ASGD": [
        {},
        {"lr": 0.05, "t0": 3, "lambd": 0.1, "alpha": 0.5, "weight_decay": 0.1},
        {"maximize": True, "t0": 0},
    ],
    "Adafactor": [
        {},
        {"lr": 0.1, "weight_decay": 0.1, "maximize": True, "d": 2.0},
        {"eps": (1e-3, 1e-2), "beta2_decay": -0.5},
    ],
    "Muon": [
        {},
        {"lr": 0.1, "nesterov": False, "adjust_lr_fn": "match_rms_adamw", "momentum": 0.5},
        {"lr": 0.1, "ns_steps": 3, "weight_decay": 0.3, "ns_coefficients": (2.0, -1.5, 0.5)},
    ],
    "LBFGS": [
        {"lr": 0.1, "max_iter": 1},
        {"lr": 0.05, "max_iter": 2, "history_size": 2},
        {"line_search_fn": "strong_wolfe", "max_iter": 1},
        {"line_search_fn": "strong_wolfe", "max_iter": 1, "lr": 3.0, "history_size": 1},
        {"line_search_fn": "strong_wolfe", "max_iter": 3, "max_eval": 4, "lr": 0.3},
    ],
}
CASES = [(name, options) for name, several in OPTIMIZERS.items() for options in several]
# torch's formulas for these differ in bfloat16; Muon always computes in it.
LOOSE = {"Muon": 0.02}


def label(case):
    """Returns one line for a case."""
    return f"{case[0]} {json.dumps(case[1])}" if isinstance(case, tuple) else str(case)


def start(name, complex_numbers=False):
    """Returns the initial parameters: matrices, and a vector if the optimizer accepts one."""
    rng = np.random.default_rng(7)
    shapes = [(2, 3), (3, 2)] if name == "Muon" else [(2, 2), (3,)]
    values = [rng.standard_normal(shape) for shape in shapes]
    return [v + 1j * rng.standard_normal(v.shape) if complex_numbers else v for v in values]


def loss(params, step):
    """Returns a loss of bowls of several widths, which change over time, with ripples."""
    total = 0
    for i, p in enumerate(params):
        d = p - 0.3
        if p.is_complex():
            total = total + ((d * d.conj()).real * (1 + 0.1 * step + i)).sum()
        else:
            total = total + (d * d * (1 + 0.1 * step + i) + p.sin()).sum()
    return total


class Run:
    """An optimizer with parameters of a dtype."""

    def __init__(self, torch, name, options, dtype="float64", **more):
        self.torch = torch
        values = start(name, dtype.startswith("complex"))
        self.params = [
            torch.tensor(v).to(getattr(torch, dtype)).requires_grad_(True) for v in values
        ]
        self.optimizer = getattr(torch.optim, name)(self.params, **options, **more)
        self.done = 0

    def step(self):
        """Runs one step; returns the parameters after it."""
        step = self.done
        self.done += 1

        def closure():
            self.optimizer.zero_grad()
            value = loss(self.params, 0 if type(self.optimizer).__name__ == "LBFGS" else step)
            value.backward()
            return value

        self.optimizer.step(closure)
        return self.values()

    def values(self):
        """Returns the parameters as one vector of doubles."""
        wide = self.torch.complex128 if self.params[0].is_complex() else self.torch.float64
        parts = [p.detach().to(wide).numpy().reshape(-1) for p in self.params]
        return np.concatenate(parts)

    def trajectory(self, steps=STEPS):
        """Returns the values after each step."""
        return np.array([self.step() for _ in range(steps)])

    def kinds(self):
        """Returns name, dtype and shape of the state of each parameter."""
        return {str(i): kinds(s) for i, s in self.optimizer.state_dict()["state"].items()}


def kinds(state):
    """Returns names, with dtypes and shapes of tensors and types of other values."""
    found = {}
    for key, value in state.items():
        if hasattr(value, "dtype"):
            found[key] = [str(value.dtype).split(".")[-1], list(value.shape)]
        else:
            found[key] = type(value).__name__
    return found


def plain(value):
    """Converts tensors to NumPy arrays, for the other library."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(plain(item) for item in value)
    return value.detach().numpy().copy() if hasattr(value, "detach") else value


def tensors(torch, value):
    """Converts NumPy arrays to tensors."""
    if isinstance(value, dict):
        return {key: tensors(torch, item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(tensors(torch, item) for item in value)
    return torch.tensor(value) if isinstance(value, (np.ndarray, np.generic)) else value


class Power:
    """A function object whose state is saved."""

    def __init__(self):
        self.base = 0.5

    def __call__(self, x):
        return self.base**x


def schedules(torch):
    """Returns name -> function from an optimizer to its schedule."""
    s, swa = torch.optim.lr_scheduler, torch.optim.swa_utils
    return {
        "LambdaLR": lambda o: s.LambdaLR(o, [lambda e: 0.9**e, lambda e: 1 / (1 + e)]),
        "LambdaLR object": lambda o: s.LambdaLR(o, Power()),
        "MultiplicativeLR": lambda o: s.MultiplicativeLR(o, lambda e: 0.97),
        "StepLR": lambda o: s.StepLR(o, 7, 0.5),
        "MultiStepLR": lambda o: s.MultiStepLR(o, [3, 3, 20, 60], 0.3),
        "ConstantLR": lambda o: s.ConstantLR(o, 0.4, 9),
        "LinearLR": lambda o: s.LinearLR(o, 0.2, 0.8, 30),
        "ExponentialLR": lambda o: s.ExponentialLR(o, 0.95),
        "PolynomialLR": lambda o: s.PolynomialLR(o, 40, 2.0),
        "CosineAnnealingLR": lambda o: s.CosineAnnealingLR(o, 17, 0.001),
        "WarmRestarts": lambda o: s.CosineAnnealingWarmRestarts(o, 7, 2, 0.001),
        "WarmRestarts equal": lambda o: s.CosineAnnealingWarmRestarts(o, 9),
        "CyclicLR": lambda o: s.CyclicLR(o, 0.01, 0.1, 8),
        "CyclicLR triangular2": lambda o: s.CyclicLR(
            o, [0.01, 0.02], [0.1, 0.3], 5, 9, mode="triangular2", base_momentum=0.7
        ),
        "CyclicLR exp_range": lambda o: s.CyclicLR(
            o, 0.01, 0.1, 8, mode="exp_range", gamma=0.99, cycle_momentum=False
        ),
        "CyclicLR function": lambda o: s.CyclicLR(o, 0.01, 0.1, 8, scale_fn=Power()),
        "OneCycleLR": lambda o: s.OneCycleLR(o, 0.3, total_steps=101),
        "OneCycleLR three phases": lambda o: s.OneCycleLR(
            o,
            [0.3, 0.2],
            epochs=11,
            steps_per_epoch=10,
            three_phase=True,
            anneal_strategy="linear",
        ),
        "SequentialLR": lambda o: s.SequentialLR(
            o,
            [s.ConstantLR(o, 0.1, 20), s.ExponentialLR(o, 0.9), s.CosineAnnealingLR(o, 10)],
            [20, 60],
        ),
        "SequentialLR restarts": lambda o: s.SequentialLR(
            o, [s.LinearLR(o, 0.1, 1.0, 10), s.CosineAnnealingWarmRestarts(o, 9)], [10]
        ),
        "ChainedScheduler": lambda o: s.ChainedScheduler(
            [s.ConstantLR(o, 0.1, 20), s.ExponentialLR(o, 0.9)], o
        ),
        "SWALR": lambda o: swa.SWALR(o, 0.05, 12),
        "SWALR at once": lambda o: swa.SWALR(o, [0.05, 0.01], 0, "linear"),
        "SWALR linear": lambda o: swa.SWALR(o, 0.05, 12, "linear"),
        "ReduceLROnPlateau": lambda o: s.ReduceLROnPlateau(
            o, patience=3, cooldown=2, factor=0.5, min_lr=[1e-3, 1e-2]
        ),
        "ReduceLROnPlateau max abs": lambda o: s.ReduceLROnPlateau(
            o, "max", threshold=0.01, threshold_mode="abs", patience=2
        ),
        "ReduceLROnPlateau max rel": lambda o: s.ReduceLROnPlateau(
            o, "max", threshold=0.01, patience=2, eps=1e-3
        ),
        "ReduceLROnPlateau min abs": lambda o: s.ReduceLROnPlateau(
            o, "min", threshold=0.01, threshold_mode="abs", patience=2
        ),
    }


class ScheduleRun:
    """A schedule with two parameter groups."""

    def __init__(self, torch, name, tensor_lr=False):
        rate = torch.tensor if tensor_lr else float
        a, b = (torch.zeros(1, requires_grad=True) for _ in range(2))
        groups = [{"params": [a]}, {"params": [b], "lr": rate(0.2)}]
        self.optimizer = torch.optim.SGD(groups, lr=rate(0.5), momentum=0.9)
        self.schedule = schedules(torch)[name](self.optimizer)
        self.needs_metric = "Plateau" in name
        self.epoch = 0

    def step(self):
        """Returns rates and momenta of the next epoch."""
        self.optimizer.step()
        if self.needs_metric:
            self.schedule.step(math.sin(self.epoch / 5) + self.epoch / 50)
        else:
            self.schedule.step()
        self.epoch += 1
        groups = self.optimizer.param_groups
        rates = [float(g["lr"]) for g in groups]
        assert rates == [float(lr) for lr in self.schedule.get_last_lr()]
        return rates + [float(g["momentum"]) for g in groups]

    def rates(self, epochs=100):
        """Returns the rates and momenta of the next epochs."""
        return [self.step() for _ in range(epochs)]


def record(torch):
    """Writes what torch computes to tests/recorded."""
    lines = []
    for name, options in CASES:
        run = Run(torch, name, options)
        values = [[float(f"{x:.10g}") for x in row] for row in run.trajectory()]
        entry = {
            "case": label((name, options)),
            "values": values,
            "state": run.kinds(),
            "repr": repr(run.optimizer),
        }
        lines.append(json.dumps(entry))
    (RECORDED / "optimizers.jsonl").write_text("\n".join(lines) + "\n")
    lines = []
    for name in schedules(torch):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run = ScheduleRun(torch, name)
            entry = {"case": name, "rates": run.rates()[::4], "keys": sorted(saved_keys(run))}
        lines.append(json.dumps(entry))
    (RECORDED / "schedules.jsonl").write_text("\n".join(lines) + "\n")


def saved_keys(run):
    """Returns the names in a schedule's state."""
    return run.schedule.state_dict().keys()


def recorded(name):
    """Returns case -> entry of one of the files."""
    lines = (RECORDED / name).read_text().splitlines()
    return {entry["case"]: entry for entry in map(json.loads, lines)}


if __name__ == "__main__":
    import torch

    record(torch)
