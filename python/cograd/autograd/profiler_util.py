# SPDX-License-Identifier: BSD-3-Clause
"""What profiles consist of, under the path that torch has for it."""

from .profiler import EventList, FunctionEvent, FunctionEventAvg

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg"]
