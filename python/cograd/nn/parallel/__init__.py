# SPDX-License-Identifier: BSD-3-Clause
"""DistributedDataParallel for several processes; DataParallel divides batches among GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cograd._base import absent as _absent

from .data_parallel import DataParallel, data_parallel

if TYPE_CHECKING:
    from . import distributed as distributed
    from .distributed import DistributedDataParallel as DistributedDataParallel

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        # Import the distributed modules only on access, so that `import cograd.nn` stays fast.
        if name in ("DistributedDataParallel", "distributed"):
            from importlib import import_module

            module = import_module(f"{__name__}.distributed")
            return module if name == "distributed" else module.DistributedDataParallel
        if name == "scatter_gather":
            from importlib import import_module

            return import_module(f"{__name__}.scatter_gather")
        raise _absent.missing(__name__, name)

    del TYPE_CHECKING, annotations
