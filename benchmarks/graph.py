# SPDX-License-Identifier: BSD-3-Clause
"""Measures long chains of multiplications: the cost of the graph itself."""

# mypy: ignore-errors
from __future__ import annotations

import gc
import itertools
import resource
import time

from .case import bench, group

group("chain", "Chain of 1000 multiplications, per node")


@bench("chain", name="build", per=1000, target=6.0)
def build(torch):
    x = torch.ones(4, requires_grad=True)
    return "z = x\nfor _ in range(1000): z = z * 1.0001", vars()


@bench("chain", name="backward", per=1000, target=15.0)
def backward(torch):
    x, g = torch.ones(4, requires_grad=True), torch.ones(4)
    return "z.backward(g)", vars(), "z = x\nfor _ in range(1000): z = z * 1.0001"


@bench("chain", name="backward, tensor factor", per=1000)
def backward_tensor(torch):
    x, g, c = torch.ones(4, requires_grad=True), torch.ones(4), torch.full((4,), 1.0001)
    return "z.backward(g)", vars(), "z = x\nfor _ in range(1000): z = z * c"


@bench("chain", name="backward, create_graph", per=1000)
def backward_create_graph(torch):
    x, g = torch.ones(4, requires_grad=True), torch.ones(4)
    grad = torch.autograd.grad
    prepare = "z = x\nfor _ in range(1000): z = z * 1.0001"
    return "grad(z, x, g, create_graph=True)", vars(), prepare


group("long-chain", "Long chains, each in its own process")


def long_chain(torch, n):
    """Builds, differentiates and frees a chain of `n` nodes on four elements."""
    gc.disable()
    x, g = torch.ones(4, requires_grad=True), torch.ones(4)
    times = [time.perf_counter()]
    z = x
    for _ in range(n):
        z = z * 1.0000001
    times.append(time.perf_counter())
    z.backward(g, retain_graph=True)
    times.append(time.perf_counter())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    del z
    times.append(time.perf_counter())
    value = x.grad[0].item()
    if abs(value - 1.0000001**n) > 2e-1 * value:
        raise AssertionError(f"wrong gradient {value} after {n} nodes")
    steps = [b - a for a, b in itertools.pairwise(times)]
    return {"build": steps[0], "backward": steps[1], "free": steps[2], "peak bytes": peak}


GOALS = {"build": 6.0, "backward": 15.0, "peak bytes": 1.0}


@bench("long-chain", name="1e6 nodes", own_process=True, rounds=2, targets=GOALS)
def chain_1e6(torch):
    return long_chain(torch, 1_000_000)


@bench("long-chain", name="1e7 nodes", own_process=True, only_cograd=True, rounds=1)
def chain_1e7(torch):
    return long_chain(torch, 10_000_000)


group("wide", "Wide graphs, per node")


@bench("wide", name="1000 branches of one leaf, backward", per=1000)
def fan_out(torch):
    x, g = torch.ones(4, requires_grad=True), torch.ones(4)
    prepare = "s = x * 1.0\nfor _ in range(1000): s = s + x * 2.0"
    return "s.backward(g)", vars(), prepare
