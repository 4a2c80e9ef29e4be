# SPDX-License-Identifier: BSD-3-Clause
"""Renders a profile as a self-contained page: a timeline, the memory over time, a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cograd.autograd._gaps import main_thread
from cograd.autograd._graph_page import fill, pack

if TYPE_CHECKING:
    from cograd.autograd.profiler import EventList

__all__ = ["page"]

_KINDS = {"op": 0, "node": 1, "user": 2}


def _numbered(texts: Sequence[str]) -> tuple[list[str], Any]:
    """Returns the distinct texts, and each item's index among them."""
    numbers = {t: i for i, t in enumerate(dict.fromkeys(texts))}
    return list(numbers), np.array([numbers[t] for t in texts], np.int32)


def _depths(events: Sequence[Any]) -> Any:
    """Returns for each event how many events of the same thread contain it.

    The events must be ordered by their start.
    """
    stacks: dict[int, list[float]] = {}
    depths = np.zeros(len(events), np.int32)
    for i, e in enumerate(events):
        stack = stacks.setdefault(e.thread, [])
        while stack and stack[-1] <= e.start:
            stack.pop()
        depths[i] = len(stack)
        stack.append(e.end)
    return depths


def page(events: EventList, title: str) -> str:
    """Returns the HTML of a profile's events (:class:`~cograd.autograd.profiler.FunctionEvent`)."""
    gaps, summary = events.gaps(), events.summary()
    main = str(main_thread(events))
    rows = sorted((e for e in events if e.kind in _KINDS), key=lambda e: (e.start, -e.end))
    names, name = _numbered([e.name for e in rows])
    places, place = _numbered([e.place for e in rows])
    threads, thread = _numbered([str(e.thread) for e in rows])
    data = {
        "title": title,
        "names": names,
        "places": places,
        "threads": len(threads),
        "name": pack(name),
        "place": pack(place),
        "thread": pack(thread),
        "kind": pack(np.array([_KINDS[e.kind] for e in rows], np.int32)),
        "depth": pack(_depths(rows)),
        "start": pack(np.array([e.start for e in rows], np.float64)),
        "end": pack(np.array([e.end for e in rows], np.float64)),
        "own": pack(np.array([e.self_cpu_time_total for e in rows], np.float64)),
        "memory": pack(np.array([e.memory for e in rows], np.float64)),
        "main": threads.index(main) if threads else 0,
        "summary": dict(summary),
        "gap": pack(np.array([(g.start, g.end, g.waited) for g in gaps], np.float64)),
    }
    return fill("_profile_page.html", data)
