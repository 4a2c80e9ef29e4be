# SPDX-License-Identifier: BSD-3-Clause
"""Defines the cases of the table and their registry.

A case is one function that works for both modules, as in `benchmarks.case`: it builds what it needs
and returns the statement to be timed and the names that the statement uses:

    @scaling("products", multiplications=256**3)
    def mm_256(torch):
        x, y = torch.randn(256, 256), torch.randn(256, 256)
        return "x @ y", vars()
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ScalingCase:
    """Describes a row of the table.

    Attributes:
        group: the part of the table that it belongs to.
        name: unique within the group.
        function: called with the module; returns the statement and its names.
        multiplications: number of multiply-adds of a call; 0 if they do not limit its speed.
        nbytes: bytes that a call must read and write; 0 if memory does not limit its speed.
        double: True if the multiplications are in float64.
        options: keyword arguments of `function`, for `benchmarks.worker`; always empty here.
    """

    group: str
    name: str
    function: Callable[..., Any]
    multiplications: float = 0
    nbytes: float = 0
    double: bool = False
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Returns the name by which the driver requests the case from a worker."""
        return f"{self.group}/{self.name}"


CASES: dict[str, ScalingCase] = {}


def scaling(
    group: str, *, name: str | None = None, **limits: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a case; `limits` are multiplications, nbytes and double of `ScalingCase`."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        label = name or function.__name__.replace("_", " ")
        case = ScalingCase(group, label, function, **limits)
        if case.key in CASES:
            raise ValueError(f"two cases are called {case.key!r}")
        CASES[case.key] = case
        return function

    return decorate


def load() -> None:
    """Fills the registry; the order of the imports is that of the table."""
    from . import products, kernels, steps  # noqa: F401, I001
