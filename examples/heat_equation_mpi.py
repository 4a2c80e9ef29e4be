# SPDX-License-Identifier: BSD-3-Clause
"""Solves the heat equation backwards on many ranks: where was it warm before the heat spread?

Each rank has some rows of a plate with cold edges. A time step needs the row above and the row
below, the halo, which the neighbours send. The program finds the start that explains the measured
end by conjugate gradients. Backward computes the gradient, through every exchange of every step,
and forward mode computes the step length.

Usage: mpiexec -n 4 python examples/heat_equation_mpi.py [--out plate.png] [--iterations N]
Without mpiexec, one rank has all rows, and the result is the same.
"""

import argparse
from typing import Any

import cograd as torch
import cograd.distributed as dist
from cograd.distributed.nn import functional as ranks
from cograd.func import jvp

SIZE = 64  # rows and columns
STEPS = 30
RATE = 0.2  # fraction of the difference to the neighbours, per step
NOISE = 0.005
WEIGHT = 5e-5  # weight of the roughness


def with_halo(rows: torch.Tensor) -> torch.Tensor:
    """Returns this rank's rows with the last row above and the first row below; zeros outside."""
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    edges = ([(rows[:1], rank - 1)] if rank > 0 else []) + (
        [(rows[-1:], rank + 1)] if rank < last else []
    )
    outside = torch.zeros_like(rows[:1])
    halo = list(ranks.exchange(edges, edges)) if edges else []
    above = halo.pop(0) if rank > 0 else outside
    below = halo.pop(0) if rank < last else outside
    return torch.cat([above, rows, below])


def differences(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the temperature differences down and to the right, edges included."""
    tall = with_halo(rows)
    wide = torch.nn.functional.pad(rows, (1, 1))
    top = 1 if dist.get_rank() > 0 else 0  # the upper rank counts a step between two ranks
    return tall[1:][top:] - tall[:-1][top:], wide[:, 1:] - wide[:, :-1]


def evolve(rows: torch.Tensor) -> torch.Tensor:
    """Returns the temperatures STEPS later."""
    for _ in range(STEPS):
        tall = with_halo(rows)
        wide = torch.nn.functional.pad(rows, (1, 1))
        around = tall[:-2] + tall[2:] + wide[:, :-2] + wide[:, 2:]
        rows = rows + RATE * (around - 4 * rows)
    return rows


def residuals(start: torch.Tensor, measured: torch.Tensor) -> torch.Tensor:
    """Returns misfit and roughness, whose sum of squares is minimised."""
    down, right = differences(start)
    parts = [evolve(start) - measured, WEIGHT**0.5 * down, WEIGHT**0.5 * right]
    return torch.cat([part.reshape(-1) for part in parts])


def dot(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Returns the product of two vectors that are divided among the ranks."""
    total = (a * b).sum()
    dist.all_reduce(total)
    return total


def reconstruct(measured: torch.Tensor, iterations: int) -> Any:
    """Returns the start and the loss at each iteration."""
    start = torch.zeros_like(measured)
    direction, before, history = torch.zeros_like(start), None, []
    for _ in range(iterations):
        start.requires_grad_()
        found = residuals(start, measured)
        found.square().sum().backward()  # this rank's part of the sum over ranks
        assert start.grad is not None
        gradient, start = start.grad / 2, start.detach()
        found = found.detach()
        history.append(dot(found, found).item())
        size = dot(gradient, gradient)
        if before is not None:
            direction = direction * (size / before) - gradient
        else:
            direction = -gradient
        with torch.no_grad():  # leaves forward mode
            _, change = jvp(lambda u: residuals(u, measured), (start,), (direction,))
        start = start - direction * (dot(gradient, direction) / dot(change, change))
        before = size
    return start, history


def plate() -> torch.Tensor:
    """Returns a cold plate with warm places: a ring, a cross and a bar."""
    y, x = torch.meshgrid(*[torch.arange(SIZE, dtype=torch.float64)] * 2, indexing="ij")
    radius = ((y - 20) ** 2 + (x - 20) ** 2).sqrt()
    ring = (radius > 7) & (radius < 11)
    cross = ((y - 21).abs() < 9) & ((x - 46).abs() < 9)
    cross &= ((y - 21).abs() < 2.5) | ((x - 46).abs() < 2.5)
    bar = ((y - 47).abs() < 5) & ((x - 32).abs() < 20)
    return ring.double() + cross.double() + 0.6 * bar.double()


def own_rows(whole: torch.Tensor) -> torch.Tensor:
    """Returns this rank's rows."""
    rank, count = dist.get_rank(), dist.get_world_size()
    return whole[SIZE * rank // count : SIZE * (rank + 1) // count].clone()


def on_first(rows: torch.Tensor) -> Any:
    """Returns all rows on rank 0, and None on the others."""
    if dist.get_rank() > 0:
        dist.gather_object(rows)
        return None
    found = [rows] * dist.get_world_size()  # the buffers to receive into
    dist.gather_object(rows, found)
    return torch.cat(found)


def draw(path: str, truth: Any, measured: Any, found: Any, history: list[float]) -> None:
    """Draws the plate before, after, and the reconstruction; borders of ranks are dotted."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 4, figsize=(14, 3.8), layout="constrained")
    count = dist.get_world_size()
    names = ["before", f"measured {STEPS} steps later", "found, from the measurement"]
    for axis, whole, name in zip(axes, (truth, measured, found), names, strict=False):
        axis.imshow(whole, cmap="inferno", vmin=0, vmax=1.1)
        for rank in range(1, count):
            axis.axhline(SIZE * rank // count - 0.5, color="white", lw=0.8, ls=":")
        axis.set(title=name, xticks=[], yticks=[])
    figure.colorbar(axes[2].images[0], ax=axes[2], shrink=0.75, label="temperature")
    axes[3].semilogy(history)
    axes[3].set_box_aspect(0.75)
    axes[3].set(title=f"{count} ranks" if count > 1 else "1 rank", xlabel="iteration")
    axes[3].set_ylabel("misfit and roughness")
    axes[3].grid(alpha=0.3)
    figure.savefig(path, dpi=100)


def main() -> None:
    """Measures, reconstructs the start, and prints the errors of both."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default=None)
    parser.add_argument("--iterations", type=int, default=20)
    options = parser.parse_args()
    dist.init_process_group("mpi")
    torch.manual_seed(0)
    truth = plate()
    noise = NOISE * torch.randn(SIZE, SIZE, dtype=torch.float64)
    with torch.no_grad():
        measured = evolve(own_rows(truth)) + own_rows(noise)
    found, history = reconstruct(measured, options.iterations)
    measured, found = on_first(measured), on_first(found)
    if measured is not None and found is not None:  # on rank 0
        print("ranks:", dist.get_world_size())
        print(f"loss: {history[0]:.6f} at first, {history[-1]:.9f} at last")
        print(f"error of the measurement: {(measured - truth).square().mean().sqrt().item():.9f}")
        print(f"error of what was found: {(found - truth).square().mean().sqrt().item():.9f}")
        if options.out:
            draw(options.out, truth, measured, found, history)
            print("wrote", options.out)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
