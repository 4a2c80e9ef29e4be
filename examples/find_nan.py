# SPDX-License-Identifier: BSD-3-Clause
"""Finds the op that makes a training run end in NaN, and repairs it.

The loss is a distance. Its gradient is infinite where prediction and target are equal, and a mask
after the square root does not help: 0 * inf is nan. The losses are right until one point is hit
exactly; then every parameter is nan. Usage: python examples/find_nan.py [--out FILE]
"""

import argparse
import math
import warnings
from collections.abc import Callable

import cograd as torch

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def faulty(guess: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    """Returns the sum of distances; masks distances of 0, too late."""
    square = (points - guess).square().sum(1)
    return torch.where(square == 0, 0.0, square.sqrt()).sum()


def repaired(guess: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    """Returns the same; the root never sees a 0."""
    square = (points - guess).square().sum(1)
    same = square == 0
    return torch.where(same, 0.0, torch.where(same, 1.0, square).sqrt()).sum()


def descend(loss: Loss, points: torch.Tensor, steps: int = 20) -> tuple[torch.Tensor, list[float]]:
    """Looks for the point with the least sum of distances; returns it and the losses."""
    guess = torch.zeros(2, requires_grad=True)
    optimizer = torch.optim.SGD([guess], lr=1 / 16)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        value = loss(guess, points)
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return guess.detach(), losses


def explain(points: torch.Tensor) -> str:
    """Returns what anomaly mode says about the first nan."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.detect_anomaly():
            try:
                descend(faulty, points)
            except RuntimeError as error:
                return str(error)
    return ""


def draw(losses: dict[str, list[float]], path: str) -> None:
    """Draws both runs; the faulty one ends where its loss is nan."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(8, 2.8), layout="constrained")
    axis.plot(losses["repaired"], color="0.75", lw=4, label="repaired")
    axis.plot(losses["faulty"], color="#c8442f", marker="o", ms=3, label="faulty: then nan")
    last = next(i for i, v in enumerate(losses["faulty"]) if math.isnan(v)) - 1
    axis.annotate(
        "the guess hits a point:\nthe gradient is nan",
        (last, losses["faulty"][last]), (last + 1, losses["faulty"][0] * 0.9), va="top",
        arrowprops={"arrowstyle": "->", "color": "0.4"},
    )  # fmt: skip
    axis.set(xlabel="step", ylabel="sum of distances")
    axis.legend(frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=100)


def main() -> None:
    """Runs both and prints the explanation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", help="file of the picture; needs matplotlib")
    options = parser.parse_args()
    points = torch.tensor([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [4.0, 0.0]])
    losses = {}
    for loss in (faulty, repaired):
        guess, losses[loss.__name__] = descend(loss, points)
        print(f"{loss.__name__}: {guess.tolist()}, loss {losses[loss.__name__][-1]:.4f}")
    print(explain(points))
    if options.out:
        draw(losses, options.out)


if __name__ == "__main__":
    main()
