# SPDX-License-Identifier: BSD-3-Clause
"""Sends gradients a few bytes at a time, in the same order on all ranks."""

from __future__ import annotations

import weakref
from collections import deque
from datetime import timedelta
from typing import Any

import cograd
from cograd import Tensor

__all__ = ["Lane", "lane_of"]

PIECE = 8 << 20  # most bytes of a message: its sums are still in the cache when they are read
FLYING = 2  # most messages in progress; more would evict each other from the cache


class _Sum:
    """A sum in progress: a Work that consists of several messages."""

    def __init__(self, lane: Lane, pieces: int) -> None:
        self._lane = lane
        self.left = pieces

    def is_completed(self) -> bool:
        """Returns whether all messages have been summed; never waits."""
        if self.left:
            self._lane.poll()
        return self.left == 0

    def wait(self) -> None:
        """Waits until all messages have been summed."""
        while self.left:
            self._lane.wait()


class Lane:
    """Sums tensors over the ranks of a group, in the order of the calls.

    A message may begin at different times on different ranks, so a lane has its own communicator,
    where no other call can come in between.
    """

    def __init__(self, group: Any) -> None:
        dist = cograd.distributed
        self.group = dist.new_group(
            dist.get_process_group_ranks(group),
            timeout=timedelta(seconds=group.timeout),
            use_local_synchronization=True,
            sort_ranks=False,
        )
        self.group._backend, self.group._chosen = group._backend, group._chosen
        self._waiting: deque[tuple[Tensor, _Sum]] = deque()
        self._flying: deque[tuple[Any, _Sum]] = deque()

    def sum(self, tensor: Tensor) -> _Sum:
        """Begins to sum a flat tensor, in place."""
        pieces: tuple[Tensor, ...] = (tensor,)
        if not (tensor.is_cuda and self.group._gpus == "nccl"):  # which is not driven by polling
            pieces = tensor.split(max(1, PIECE // tensor.element_size()))
        work = _Sum(self, len(pieces))
        self._waiting.extend((piece, work) for piece in pieces)
        self.poll()
        return work

    def poll(self) -> None:
        """Records which messages are complete, and begins the next ones."""
        while self._flying and self._flying[0][0].is_completed():
            self._flying.popleft()[1].left -= 1
        # In debug mode a call waits for the other ranks to compare, so begin all calls right here.
        whole = cograd.distributed.get_debug_level() is not cograd.distributed.DebugLevel.OFF
        while self._waiting and (
            whole or self._waiting[0][0].is_cuda or len(self._flying) < FLYING
        ):
            piece, work = self._waiting.popleft()
            started = cograd.distributed.all_reduce(piece, group=self.group, async_op=True)
            self._flying.append((started, work))

    def wait(self) -> None:
        """Waits for the oldest message in progress."""
        if self._flying:
            self._flying[0][0].wait()  # of GPUs: their stream waits, and the work goes on
            self._flying.popleft()[1].left -= 1
        self.poll()


_lanes: weakref.WeakKeyDictionary[Any, Lane] = weakref.WeakKeyDictionary()


def lane_of(group: Any) -> Lane:
    """Returns the lane of a process group; all ranks must create it at the same point."""
    lane = _lanes.get(group)
    if lane is None:
        lane = _lanes[group] = Lane(group)
    return lane
