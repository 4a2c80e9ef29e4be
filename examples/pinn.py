# SPDX-License-Identifier: BSD-3-Clause
"""Solves Burgers' equation u_t + u u_x = nu u_xx with a network: a PINN.

A physics-informed neural network u(t, x) is trained to have the right values at the start and at
the walls and to fulfil the equation at points inside. Its derivatives by t and x are gradients that
are recorded, so that the loss has gradients in turn. Usage: python examples/pinn.py [--out FILE]
"""
# `grad` returns a tuple of tensors here, but in general also None:
# mypy: disable-error-code="operator, union-attr"
# pyright: reportOptionalMemberAccess=false, reportOptionalOperand=false

import argparse
import math

import cograd as torch
from cograd import nn

NU = 0.05


def inside(model: nn.Module, points: torch.Tensor) -> torch.Tensor:
    """Returns by how much the network misses the equation at points (t, x)."""
    points = points.requires_grad_()
    u = model(points)
    (first,) = torch.autograd.grad(u.sum(), points, create_graph=True)
    (second,) = torch.autograd.grad(first[:, 1].sum(), points, create_graph=True)
    return first[:, 0] + u[:, 0] * first[:, 1] - NU * second[:, 1]


def train(steps: int) -> tuple[nn.Module, list[float]]:
    """Returns the network and its losses."""
    model = nn.Sequential(
        nn.Linear(2, 20), nn.Tanh(), nn.Linear(20, 20), nn.Tanh(), nn.Linear(20, 1)
    ).double()
    points = torch.quasirandom.SobolEngine(2).draw(600, dtype=torch.float64)
    points = points * torch.tensor([1.0, 2.0]) - torch.tensor([0.0, 1.0])
    x = torch.linspace(-1, 1, 81, dtype=torch.float64)
    start = torch.stack([torch.zeros_like(x), x], 1)
    time = torch.linspace(0, 1, 41, dtype=torch.float64)
    walls = torch.cat([torch.stack([time, torch.full_like(time, s)], 1) for s in (-1.0, 1.0)])
    optimizer = torch.optim.LBFGS(
        model.parameters(), max_iter=steps, history_size=50, line_search_fn="strong_wolfe",
        tolerance_grad=1e-9, tolerance_change=1e-12,
    )  # fmt: skip
    losses = []

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        misses = inside(model, points).square().mean()
        edges = (model(start)[:, 0] + torch.sin(math.pi * x)).square().mean()
        edges = edges + model(walls).square().mean()
        value = misses + 10 * edges
        value.backward()
        losses.append(value.item())
        return value

    optimizer.step(loss)
    return model, losses


def reference(cells: int = 200) -> torch.Tensor:
    """Returns u at t = 1 by finite differences in small steps, at cells + 1 points."""
    x = torch.linspace(-1, 1, cells + 1, dtype=torch.float64)
    u, dx = -torch.sin(math.pi * x), 2 / cells
    steps = math.ceil(1 / (0.4 * dx**2 / NU))
    for _ in range(steps):
        flux = u.square() / 2
        u[1:-1] += (
            NU * (u[2:] - 2 * u[1:-1] + u[:-2]) / dx**2 - (flux[2:] - flux[:-2]) / (2 * dx)
        ) / steps
    return u


def draw(model: nn.Module, exact: torch.Tensor, losses: list[float], path: str) -> None:
    """Draws the network's values, its last profile beside the reference, and the loss."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(12, 3), layout="constrained")
    t, x = torch.linspace(0, 1, 60).double(), torch.linspace(-1, 1, 120).double()
    with torch.no_grad():
        u = model(torch.cartesian_prod(t, x)).view(60, 120)
        last = model(torch.stack([torch.ones(201).double(), torch.linspace(-1, 1, 201)], 1))
    shown = axes[0].imshow(
        u.t().numpy(), extent=(0, 1, -1, 1), origin="lower", aspect="auto", cmap="RdBu_r"
    )
    figure.colorbar(shown, ax=axes[0])
    axes[0].set(xlabel="t", ylabel="x", title="u(t, x) of the network")
    axes[1].plot(torch.linspace(-1, 1, 201).numpy(), exact.numpy(), lw=4, color="0.8")
    axes[1].plot(torch.linspace(-1, 1, 201).numpy(), last[:, 0].numpy(), color="#c8442f", lw=1.2)
    axes[1].set(xlabel="x", title="u(1, x); grey: finite differences")
    axes[2].semilogy(losses, color="#3b6ea5")
    axes[2].set(xlabel="evaluations", title="loss")
    for axis in axes[1:]:
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=90)


def main() -> None:
    """Trains and compares with finite differences."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--out", help="file of the picture; needs matplotlib")
    options = parser.parse_args()
    torch.manual_seed(0)
    model, losses = train(options.steps)
    exact = reference()
    with torch.no_grad():
        x = torch.linspace(-1, 1, len(exact), dtype=torch.float64)
        found = model(torch.stack([torch.ones_like(x), x], 1))[:, 0]
    print(f"loss: {losses[0]:.3f} to {losses[-1]:.1e} in {len(losses)} evaluations")
    print(f"largest error at t = 1: {(found - exact).abs().max().item():.4f}")
    if options.out:
        draw(model, exact, losses, options.out)


if __name__ == "__main__":
    main()
