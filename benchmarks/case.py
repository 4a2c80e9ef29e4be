# SPDX-License-Identifier: BSD-3-Clause
"""Defines benchmarks and their registry.

A benchmark is one function that works for both modules. It builds what it needs and returns the
statement to be timed together with the names the statement uses:

    @bench("small", grad=(False, True))
    def add(torch, grad):
        x, y = torch.rand(4, requires_grad=grad), torch.rand(4)
        return "x + y", vars()

The statement is compiled into the timing loop, so the time does not include the call of a wrapper.
A third element, if any, is a statement that runs before each timed one and is not timed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Target:
    """Holds the ratio of torch's time to cograd's time that a group must reach."""

    geomean: float | None = None
    each: float | None = None


@dataclass(frozen=True)
class Case:
    """Describes a row of the table.

    Attributes:
        group: the part of the table that it belongs to.
        name: unique within the group.
        function: called with the module and `options`.
        options: keyword arguments of this variant, such as `grad` or `n`.
        per: the statement does this many operations; times are divided by it.
        own_process: the function measures itself, in a fresh process, and returns
            {metric: value}; a metric whose name ends in "bytes" is a size, others are seconds.
        only_cograd: torch is not measured.
        rounds: the number of samples of each side; None means the default.
        targets: the ratio this row has to reach by itself, for each of its metrics ("time" where
            the statement is timed for it).
    """

    group: str
    name: str
    function: Callable[..., Any]
    options: dict[str, Any] = field(default_factory=dict)
    per: int = 1
    own_process: bool = False
    only_cograd: bool = False
    rounds: int | None = None
    targets: dict[str, float] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Returns the name by which the parent process requests the case from a worker."""
        return f"{self.group}/{self.name}"


CASES: dict[str, Case] = {}
GROUPS: dict[str, tuple[str, Target]] = {}


def group(name: str, title: str, geomean: float | None = None, each: float | None = None) -> None:
    """Declares a part of the table, its title and its targets."""
    GROUPS[name] = (title, Target(geomean, each))


def bench(
    group: str,
    *,
    name: str | None = None,
    per: int = 1,
    own_process: bool = False,
    only_cograd: bool = False,
    rounds: int | None = None,
    target: float | None = None,
    targets: dict[str, float] | None = None,
    **variants: Sequence[Any],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a benchmark; each keyword in `variants` is a list of values to run it with."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for values in itertools.product(*variants.values()):
            options = dict(zip(variants, values, strict=True))
            label = name or function.__name__
            for key, value in options.items():
                if value is True:
                    label += f", {key}"
                elif value is not False:
                    label += f" {value}"
            goals = dict(targets or {}) if target is None else {"time": target}
            case = Case(
                group, label, function, options, per, own_process, only_cograd, rounds, goals
            )
            if case.key in CASES:
                raise ValueError(f"two benchmarks are called {case.key!r}")
            CASES[case.key] = case
        return function

    return decorate
