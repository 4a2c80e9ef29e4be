# SPDX-License-Identifier: BSD-3-Clause
"""Finds out why a training loop is slow, and repairs it: two profiles.

The first loop reads each sample when it is needed, computes features in Python, and calls the
network for one sample at a time. The profile says that it mostly waits and interprets. The second
loop reads ahead, and computes with whole batches. Usage: python examples/why_slow.py [--out FOLDER]
"""

import argparse
import os
import time
from concurrent.futures import ThreadPoolExecutor

import cograd as torch
from cograd import nn
from cograd.autograd.profiler import profile, record_function

SAMPLES, BATCH = 96, 32


def read(index: int) -> torch.Tensor:
    """Returns a sample from a slow disk."""
    time.sleep(0.0004)
    return torch.linspace(0, 1 + index / SAMPLES, 64)


def slow(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[float]:
    """Trains for an epoch, sample by sample; returns the losses."""
    losses = []
    for first in range(0, SAMPLES, BATCH):
        optimizer.zero_grad()
        total = torch.zeros(())
        for i in range(first, first + BATCH):
            with record_function("read"):
                x = read(i)
            with record_function("features"):
                x = torch.tensor([v * (1 - v) for v in x.tolist()])
            with record_function("network"):
                total = total + (model(x) - 1.0).square().sum() / BATCH
        with record_function("backward"):
            total.backward()
        optimizer.step()
        losses.append(total.item())
    return losses


def fast(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[float]:
    """Does the same with whole batches; threads read them ahead."""
    losses = []
    with ThreadPoolExecutor(16) as pool:
        samples = pool.map(read, range(SAMPLES))  # begins to read all
        for _ in range(0, SAMPLES, BATCH):
            with record_function("read"):
                x = torch.stack([next(samples) for _ in range(BATCH)])
            optimizer.zero_grad()
            loss = (model(x * (1 - x)) - 1.0).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


def main() -> None:
    """Profiles both loops and prints where the time went."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", help="folder for the profiles' pages, slow.html and fast.html")
    options = parser.parse_args()
    losses = []
    for run in (slow, fast):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        with profile(with_stack=True) as prof:
            losses.append(run(model, optimizer))
        print(f"{run.__name__}: {prof.summary()}")
        if options.out:
            prof.export_html(os.path.join(options.out, f"{run.__name__}.html"))
    apart = max(abs(a - b) for a, b in zip(*losses, strict=True))
    print(f"largest difference of the losses: {apart:.1e}")


if __name__ == "__main__":
    main()
