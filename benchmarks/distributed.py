# SPDX-License-Identifier: BSD-3-Clause
"""Compares cograd.distributed.all_reduce with mpi4py's Allreduce and torch's gloo.

    python -m benchmarks.distributed [--ranks 2] [--rounds 3] [--reference-python PYTHON]

Each round starts new ranks; a figure is the best of all rounds, because other programs can only
make it worse. The buffers, sizes and cores are the same for all three, with one thread per rank.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SIZES = [2**n for n in range(10, 27, 2)]
ME = Path(__file__).resolve()
if sys.path[0] == str(ME.parent):  # it has modules with names of the standard library
    del sys.path[0]


def repeats(nbytes: int) -> int:
    """Measures short batches, some of which run undisturbed on a busy machine."""
    return max(1, min(20, 2**23 // nbytes))


def best(call: Callable[[], object], together: Callable[[bool], bool], n: int) -> float:
    """Returns the seconds of a call: the best average over `n` calls, of at most 40 averages.

    It measures for about half a second. `together` returns on every rank whether rank 0 continues,
    and lets all ranks begin at the same time.
    """
    found, tries, end = float("inf"), 0, time.perf_counter() + 0.5
    while together(tries < 3 or (tries < 40 and time.perf_counter() < end)):
        began = time.perf_counter()
        for _ in range(n):
            call()
        found = min(found, (time.perf_counter() - began) / n)
        tries += 1
    return found


def agreement(dist: Any, torch: Any) -> Callable[[bool], bool]:
    """Returns rank 0's answer on every rank."""

    def together(more: bool) -> bool:
        answer = torch.tensor([int(more)])
        dist.broadcast(answer, 0)
        return bool(answer.item())

    return together


def cograd_and_mpi4py() -> dict[str, dict[int, float]]:
    import numpy as np

    import cograd as torch
    import cograd.distributed as dist

    dist.init_process_group()
    from mpi4py import MPI

    comm = MPI.COMM_WORLD.Dup()
    together = agreement(dist, torch)
    times: dict[str, dict[int, float]] = {"cograd": {}, "mpi4py": {}}
    for nbytes in SIZES:
        array = np.zeros(nbytes // 4, np.float32)
        tensor = torch.from_numpy(array)  # shares its memory
        spec = [array, array.size, MPI.FLOAT]
        calls = {
            "cograd": lambda tensor=tensor: dist.all_reduce(tensor),
            "mpi4py": lambda spec=spec: comm.Allreduce(MPI.IN_PLACE, spec, MPI.SUM),
        }
        for _ in range(2):
            for name, call in calls.items():
                seconds = best(call, together, repeats(nbytes))
                times[name][nbytes] = min(seconds, times[name].get(nbytes, seconds))
    return times if dist.get_rank() == 0 else {}


def torch_gloo() -> dict[str, dict[int, float]]:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    together = agreement(dist, torch)
    times: dict[int, float] = {}
    for nbytes in SIZES:
        tensor = torch.zeros(nbytes // 4)
        times[nbytes] = best(
            lambda tensor=tensor: dist.all_reduce(tensor), together, repeats(nbytes)
        )
    rank = dist.get_rank()
    dist.destroy_process_group()
    return {"gloo": times} if rank == 0 else {}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def commands(
    name: str, ranks: int, reference: str | None
) -> list[tuple[list[str], dict[str, str]]]:
    """Returns the command to start and its environment."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    if name == "cograd":
        mpiexec = str(Path(sys.executable).parent / "mpiexec")
        return [([mpiexec, "-n", str(ranks), sys.executable, str(ME), "--worker", name], env)]
    env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(ranks)}
    program = [str(reference), str(ME), "--worker", name]
    return [(program, {**env, "RANK": str(rank)}) for rank in range(ranks)]


def measure(name: str, ranks: int, reference: str | None) -> dict[str, dict[str, float]]:
    started = [
        subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
        for command, env in commands(name, ranks, reference)
    ]
    texts = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise SystemExit(f"{name}: a rank failed")
    lines = [line for text in texts for line in text.splitlines() if line.startswith("{")]
    return json.loads(lines[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--reference-python", help="a Python that has torch")
    parser.add_argument("--worker", choices=["cograd", "gloo"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        times = cograd_and_mpi4py() if args.worker == "cograd" else torch_gloo()
        if times:
            print(json.dumps(times), flush=True)
        return
    found: dict[str, dict[str, float]] = {}
    for _ in range(args.rounds):
        for name in ("cograd", "gloo") if args.reference_python else ("cograd",):
            for which, times in measure(name, args.ranks, args.reference_python).items():
                row = found.setdefault(which, {})
                for nbytes, seconds in times.items():
                    row[nbytes] = min(seconds, row.get(nbytes, seconds))
    print(f"all_reduce of float32, {args.ranks} ranks: microseconds; ratio: theirs over ours")
    heads = (("bytes", 10), ("cograd", 10), ("mpi4py", 10), ("ratio", 6), ("gloo", 10))
    print(" ".join(f"{text:>{n}}" for text, n in (*heads, ("ratio", 6), ("GB/s", 6))))
    for nbytes in map(str, SIZES):
        ours, other = found["cograd"][nbytes], found["mpi4py"][nbytes]
        gloo = found.get("gloo", {}).get(nbytes, float("nan"))
        print(
            f"{nbytes:>10} {ours * 1e6:10.1f} {other * 1e6:10.1f} {other / ours:6.2f} "
            f"{gloo * 1e6:10.1f} {gloo / ours:6.2f} {int(nbytes) / ours / 1e9:6.2f}"
        )


if __name__ == "__main__":
    main()
