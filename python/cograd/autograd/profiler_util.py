# SPDX-License-Identifier: BSD-3-Clause
# Written by make stubs from the rows of python/surface/faces.toml: change those.
"""Events of profiles, under torch's path."""

from __future__ import annotations

from cograd.autograd.profiler import EventList, FunctionEvent, FunctionEventAvg, Kernel

__all__ = [
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "Kernel",
]
