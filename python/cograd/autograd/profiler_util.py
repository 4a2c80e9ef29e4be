# SPDX-License-Identifier: BSD-3-Clause
"""Events of profiles, under torch's path."""

from .profiler import EventList, FunctionEvent, FunctionEventAvg

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg"]
