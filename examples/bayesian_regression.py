# SPDX-License-Identifier: BSD-3-Clause
"""Bayesian regression by Hamiltonian Monte Carlo: a line through points with outliers.

The noise has Student's t distribution, so outliers have little influence; slope, intercept and
scale have priors. The scale is positive: `biject_to` computes it from an unconstrained number, and
its log determinant is part of the density. `vmap` of one chain's gradient runs all chains at once.

Usage: python examples/bayesian_regression.py [--steps N] [--out regression.png] [--seed N]
"""

import argparse
from typing import Any

import cograd as torch
from cograd import distributions as D
from cograd.func import grad_and_value, vmap

SLOPE, INTERCEPT, SCALE = 1.5, -0.5, 0.3


def make_data() -> tuple[torch.Tensor, torch.Tensor]:
    """Returns forty points near a line; every eighth is an outlier."""
    x = torch.linspace(-2, 2, 40)
    y = SLOPE * x + INTERCEPT + D.Normal(0.0, SCALE).sample(x.shape)
    y[::8] += D.Uniform(3.0, 8.0).sample((5,))
    return x, y


to_scale = D.biject_to(D.HalfNormal(1.0).support)


def unpack(z: torch.Tensor) -> Any:
    """Returns slope, intercept and scale from three unconstrained numbers."""
    return z[..., 0], z[..., 1], to_scale(z[..., 2])


def log_density(z: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Returns the log density of parameters and data at the unconstrained numbers of one chain."""
    slope, intercept, scale = unpack(z)
    prior = D.Normal(0.0, 5.0).log_prob(slope) + D.Normal(0.0, 5.0).log_prob(intercept)
    prior = prior + D.HalfNormal(1.0).log_prob(scale)
    prior = prior + to_scale.log_abs_det_jacobian(z[2], scale)
    noise = D.StudentT(3.0, slope * x + intercept, scale, validate_args=False)
    return prior + noise.log_prob(y).sum()


def sample(
    z: torch.Tensor,
    x: torch.Tensor,
    y: torch.Tensor,
    steps: int,
    leaps: int = 12,
    stride: float = 0.06,
) -> Any:
    """Runs Hamiltonian Monte Carlo from the rows of z; returns (steps, chains, 3) and the rate."""
    slope_of = vmap(grad_and_value(log_density), in_dims=(0, None, None))
    gradient, value = slope_of(z, x, y)
    kept, accepted = [], 0.0
    for _ in range(steps):
        momentum = torch.randn_like(z)
        before = value - momentum.square().sum(-1) / 2
        at, g, v = z, gradient, value
        length = stride * (0.8 + 0.4 * torch.rand(1).item())  # random, so no orbit closes
        momentum = momentum + length / 2 * g
        for leap in range(leaps):
            at = at + length * momentum
            g, v = slope_of(at, x, y)
            momentum = momentum + length * (0.5 if leap == leaps - 1 else 1.0) * g
        after = v - momentum.square().sum(-1) / 2
        taken = torch.rand(z.shape[0]).log() < after - before
        z = torch.where(taken[:, None], at, z)
        gradient = torch.where(taken[:, None], g, gradient)
        value = torch.where(taken, v, value)
        accepted += taken.float().mean().item() / steps
        kept.append(z)
    return torch.stack(kept), accepted


def r_hat(draws: torch.Tensor) -> torch.Tensor:
    """Returns Gelman and Rubin's ratio of the spread of all chains to that in one; 1 is best."""
    n = draws.shape[0]
    within = draws.var(0).mean(0)
    between = n * draws.mean(0).var(0)
    return ((within * (n - 1) / n + between / n) / within).sqrt()


def draw(path: str, x: torch.Tensor, y: torch.Tensor, draws: torch.Tensor) -> None:
    """Draws the data, lines of the posterior, and the line of least squares."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    slope, intercept, scale = (v.flatten() for v in unpack(draws))
    at = torch.linspace(-2.2, 2.2, 100)
    lines = slope[:, None] * at + intercept[:, None]
    low, high = torch.quantile(lines, torch.tensor([0.025, 0.975]), dim=0)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), width_ratios=(3, 2))
    left.fill_between(at, low, high, color="tab:blue", alpha=0.3, label="95 % of the lines")
    left.plot(at, lines.mean(0), color="tab:blue", label="posterior mean")
    left.plot(at, SLOPE * at + INTERCEPT, "k--", lw=1, label="truth")
    design = torch.stack([x, torch.ones_like(x)], 1)
    least = torch.linalg.lstsq(design, y[:, None]).solution[:, 0]
    left.plot(at, least[0] * at + least[1], color="tab:red", lw=1, label="least squares")
    left.plot(x, y, "k.")
    left.legend()
    right.scatter(slope[::5], scale[::5], s=3, alpha=0.3)
    right.axvline(SLOPE, color="k", lw=1)
    right.axhline(SCALE, color="k", lw=1)
    right.set(xlabel="slope", ylabel="scale of the noise", title="posterior")
    figure.tight_layout()
    figure.savefig(path, dpi=100)


def main() -> None:
    """Samples, prints a summary and draws the picture."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--out", default=None)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    x, y = make_data()
    draws, rate = sample(torch.randn(4, 3), x, y, options.steps)
    draws = draws[options.steps // 4 :]
    print(f"acceptance: {rate:.2f}")
    truth = (SLOPE, INTERCEPT, SCALE)
    for name, v, t in zip(("slope", "intercept", "scale"), unpack(draws), truth, strict=True):
        v = v.flatten()
        print(f"{name}: {v.mean().item():.3f} +- {v.std().item():.3f}, truth {t}")
    print(f"R-hat: {r_hat(draws).max().item():.3f} at most")
    if options.out:
        draw(options.out, x, y, draws)
        print("wrote", options.out)


if __name__ == "__main__":
    main()
