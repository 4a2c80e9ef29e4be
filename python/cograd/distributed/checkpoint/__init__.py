# SPDX-License-Identifier: BSD-3-Clause
"""Checkpoints of programs that run on many ranks, read again by any number of them.

Each rank writes its part as a safetensors file, and an index is put in place last: a crash leaves
the checkpoint before whole. Names and arguments are those of torch.distributed.checkpoint.

Example::

    import cograd.distributed.checkpoint as dcp

    state = {"model": model.state_dict(), "step": step}
    dcp.save(state, checkpoint_id="run/last")
    dcp.load(state, checkpoint_id="run/last")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cograd import _absent

from ._plan import CheckpointException, Shard
from ._run import load, save
from .filesystem import FileSystemReader, FileSystemWriter

__all__ = [
    "CheckpointException",
    "FileSystemReader",
    "FileSystemWriter",
    "Shard",
    "load",
    "save",
]

if not TYPE_CHECKING:
    __getattr__ = _absent.reporter(__name__)
    del TYPE_CHECKING, annotations
