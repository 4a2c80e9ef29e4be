# SPDX-License-Identifier: BSD-3-Clause
"""Compares backward on two threads with backward on one, in cograd only.

Each row is measured in one process, with the two settings in turn, so that the machine's speed
does not affect their ratio, the speed-up.
"""

# mypy: ignore-errors
from __future__ import annotations

import statistics
import time

from .case import bench, group

group("parallel-backward", "Backward on two threads, against one")


def best_of(torch, make, rounds=15):
    """Returns median times of backward with one thread and with two, in interleaved rounds."""
    times = {1: [], 2: []}
    for _ in range(rounds):
        for n in (1, 2):
            torch.autograd.set_num_backward_threads(n)
            loss = make()
            start = time.perf_counter()
            loss.backward()
            times[n].append(time.perf_counter() - start)
    torch.autograd.set_num_backward_threads(1)
    return statistics.median(times[1]), statistics.median(times[2])


def metrics(torch, make):
    """Returns the two times of a row."""
    for _ in range(3):
        make().backward()
    one, two = best_of(torch, make)
    return {"one thread": one, "two threads": two}


def rows(name, **options):
    """Registers a row that is measured only with cograd."""
    return bench(
        "parallel-backward", name=name, own_process=True, only_cograd=True, rounds=3, **options
    )


@rows("8 branches of elementwise ops, 30,000 elements")
def elementwise(torch):
    x = torch.randn(30_000, requires_grad=True)

    def make():
        total = None
        for b in range(8):
            y = x * (b + 1.0)
            for _ in range(10):
                y = (y * 0.5).tanh()
            total = y if total is None else total + y
        return total.sum()

    return metrics(torch, make)


@rows("4 branches of matrix products, 96 x 96")
def matrices(torch):
    x = torch.randn(96, 96, requires_grad=True)
    ws = [torch.randn(96, 96, requires_grad=True) for _ in range(4)]

    def make():
        total = None
        for w in ws:
            y = x
            for _ in range(10):
                y = torch.relu(y @ w * 0.1)
            total = y if total is None else total + y
        return total.sum()

    return metrics(torch, make)


@rows("chain of 4-element ops")
def small_chain(torch):
    x = torch.randn(4, requires_grad=True)

    def make():
        y = x
        for _ in range(3000):
            y = y * 1.0
        return y.sum()

    return metrics(torch, make)


@rows("chain of 30,000-element ops")
def heavy_chain(torch):
    x = torch.randn(30_000, requires_grad=True)

    def make():
        y = x
        for _ in range(200):
            y = (y * 0.5).tanh()
        return y.sum()

    return metrics(torch, make)


@rows("residual chain of 30,000-element ops")
def residual_chain(torch):
    x = torch.randn(30_000, requires_grad=True)

    def make():
        y = x
        for _ in range(100):
            y = (y * 0.5).tanh() + y
        return y.sum()

    return metrics(torch, make)
