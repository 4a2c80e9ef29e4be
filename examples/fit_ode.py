# SPDX-License-Identifier: BSD-3-Clause
"""Fits an ODE to noisy measurements by gradients through its solver.

Foxes eat rabbits: the Lotka-Volterra equations. Two hundred steps of Runge and Kutta's method lead
from the unknown rates to the numbers of animals, and backward leads from the misfit to the rates.
Usage: python examples/fit_ode.py [--out FILE]
"""

import argparse

import cograd as torch

STEPS, DT = 200, 0.1
TRUTH = torch.tensor([1.1, 0.4, 0.1, 0.4], dtype=torch.float64)
START = torch.tensor([10.0, 2.0], dtype=torch.float64)


def slope(state: torch.Tensor, rates: torch.Tensor) -> torch.Tensor:
    """Returns the time derivatives of the numbers of rabbits and foxes."""
    rabbits, foxes = state.unbind()
    birth, eaten, growth, death = rates.unbind()
    return torch.stack(
        [birth * rabbits - eaten * rabbits * foxes, growth * rabbits * foxes - death * foxes]
    )


def solve(rates: torch.Tensor, steps: int = STEPS) -> torch.Tensor:
    """Returns the states at all times, one row each."""
    state, states = START, [START]
    for _ in range(steps):
        a = slope(state, rates)
        b = slope(state + DT / 2 * a, rates)
        c = slope(state + DT / 2 * b, rates)
        d = slope(state + DT * c, rates)
        state = state + DT / 6 * (a + 2 * b + 2 * c + d)
        states.append(state)
    return torch.stack(states)


def fit(measured: torch.Tensor, guess: torch.Tensor) -> tuple[torch.Tensor, list[float]]:
    """Returns the rates that explain the measurements, and the losses.

    It fits the logarithms, so that rates stay positive. It begins with the first tenth of the time
    and doubles it: over a long time, a wrong frequency gives gradients that lead nowhere.
    """
    logs = guess.log().requires_grad_()
    losses = []
    for steps in (STEPS // 10, STEPS // 5, STEPS // 2, STEPS):
        optimizer = torch.optim.Adam([logs], lr=0.03)
        for _ in range(60):
            optimizer.zero_grad()
            loss = (solve(logs.exp(), steps) - measured[: steps + 1]).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return logs.detach().exp(), losses


def draw(
    measured: torch.Tensor, guess: torch.Tensor, found: torch.Tensor, losses: list[float], path: str
) -> None:
    """Draws the measurements, the solutions before and after the fit, and the loss."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(
        1, 2, figsize=(10, 3.2), width_ratios=[2, 1], layout="constrained"
    )
    time = [DT * i for i in range(STEPS + 1)]
    before, after = solve(guess), solve(found)
    for i, (name, colour) in enumerate({"rabbits": "#3b6ea5", "foxes": "#c8442f"}.items()):
        left.plot(time, measured[:, i].tolist(), ".", ms=3, color=colour, alpha=0.5)
        left.plot(time, before[:, i].tolist(), ":", lw=1, color=colour)
        left.plot(time, after[:, i].tolist(), color=colour, label=name)
    left.set_xlabel("time")
    left.set_ylim(0, 22)
    left.set_title("measured (dots), first guess (dotted), fitted", fontsize=10)
    left.legend(frameon=False)
    right.semilogy(losses, color="#3b6ea5")
    right.set_xlabel("step")
    right.set_title("mean squared misfit", fontsize=10)
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=100)


def main() -> None:
    """Fits the four rates and prints them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", help="file of the picture; needs matplotlib")
    options = parser.parse_args()
    torch.manual_seed(0)
    truth = solve(TRUTH)
    measured = truth + 0.3 * torch.randn_like(truth)
    guess = torch.tensor([0.7, 0.7, 0.2, 0.7], dtype=torch.float64)
    found, losses = fit(measured, guess)
    print(f"loss: {losses[0]:.2f} to {losses[-1]:.4f}")
    print("true rates:", ", ".join(f"{v:.3f}" for v in TRUTH.tolist()))
    print("fitted rates:", ", ".join(f"{v:.3f}" for v in found.tolist()))
    if options.out:
        draw(measured, guess, found, losses, options.out)


if __name__ == "__main__":
    main()
