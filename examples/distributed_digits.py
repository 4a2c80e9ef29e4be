# SPDX-License-Identifier: BSD-3-Clause
"""Trains a network on handwritten digits on several ranks, and draws a timeline of the ranks.

Every rank has the whole network and its share of each batch; DistributedDataParallel averages the
gradients while backward is running. The batch of all ranks together has a fixed size, so the loss
curve does not depend on the number of ranks: rank 0 trains again alone and compares. The
picture shows both curves and, for one step, the computation of each rank above the communication of
its gradient buckets.

Usage: mpiexec -n 2 python examples/distributed_digits.py [--epochs N] [--out timeline.png]
Without mpiexec, the program runs as one rank.
"""

import argparse
import itertools
import time
from typing import Any

import matplotlib

import cograd as torch
import cograd.distributed as dist
from cograd import nn
from cograd.nn import functional as F
from cograd.nn.parallel import DistributedDataParallel
from cograd.utils.data import DataLoader, DistributedSampler, TensorDataset

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

BATCH = 96  # batch of all ranks together
COLOURS = {"forward": "#7aa6d6", "backward": "#3b6ea5", "update": "#8f8f8f", "gradients": "#c8442f"}


class Timeline:
    """Records time spans of one step: (what, begin, end) in seconds."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, float, float]] = []
        self.recording = False

    def add(self, what: str, begin: float) -> None:
        if self.recording:
            self.spans.append((what, begin, time.time()))

    def average(self, group: Any, bucket: dist.GradBucket) -> Any:
        """Averages a bucket over the ranks and records the time; a communication hook."""
        begin = time.time()
        mean = bucket.buffer().div_(dist.get_world_size(group))
        work = dist.all_reduce(mean, group=group, async_op=True)
        assert work is not None
        future = work.get_future()

        def finish(done: Any) -> Any:
            self.add("gradients", begin)
            return done.value()[0]

        return future.then(finish)


def network() -> nn.Module:
    """Maps 64 pixels to 10 scores; 1.2 million float64 parameters, so rounding does not show."""
    torch.manual_seed(0)
    sizes = [64, 768, 768, 768]
    layers = []
    for inputs, outputs in itertools.pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], 10)).double()


def digits() -> Any:
    """Returns images as float64 in [0, 1], and labels."""
    images, labels = load_digits(return_X_y=True)
    return TensorDataset(torch.from_numpy(images / 16), torch.from_numpy(labels).long())


def batches(dataset: Any, ranks: int, rank: int) -> Any:
    """Returns this rank's loader and its sampler."""
    sampler = DistributedSampler(dataset, ranks, rank, seed=1, drop_last=True)
    return DataLoader(dataset, BATCH // ranks, sampler=sampler, drop_last=True), sampler


def train(model: nn.Module, loader: Any, sampler: Any, epochs: int, timeline: Any) -> torch.Tensor:
    """Runs SGD and returns the loss of every step on this rank."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for step, (images, labels) in enumerate(loader):
            timeline.recording = (epoch, step) == (epochs - 1, 5)
            begin = time.time()
            loss = F.cross_entropy(model(images), labels)
            timeline.add("forward", begin)
            optimizer.zero_grad()
            begin = time.time()
            loss.backward()
            timeline.add("backward", begin)
            begin = time.time()
            optimizer.step()
            timeline.add("update", begin)
            losses.append(loss.detach())
    return torch.stack(losses)


def draw(path: str, losses: Any, alone: Any, spans: Any) -> None:
    """Writes the picture: the loss curves and the timeline of one step on all ranks."""
    fig, (left, right) = plt.subplots(
        1, 2, figsize=(13, 1.8 + 0.9 * max(len(spans), 2)), width_ratios=[1, 1.6],
        layout="constrained",
    )  # fmt: skip
    left.plot(alone, color="#bbbbbb", lw=4, label="one rank")
    left.plot(losses, color="#c8442f", lw=1.2, label=f"{len(spans)} ranks")
    left.set_yscale("log")
    left.set_xlabel("step")
    left.set_title("Cross entropy", fontsize=11)
    left.legend(frameon=False)
    start = min(begin for rank in spans for _, begin, _ in rank)
    for rank, own in enumerate(spans):
        for what, begin, end in own:
            below = 0.34 if what == "gradients" else 0.0
            right.barh(
                rank + below, 1e3 * (end - begin), left=1e3 * (begin - start), height=0.3,
                color=COLOURS[what], edgecolor="white", lw=0.8,
            )  # fmt: skip
    right.set_yticks(
        [r + 0.17 for r in range(len(spans))], [f"rank {r}" for r in range(len(spans))]
    )
    right.invert_yaxis()
    right.set_xlabel("milliseconds")
    right.set_title("One step: computation, and below it the buckets that travel", fontsize=11)
    for what, colour in COLOURS.items():
        right.barh(0, 0, color=colour, label=what)
    right.legend(frameon=False, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.22))
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
    fig.savefig(path, dpi=130)


def main() -> None:
    """Trains on all ranks, then on one, and compares."""
    parser = argparse.ArgumentParser(description="Digits on several ranks.")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--out", default="distributed_digits.png")
    options = parser.parse_args()
    dist.init_process_group("mpi")
    torch.set_num_threads(1)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if BATCH % ranks:
        raise SystemExit(f"the number of ranks must divide {BATCH}")
    dataset, timeline = digits(), Timeline()
    model = DistributedDataParallel(network(), bucket_cap_mb=1.0)
    model.register_comm_hook(None, timeline.average)
    loader, sampler = batches(dataset, ranks, rank)
    begin = time.time()
    losses = train(model, loader, sampler, options.epochs, timeline)
    seconds = time.time() - begin
    dist.all_reduce(losses, op=dist.ReduceOp.AVG)
    spans = [None] * ranks
    dist.all_gather_object(spans, timeline.spans)
    if rank == 0:
        loader, sampler = batches(dataset, 1, 0)
        alone = train(network(), loader, sampler, options.epochs, Timeline())
        apart = (losses - alone).abs().max().item()
        print(f"{ranks} ranks: loss {losses[0]:.4f} to {losses[-1]:.4f} in {seconds:.1f} s")
        print(f"largest difference from the losses of one rank: {apart:.1e}")
        draw(options.out, losses.tolist(), alone.tolist(), spans)
        print(f"wrote {options.out}")
        if apart > 1e-6:
            raise SystemExit("the loss curve depends on the number of ranks")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
