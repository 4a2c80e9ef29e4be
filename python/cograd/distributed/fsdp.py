# SPDX-License-Identifier: BSD-3-Clause
"""Names of torch.distributed.fsdp for isinstance checks: nothing is sharded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cograd import _absent

__all__ = ["FSDPModule", "FullyShardedDataParallel"]


class FullyShardedDataParallel:
    """The class of a module with sharded parameters; it has no instances."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise _absent.refused("distributed.fsdp.FullyShardedDataParallel", "distributed")


class FSDPModule:
    """The class of a module that ``fully_shard`` has changed; it has no instances."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise _absent.refused("distributed.fsdp.FSDPModule", "distributed")


if not TYPE_CHECKING:
    __getattr__ = _absent.reporter(__name__)
