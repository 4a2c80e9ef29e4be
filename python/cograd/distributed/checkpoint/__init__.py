# SPDX-License-Identifier: BSD-3-Clause
"""Checkpoints of programs on many ranks, which any number of ranks can read again.

Each rank writes its part as a safetensors file, and the index is written last: a crash leaves the
previous checkpoint intact. Names and arguments are those of torch.distributed.checkpoint.

Example::

    import cograd.distributed.checkpoint as dcp

    state = {"model": model.state_dict(), "step": step}
    dcp.save(state, checkpoint_id="run/last")
    dcp.load(state, checkpoint_id="run/last")
"""

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
