# SPDX-License-Identifier: BSD-3-Clause
"""Measures steps of optimizers for many small parameters and for a large one."""

# mypy: ignore-errors
from __future__ import annotations

from .case import bench, group

group("optim", "Optimizers' steps, gradients at hand", geomean=5.0)

KINDS = {
    "SGD": {"lr": 1e-6},
    "SGD momentum": {"lr": 1e-6, "momentum": 0.9},
    "Adam": {"lr": 1e-6},
    "AdamW": {"lr": 1e-6},
    "RMSprop": {"lr": 1e-6},
    "Adagrad": {"lr": 1e-6},
    "Adadelta": {"lr": 1e-6},
    "Adamax": {"lr": 1e-6},
    "NAdam": {"lr": 1e-6},
    "RAdam": {"lr": 1e-6},
    "Rprop": {"lr": 1e-6},
    "ASGD": {"lr": 1e-6},
}
SMALL = ("SGD", "SGD momentum", "Adam", "AdamW")


def optimizer_of(torch, kind, sizes):
    """Returns an optimizer over parameters with gradients, after its first step."""
    params = [torch.rand(*size).requires_grad_() for size in sizes]
    for p in params:
        p.grad = torch.rand(*p.shape)
    optimizer = getattr(torch.optim, kind.split()[0])(params, **KINDS.get(kind, {}))
    optimizer.step()
    return optimizer


@bench("optim", name="100 parameters of 1000,", kind=tuple(KINDS), target=5.0)
def small(torch, kind):
    step = optimizer_of(torch, kind, [(1000,)] * 100).step
    return "step()", vars()


@bench("optim", name="Adafactor, 100 parameters of 1000")
def adafactor(torch):
    step = optimizer_of(torch, "Adafactor", [(1000,)] * 100).step
    return "step()", vars()


@bench("optim", name="one parameter of 1e7,", kind=SMALL, rounds=5, target=1.2)
def large(torch, kind):
    step = optimizer_of(torch, kind, [(10_000_000,)]).step
    return "step()", vars()


@bench("optim", name="Muon, 4 matrices 256 x 256", rounds=5)
def muon(torch):
    params = [torch.rand(256, 256).requires_grad_() for _ in range(4)]
    for p in params:
        p.grad = torch.rand(256, 256)
    step = torch.optim.Muon(params).step
    return "step()", vars()


@bench("optim", name="LBFGS, 20 iterations, 10000 numbers", rounds=5)
def lbfgs(torch):
    x, scale = torch.zeros(10000, requires_grad=True), torch.linspace(1, 50, 10000)
    optimizer = torch.optim.LBFGS([x], line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = (scale * (x - 1) ** 2).sum()
        loss.backward()
        return loss

    def run():
        with torch.no_grad():
            x.zero_()
        optimizer.state.clear()
        optimizer.step(closure)

    return "run()", vars()


@bench("optim", name="LBFGS, a step of 20 iterations, 10 numbers", rounds=5, target=6.0)
def lbfgs_small(torch):
    x, scale = torch.zeros(10, requires_grad=True), torch.linspace(1, 50, 10)

    def closure():
        optimizer.zero_grad()
        loss = (scale * (x - 1) ** 2).sum()
        loss.backward()
        return loss

    def run():
        nonlocal optimizer
        with torch.no_grad():
            x.zero_()
        optimizer = torch.optim.LBFGS([x], lr=0.02, tolerance_grad=0, tolerance_change=0)
        optimizer.step(closure)

    optimizer = None
    return "run()", vars()


@bench("optim", name="schedule, CosineAnnealingLR over 10 groups")
def schedule(torch):
    groups = [{"params": [torch.zeros(1, requires_grad=True)]} for _ in range(10)]
    optimizer = torch.optim.SGD(groups, lr=0.1)
    step = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100).step
    optimizer.step()
    return "step()", vars()
