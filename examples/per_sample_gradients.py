# SPDX-License-Identifier: BSD-3-Clause
"""Trains with clipped per-sample gradients, which limit the influence of each sample.

A few labels are far off. The gradient of the mean loss follows them; the mean of gradients
that were clipped for each sample hardly does.
Usage: python examples/per_sample_gradients.py [--out FILE]
"""

import argparse
from collections.abc import Callable

import cograd as torch
from cograd.func import functional_call, grad_and_value, vmap

Params = dict[str, torch.Tensor]

torch.manual_seed(0)
slope = torch.tensor([1.5, -2.0, 0.5])
x = torch.randn(256, 3)
y = x @ slope
y[:16] += 100.0  # sixteen wrong labels

model = torch.nn.Linear(3, 1)
start = {name: p.detach() for name, p in model.named_parameters()}


def loss(params: Params, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Returns the loss of one sample, without a batch dim."""
    return (functional_call(model, params, (x,))[0] - y) ** 2


def clipped_mean(gradients: Params, largest: float = 1.0) -> Params:
    """Returns the mean over samples (dim 0) of gradients clipped to a norm of `largest`."""
    norms = torch.stack([g.flatten(1).pow(2).sum(1) for g in gradients.values()]).sum(0).sqrt()
    scale = (largest / norms).clamp(max=1.0)
    return {name: torch.einsum("n...,n->...", g, scale) / len(g) for name, g in gradients.items()}


def plain_mean(gradients: Params) -> Params:
    """Returns the gradient of the mean loss."""
    return {name: g.mean(0) for name, g in gradients.items()}


def train(mean: Callable[[Params], Params], steps: int = 400, rate: float = 0.05) -> Params:
    """Returns the parameters after gradient descent with means of the samples' gradients."""
    per_sample = vmap(grad_and_value(loss), (None, 0, 0))
    params = start
    for _ in range(steps):
        gradients, _ = per_sample(params, x, y)
        params = {name: params[name] - rate * g for name, g in mean(gradients).items()}
    return params


def norms(params: Params) -> torch.Tensor:
    """Returns the norm of the gradient of each sample."""
    gradients, _ = vmap(grad_and_value(loss), (None, 0, 0))(params, x, y)
    return torch.stack([g.flatten(1).pow(2).sum(1) for g in gradients.values()]).sum(0).sqrt()


def draw(found: dict[str, Params], path: str) -> None:
    """Draws the gradients' norms at the start, and what the two runs predict."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 2.8), layout="constrained")
    each = norms(start)
    left.plot(range(16, 256), each[16:].tolist(), ".", ms=4, color="#3b6ea5", label="right labels")
    left.plot(range(16), each[:16].tolist(), ".", ms=6, color="#c8442f", label="wrong labels")
    left.set(yscale="log", xlabel="sample", title="norm of its gradient at the start")
    left.legend(frameon=False)
    truth = (x @ slope)[16:]
    for (name, params), colour in zip(found.items(), ("#c8442f", "#3b6ea5"), strict=True):
        guess = (x @ params["weight"][0] + params["bias"])[16:]
        right.plot(truth.tolist(), guess.tolist(), ".", ms=3, color=colour, label=name)
    right.plot([-8, 8], [-8, 8], color="0.7", lw=1, zorder=0)
    right.set(xlabel="true value", title="predicted value")
    right.legend(frameon=False)
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=100)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", help="file of the picture; needs matplotlib")
    options = parser.parse_args()
    found = {"plain": train(plain_mean), "clipped": train(clipped_mean)}
    for name, params in found.items():
        error = (params["weight"][0] - slope).norm() + params["bias"].abs()[0]
        print(f"{name}: error of the weights {error.item():.3f}")
    if options.out:
        draw(found, options.out)
