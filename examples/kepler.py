# SPDX-License-Identifier: BSD-3-Clause
"""Computes orbits with a custom solver: velocities, forces and a fit, from one backward.

The solver is a Function that iterates until it has converged, and its backward is the implicit
function theorem. cograd derives tangents of any order from these two, also under vmap: velocity is
the first, acceleration the second time derivative. Usage: python examples/kepler.py [--out FILE]
"""

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import cograd as torch
from cograd.func import jacfwd, jvp, vmap

warnings.filterwarnings("ignore", "vmap: Kepler")  # a loop over the few samples is fine here

Motion = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Kepler(torch.autograd.Function):
    """Solves E - e sin(E) = m for E, with the eccentricity e and the time m."""

    @staticmethod
    def forward(ctx: Any, e: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        angle = m + e * m.sin()
        while True:
            step = (angle - e * angle.sin() - m) / (1 - e * angle.cos())
            angle = angle - step
            if step.abs() < 1e-14:
                break
        ctx.save_for_backward(e, angle)
        return angle

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        e, angle = ctx.saved_tensors
        g = g / (1 - e * angle.cos())
        return g * angle.sin(), g


def position(e: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    """Returns the position at time t on an orbit of unit size around the origin."""
    angle = Kepler.apply(e, t)
    return torch.stack([angle.cos() - e, (1 - e**2).sqrt() * angle.sin()])


def velocity(e: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    """Returns the time derivative of the position."""
    return jvp(lambda t: position(e, t), (t,), (torch.ones_like(t),))[1]


def acceleration(e: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    """Returns the time derivative of the velocity."""
    return jvp(lambda t: velocity(e, t), (t,), (torch.ones_like(t),))[1]


def of_all(f: Motion) -> Motion:
    """Returns the speeds for all eccentricities and times."""
    return vmap(vmap(f, (None, 0)), (0, None))


e = torch.tensor([0.1, 0.5, 0.8], dtype=torch.float64)
t = torch.linspace(0.3, 6.0, 9, dtype=torch.float64)
place, speed, force = of_all(position)(e, t), of_all(velocity)(e, t), of_all(acceleration)(e, t)
distance = place.norm(dim=-1, keepdim=True)
energy = speed.pow(2).sum(-1) / 2 - 1 / distance[..., 0]
print(f"energy: off by {(energy + 0.5).abs().max().item():.0e} at most")
print(f"Newton's law: off by {(force + place / distance**3).abs().max().item():.0e} at most")


def misfit(guess: torch.Tensor) -> torch.Tensor:
    """Returns the differences between the measured speeds and those of these eccentricities."""
    return (of_all(velocity)(guess, t) - speed).reshape(-1)


guess = torch.full((3,), 0.4, dtype=torch.float64)
for _ in range(8):  # Gauss-Newton
    step = torch.linalg.lstsq(jacfwd(misfit)(guess), misfit(guess).unsqueeze(1)).solution
    guess = (guess - step.squeeze(1)).clamp(0.01, 0.95)
print("eccentricities from speeds alone:", ", ".join(f"{v:.6f}" for v in guess.tolist()))


def draw(path: str) -> None:
    """Draws the orbits with velocities, and speed over time for each eccentricity."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3.2), layout="constrained")
    time = torch.linspace(0, 6.2832, 400, dtype=torch.float64)
    paths, speeds = of_all(position)(e, time), of_all(velocity)(e, time)
    for i, colour in enumerate(("#3b6ea5", "#6b9e4f", "#c8442f")):
        left.plot(*paths[i].t().tolist(), color=colour, lw=1)
        some = slice(0, 400, 40)
        left.quiver(
            *paths[i, some].t().tolist(), *speeds[i, some].t().tolist(),
            color=colour, width=0.004, scale=25,
        )  # fmt: skip
        label = f"eccentricity {e[i].item():.1f}"
        right.plot(time.tolist(), speeds[i].norm(dim=-1).tolist(), color=colour, label=label)
    left.plot(0, 0, "o", color="#e0a800")
    left.set_aspect("equal")
    left.set_title("orbits and velocities", fontsize=10)
    right.set_xlabel("time")
    right.set_title("speed", fontsize=10)
    right.legend(frameon=False)
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=100)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", help="file of the picture; needs matplotlib")
    options = parser.parse_args()
    if options.out:
        draw(options.out)
