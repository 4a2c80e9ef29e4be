# SPDX-License-Identifier: BSD-3-Clause
"""Times steps of a multilayer perceptron; mpiexec runs it on each rank, and rank 0 prints JSON.

Modes take turns, so that other programs on the machine affect all of them. The best round of each
mode counts:
  alone      rank 0 computes, the others wait
  computing  all ranks compute, nothing is sent
  ddp        all ranks compute, and DistributedDataParallel averages the gradients
  sums       the buckets' sums alone, back to back
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import cograd as torch
import cograd.distributed as dist
from cograd import nn
from cograd.nn.parallel import DistributedDataParallel, _buckets

SIZES = [1 << k for k in range(10, 27, 2)]  # 1 KiB to 64 MiB


def network(width: int, hidden: int) -> nn.Module:
    """Maps 784 inputs to 10 outputs; width 1700 and 4 layers have 10 million parameters."""
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    inputs = 784
    for _ in range(hidden):
        layers += [nn.Linear(inputs, width), nn.ReLU()]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, 10))


class Steps:
    """Holds a model, its batch and optimizer, and makes the steps of the modes."""

    def __init__(self, options: argparse.Namespace) -> None:
        if options.alone_mb is not None:
            _buckets.ALONE = int(options.alone_mb * (1 << 20))
        self.model = network(options.width, options.hidden)
        self.parameters = sum(p.numel() for p in self.model.parameters())
        self.ddp = DistributedDataParallel(
            self.model,
            bucket_cap_mb=options.bucket_mb,
            gradient_as_bucket_view=options.views,
        )
        self.x = torch.randn(options.batch, 784)
        self.y = torch.randint(0, 10, (options.batch,))
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.01, momentum=0.9)
        self.buffers: list[torch.Tensor] = []
        if options.thread:
            progress_by_thread(self.ddp.reducer)

    def step(self, model: nn.Module) -> tuple[float, float, float]:
        """Returns the seconds of forward, backward and update."""
        begin = time.perf_counter()
        loss = nn.functional.cross_entropy(model(self.x), self.y)
        middle = time.perf_counter()
        self.optimizer.zero_grad()
        loss.backward()
        late = time.perf_counter()
        self.optimizer.step()
        end = time.perf_counter()
        return middle - begin, late - middle, end - late

    def sums(self) -> None:
        """Runs the sums of one step."""
        works = [self.ddp.reducer.lane.sum(buffer) for buffer in self.buffers]
        for work in works:
            work.wait()

    def divide(self) -> None:
        """Does the work on gradients other than the sums."""
        for buffer in self.buffers:
            buffer.mul_(0.5)

    def gradients(self) -> list[tuple[float, int]]:
        """Returns when each gradient arrives in backward, and its bytes."""
        found: list[tuple[float, int]] = []
        handles = [
            p.register_post_accumulate_grad_hook(
                lambda p: found.append((time.perf_counter(), p.numel() * p.element_size()))
            )
            for p in self.model.parameters()
        ]
        loss = nn.functional.cross_entropy(self.model(self.x), self.y)
        begin = time.perf_counter()
        loss.backward()
        for handle in handles:
            handle.remove()
        return [(at - begin, nbytes) for at, nbytes in found]


def progress_by_thread(reducer: Any) -> None:
    """Drives the sums by a thread that calls MPI, instead of by hooks."""
    import threading

    lock, poll, finish = threading.Lock(), reducer.poll, reducer._finish
    reducer.poll = lambda: None

    def run() -> None:
        while True:
            with lock:
                if reducer._running:
                    poll()
            time.sleep(5e-5 if reducer._running else 5e-4)

    def finish_alone() -> None:
        with lock:
            finish()

    reducer._finish = finish_alone
    threading.Thread(target=run, daemon=True).start()


def timed(call: Callable[[], Any], times: int) -> float:
    """Returns the seconds of a call after a barrier, on the slowest rank."""
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(times):
        call()
    took = torch.tensor([(time.perf_counter() - begin) / times], dtype=torch.float64)
    dist.all_reduce(took, op=dist.ReduceOp.MAX)
    return float(took.item())


def all_reduce_times(rounds: int) -> list[tuple[int, float]]:
    """Returns (bytes, seconds) of sums of several sizes."""
    found = []
    for nbytes in SIZES:
        x = torch.zeros(nbytes // 4)
        times = max(1, min(50, (1 << 24) // nbytes))
        found.append(
            (nbytes, min(timed(lambda x=x: dist.all_reduce(x), times) for _ in range(rounds)))
        )
    return found


def main() -> None:
    """Measures and prints the JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--width", type=int, default=1700)
    parser.add_argument("--hidden", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=3, help="steps of each mode per round")
    parser.add_argument("--bucket-mb", type=float, default=None)
    parser.add_argument("--views", action="store_true", help="gradient_as_bucket_view")
    parser.add_argument("--alone-mb", type=float, help="size from which gradients are sent alone")
    parser.add_argument("--thread", action="store_true", help="call MPI from a thread")
    options = parser.parse_args()
    dist.init_process_group("mpi")
    torch.set_num_threads(1)
    steps = Steps(options)
    for _ in range(3):
        steps.step(steps.ddp)
    steps.buffers = [torch.zeros(b.nbytes // 4) for b in steps.ddp.reducer.buckets]
    found: dict[str, list[float]] = {"alone": [], "computing": [], "ddp": [], "sums": []}
    parts = []
    rank = dist.get_rank()
    for _ in range(options.rounds):
        found["alone"].append(
            timed(lambda: steps.step(steps.model) if rank == 0 else None, options.steps)
        )
        parts.append(steps.step(steps.model))
        found["computing"].append(timed(lambda: steps.step(steps.model), options.steps))
        found["ddp"].append(timed(lambda: steps.step(steps.ddp), options.steps))
        if dist.get_world_size() > 1:
            found["sums"].append(timed(steps.sums, options.steps))
    result: dict[str, Any] = {
        "ranks": dist.get_world_size(),
        "batch": options.batch,
        "parameters": steps.parameters,
        **{mode: min(values) for mode, values in found.items() if values},
        "median": {mode: statistics.median(values) for mode, values in found.items() if values},
        "parts": [min(values) for values in zip(*parts, strict=True)],
        "gradients": steps.gradients(),
    }
    if dist.get_world_size() > 1:
        result["buckets"] = [b.nbytes for b in steps.ddp.reducer.buckets]
        result["handling"] = min(timed(steps.divide, 3) for _ in range(options.rounds))
        result["all_reduce"] = all_reduce_times(3)
    if rank == 0:
        print(json.dumps(result), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
