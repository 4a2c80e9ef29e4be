# SPDX-License-Identifier: BSD-3-Clause
"""Saves twice; in the second time a rank is killed. Arguments: folder, stage of the kill."""

import os
import signal
import sys

import cograd as torch
import cograd.distributed as dist
import cograd.distributed.checkpoint as dcp
from cograd.distributed.checkpoint import filesystem

folder, stage = sys.argv[1:]
replace = filesystem._replace


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def half(path, write):
    """As `_replace` does, but dies when half of the file is written."""

    class Pipe:
        def write(self, data):
            with open(os.path.join(folder, f".{os.path.basename(path)}.tmp"), "wb") as file:
                file.write(data[: len(data) // 2])
            die()

    write(Pipe())


def replaced(path, write):
    is_index = path.endswith(filesystem.INDEX)
    if stage == "in the shard" and dist.get_rank() == 1:
        half(path, write)
    if stage == "in the index" and is_index:
        half(path, write)
    replace(path, write)
    if stage == "after the shard" and dist.get_rank() == 1:
        die()
    if stage == "after the index" and is_index:
        die()


dist.init_process_group("mpi")
rows = dcp.Shard(torch.full((2,), 1.0), (2 * dist.get_rank(),), (4,))
dcp.save({"rows": rows, "step": 1}, checkpoint_id=folder)
dist.barrier()
filesystem._replace = replaced
rows.tensor.fill_(2.0)
dcp.save({"rows": rows, "step": 2}, checkpoint_id=folder)
