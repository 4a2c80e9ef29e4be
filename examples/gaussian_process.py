# SPDX-License-Identifier: BSD-3-Clause
"""Learns the kernel of a Gaussian process by LBFGS from the marginal likelihood.

The values at the points have one `MultivariateNormal` distribution. The program maximises its
`log_prob` with respect to the length, the height and the noise, all positive. The picture shows the
posterior before and after learning, and some functions drawn from it.

Usage: python examples/gaussian_process.py [--out process.png] [--seed N]
"""

import argparse
from typing import Any

import cograd as torch
from cograd import distributions as D


def truth(x: torch.Tensor) -> torch.Tensor:
    """Computes the function to learn."""
    return torch.sin(3 * x) + 0.5 * x


def kernel(
    a: torch.Tensor, b: torch.Tensor, length: torch.Tensor, height: torch.Tensor
) -> torch.Tensor:
    """Returns the covariance of values at the points a and b."""
    return height**2 * torch.exp(-0.5 * ((a[:, None] - b) / length) ** 2)


def marginal(x: torch.Tensor, log_params: torch.Tensor) -> D.MultivariateNormal:
    """Returns the distribution of the noisy values at x."""
    length, height, noise = log_params.exp()
    covariance = kernel(x, x, length, height) + (noise**2 + 1e-8) * torch.eye(len(x), dtype=x.dtype)
    return D.MultivariateNormal(torch.zeros_like(x), covariance)


def posterior(
    x: torch.Tensor, y: torch.Tensor, at: torch.Tensor, log_params: torch.Tensor
) -> D.MultivariateNormal:
    """Returns the distribution of the function's values at other points."""
    length, height, _ = log_params.exp()
    factor = marginal(x, log_params).scale_tril
    cross = torch.linalg.solve_triangular(factor, kernel(x, at, length, height), upper=False)
    white = torch.linalg.solve_triangular(factor, y[:, None], upper=False)
    mean = (cross.T @ white)[:, 0]
    covariance = kernel(at, at, length, height) - cross.T @ cross
    return D.MultivariateNormal(mean, covariance + 1e-8 * torch.eye(len(at), dtype=x.dtype))


def fit(x: torch.Tensor, y: torch.Tensor, log_params: torch.Tensor) -> Any:
    """Maximises the marginal likelihood and returns its values during the search."""
    optimizer = torch.optim.LBFGS([log_params], line_search_fn="strong_wolfe", max_iter=60)
    history = []

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = -marginal(x, log_params).log_prob(y)
        loss.backward()
        history.append(-loss.item())
        return loss

    optimizer.step(closure)
    return history


def draw(
    path: str, x: torch.Tensor, y: torch.Tensor, at: torch.Tensor, before: Any, after: Any
) -> None:
    """Draws means, 95 % intervals and samples for the initial and the learnt kernel."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(12, 4.2), sharey=True)
    for axis, known, title in zip(axes, (before, after), ("first kernel", "learnt"), strict=True):
        mean, spread = known.mean, 2 * known.stddev
        axis.fill_between(at, mean - spread, mean + spread, alpha=0.25, label="95 %")
        axis.plot(at, known.sample((4,)).T, lw=0.7, color="tab:blue", alpha=0.6)
        axis.plot(at, mean, color="tab:blue", label="mean")
        axis.plot(at, truth(at), "k--", lw=1, label="truth")
        axis.plot(x, y, "k.")
        axis.set(title=title, ylim=(-4, 4))
    axes[0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=100)


def main() -> None:
    """Learns the kernel, prints it and draws the picture."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default=None)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    x = D.Uniform(-3.0, 3.0).sample((40,)).double().sort().values
    x = x[(x < 0.3) | (x > 1.3)]  # leaves a gap in the data
    y = truth(x) + 0.2 * torch.randn_like(x)
    at = torch.linspace(-4, 4, 160, dtype=torch.float64)
    log_params = torch.tensor([-2.0, 0.0, -1.0], dtype=torch.float64, requires_grad=True)
    before = posterior(x, y, at, log_params.detach())
    history = fit(x, y, log_params)
    log_params = log_params.detach()
    after = posterior(x, y, at, log_params)
    print(f"log likelihood: {history[0]:.2f} at first, {history[-1]:.2f} at last")
    print(f"evaluations: {len(history)}")
    length, height, noise = log_params.exp().tolist()
    print(f"length, height, noise: {length:.2f} {height:.2f} {noise:.2f}")
    inside = (at > -3) & (at < 3)
    near = inside & ((at < 0.2) | (at > 1.4))
    error = (after.mean - truth(at))[near].square().mean().sqrt().item()
    print(f"error outside of the gap: {error:.3f}")
    covered = ((after.mean - truth(at)).abs() < 2 * after.stddev)[inside].double().mean().item()
    print(f"covered: {covered:.2f}")
    if options.out:
        draw(options.out, x, y, at, before, after)
        print("wrote", options.out)


if __name__ == "__main__":
    main()
