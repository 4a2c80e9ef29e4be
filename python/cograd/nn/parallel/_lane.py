# SPDX-License-Identifier: BSD-3-Clause
"""The order in which gradients travel: few bytes at a time, the same on all ranks."""

from __future__ import annotations

import weakref
from collections import deque
from datetime import timedelta
from typing import Any

import cograd
from cograd import Tensor

__all__ = ["Lane", "lane_of"]

PIECE = 8 << 20  # bytes of a message at most: its sums are still in the cache when they are read
FLYING = 2  # messages on their way; many at once take the cache from each other


class _Sum:
    """A sum in progress: a Work of several messages."""

    def __init__(self, lane: Lane, pieces: int) -> None:
        self._lane = lane
        self.left = pieces

    def is_completed(self) -> bool:
        """Whether all messages have been summed; never waits."""
        if self.left:
            self._lane.poll()
        return self.left == 0

    def wait(self) -> None:
        """Waits until they have."""
        while self.left:
            self._lane.wait()


class Lane:
    """Sums of tensors over the ranks of a group, in the order in which they were asked for.

    A message may begin at different times on different ranks, so they have a communicator of
    their own, where nothing comes between them.
    """

    def __init__(self, group: Any) -> None:
        dist = cograd.distributed
        self.group = dist.new_group(
            dist.get_process_group_ranks(group),
            timeout=timedelta(seconds=group.timeout),
            use_local_synchronization=True,
            sort_ranks=False,
        )
        self._waiting: deque[tuple[Tensor, _Sum]] = deque()
        self._flying: deque[tuple[Any, _Sum]] = deque()

    def sum(self, tensor: Tensor) -> _Sum:
        """Begins the sum of a flat tensor, in place."""
        pieces = tensor.split(max(1, PIECE // tensor.element_size()))
        work = _Sum(self, len(pieces))
        self._waiting.extend((piece, work) for piece in pieces)
        self.poll()
        return work

    def poll(self) -> None:
        """Takes note of what is complete, and begins what comes next."""
        while self._flying and self._flying[0][0].is_completed():
            self._flying.popleft()[1].left -= 1
        # Comparing calls in debug mode waits for the other ranks: it must not begin at any time.
        whole = cograd.distributed.get_debug_level() is not cograd.distributed.DebugLevel.OFF
        while self._waiting and (whole or len(self._flying) < FLYING):
            piece, work = self._waiting.popleft()
            started = cograd.distributed.all_reduce(piece, group=self.group, async_op=True)
            self._flying.append((started, work))

    def wait(self) -> None:
        """Waits for the message that has been under way longest."""
        if self._flying:
            self._flying[0][0].wait()
        self.poll()


_lanes: weakref.WeakKeyDictionary[Any, Lane] = weakref.WeakKeyDictionary()


def lane_of(group: Any) -> Lane:
    """The lane of a process group, made when all of its ranks ask for the first time."""
    lane = _lanes.get(group)
    if lane is None:
        lane = _lanes[group] = Lane(group)
    return lane
