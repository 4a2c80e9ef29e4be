# SPDX-License-Identifier: BSD-3-Clause
"""Names of torch.distributed.fsdp that programs ask with isinstance: nothing is sharded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cograd._base import absent as _absent

__all__ = ["FSDPModule", "FullyShardedDataParallel"]


class FullyShardedDataParallel:
    """What a module of sharded parameters would be an instance of: nothing is."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise _absent.refused("distributed.fsdp.FullyShardedDataParallel", "distributed")


class FSDPModule:
    """What a module that ``fully_shard`` changed would be an instance of: nothing is."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise _absent.refused("distributed.fsdp.FSDPModule", "distributed")


if not TYPE_CHECKING:
    __getattr__ = _absent.reporter(__name__)
