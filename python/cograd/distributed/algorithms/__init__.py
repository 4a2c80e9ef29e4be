# SPDX-License-Identifier: BSD-3-Clause
"""Algorithms built on collectives: uneven inputs (``join``), DistributedDataParallel hooks."""

from . import ddp_comm_hooks as ddp_comm_hooks
from . import join as join
from .join import Join, Joinable, JoinHook

__all__ = ["Join", "JoinHook", "Joinable", "ddp_comm_hooks", "join"]
