# SPDX-License-Identifier: BSD-3-Clause
"""Measures peak memory and time of a training step, with and without moving saved tensors.

torch has no budget, so its rows are the plain step and save_on_cpu.
"""

# mypy: ignore-errors
from __future__ import annotations

import contextlib
import resource
import time

from .case import bench, group

group("saved-memory", "A step that saves 160 MB for backward")


def step(torch, context):
    """Returns seconds and peak bytes of one forward and backward inside `context()`."""
    x = torch.randn(1000, 1000, requires_grad=True)

    def run():
        with context():
            y = x
            for _ in range(40):
                y = (y * 0.5).tanh()
            loss = y.sum()
        loss.backward()

    start = time.perf_counter()
    run()
    seconds = time.perf_counter() - start
    return {
        "time": seconds,
        "peak bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


@bench("saved-memory", name="plain", own_process=True, rounds=3)
def plain(torch):
    return step(torch, contextlib.nullcontext)


@bench("saved-memory", name="save_on_cpu", own_process=True, rounds=3)
def save_on_cpu(torch):
    return step(torch, torch.autograd.graph.save_on_cpu)


@bench("saved-memory", name="budget 40 MB", own_process=True, only_cograd=True, rounds=3)
def budget(torch):
    return step(torch, lambda: torch.autograd.graph.saved_tensor_budget("40MB"))
