# SPDX-License-Identifier: BSD-3-Clause
"""Hooks for ``DistributedDataParallel.register_comm_hook``."""

from __future__ import annotations

import enum
from typing import Any

from . import debugging_hooks as debugging_hooks
from . import default_hooks as default_hooks
from . import powerSGD_hook as powerSGD_hook

__all__ = ["DDPCommHookType", "register_ddp_comm_hook"]


class DDPCommHookType(enum.Enum):
    """Names of hooks, for ``register_ddp_comm_hook``."""

    ALLREDUCE = "allreduce_hook"
    FP16_COMPRESS = "fp16_compress_hook"
    BF16_COMPRESS = "bf16_compress_hook"
    POWER_SGD = "powerSGD_hook"
    POWER_SGD_RANK2 = "powerSGD_hook rank 2"
    BATCHED_POWER_SGD = "batched_powerSGD_hook"
    BATCHED_POWER_SGD_RANK2 = "batched_powerSGD_hook rank 2"
    NOOP = "noop_hook"


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model: Any, state: Any = None) -> None:
    """Registers the hook with the DistributedDataParallel module ``model``.

    For the hooks of PowerSGD ``state`` is the process group.
    """
    name, _, rank = comm_hook_type.value.partition(" rank ")
    for module in (default_hooks, debugging_hooks, powerSGD_hook):
        hook = getattr(module, name, None)
        if hook is None:
            continue
        if module is powerSGD_hook:
            state = powerSGD_hook.PowerSGDState(state, int(rank or 1))
        model.register_comm_hook(state, hook)
        return
