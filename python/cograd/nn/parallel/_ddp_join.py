# SPDX-License-Identifier: BSD-3-Clause
"""Defines what a rank without further inputs does for a DistributedDataParallel module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cograd
from cograd.distributed.algorithms.join import JoinHook

if TYPE_CHECKING:
    from .distributed import DistributedDataParallel

__all__ = ["DDPJoinHook", "agree_on_rank"]


def agree_on_rank(group: Any, candidate: bool) -> int:
    """Returns the highest rank of the group that is a candidate; raises RuntimeError if none is."""
    rank = cograd.distributed.get_rank(group)
    best = cograd.tensor([rank if candidate else -1], dtype=cograd.int64)
    cograd.distributed.all_reduce(best, op=cograd.distributed.ReduceOp.MAX, group=group)
    found = int(best.item())
    if found < 0:
        raise RuntimeError("DistributedDataParallel.join: no rank has inputs")
    return found


class DDPJoinHook(JoinHook):
    """Shadows forward and backward; at the end all ranks copy the last joiner's parameters."""

    def __init__(self, ddp: DistributedDataParallel, divide_by_initial_world_size: bool) -> None:
        self.ddp = ddp
        ddp.reducer.divide_by_all = divide_by_initial_world_size

    def main_hook(self) -> None:
        """Runs the collectives of the module's forward in the same order, then backward's."""
        ddp = self.ddp
        ddp.reducer.rebuild()
        if ddp.will_sync_module_buffers():
            ddp._sync_buffers(has_inputs=False)
        syncs = ddp._whether_backward_syncs(has_inputs=False)
        ddp.require_forward_param_sync = syncs
        if syncs:
            ddp.reducer.shadow()

    def post_hook(self, is_last_joiner: bool) -> None:
        """Broadcasts the parameters and buffers of one of the ranks that had the most inputs."""
        ddp = self.ddp
        source = agree_on_rank(ddp.process_group, is_last_joiner)
        ddp._broadcast_module(source, buffers=ddp.forward_sync_buffers)
