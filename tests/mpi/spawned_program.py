# SPDX-License-Identifier: BSD-3-Clause
"""A program that starts its ranks by torch.multiprocessing.spawn, and reads torchrun's variables.

Usage: spawned_program.py NPROCS HOW
"""

import os
import sys

import cograd as torch
import cograd.distributed as dist
import cograd.multiprocessing as mp


def say(line):
    os.write(1, f"{line}\n".encode())  # in one piece: others write too


def worker(rank, world_size, text):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "12355"
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    total = torch.tensor([float(rank)])
    dist.all_reduce(total)
    say(f"{text} rank {rank} of {world_size}: {total.item()}")
    dist.destroy_process_group()


def torchrun(nprocs):
    assert int(os.environ["WORLD_SIZE"]) == nprocs == int(os.environ["LOCAL_WORLD_SIZE"])
    assert os.environ["LOCAL_RANK"] == os.environ["RANK"]
    worker(int(os.environ["RANK"]), nprocs, "torchrun")


def helper(rank):
    try:
        dist.init_process_group("gloo")
    except RuntimeError as error:
        assert "was started by a rank of mpiexec" in str(error), error
        say(f"helper {rank} refused")


def helpers(nprocs):
    """Ranks that start processes of their own, also as many as there are ranks."""
    dist.init_process_group("gloo")
    mp.spawn(helper, nprocs=nprocs)
    dist.barrier()


if __name__ == "__main__":
    ranks, how = int(sys.argv[1]), sys.argv[2]
    if how == "spawn":
        mp.spawn(worker, args=(ranks, "spawn"), nprocs=ranks, join=True)
    elif how == "context":
        context = mp.spawn(worker, args=(ranks, "context"), nprocs=ranks, join=False)
        while not context.join():
            pass
    else:
        globals()[how](ranks)
