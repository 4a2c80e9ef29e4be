# SPDX-License-Identifier: BSD-3-Clause
"""What the jobs of tools/package_jobs.py share: their table, data and a network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

JOBS: dict[str, Callable[[], Any]] = {}


def job(name: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Registers a function that returns the numbers of the package ``name``."""

    def register(function: Callable[[], Any]) -> Callable[[], Any]:
        JOBS[name] = function
        return function

    return register


def data(n: int = 64, d: int = 4) -> tuple[Any, Any]:
    """Returns inputs and a target that depends on them."""
    x = torch.linspace(-1, 1, n * d).reshape(n, d).sin()
    return x, (x.sum(1, keepdim=True) * 3).sin()


def net(d: int = 4, out: int = 1) -> Any:
    """Returns a small network."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(d, 16), nn.Tanh(), nn.Linear(16, out))
