# SPDX-License-Identifier: BSD-3-Clause
"""Trains a small network on handwritten digits; one of its layers is a custom Python Function.

The data are the 1797 images of 8 x 8 pixels that come with scikit-learn. The network has two
hidden layers that compute tanh(x W' + b): the first is the Function `DenseTanh` below, with its
own backward, the second is the same formula in built-in operations. The program checks that both
give the same gradients, trains, prints the accuracy on images it has not seen, and draws the loss,
the confusion matrix and the graph of one step.

Usage: python examples/digits.py [--epochs N] [--out demo.png] [--seed N]
"""

import argparse
import sys
import time
from typing import Any

import matplotlib

import cograd as torch
from cograd import nn
from cograd.nn import functional as F

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from graph_picture import draw_graph
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import tqdm

WANTED_ACCURACY = 0.97


class DenseTanh(torch.autograd.Function):
    """Computes tanh(x W' + b), with a backward written by hand."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
    ) -> torch.Tensor:
        y = torch.tanh(x @ weight.t() + bias)
        ctx.save_for_backward(x, weight, y)
        return y

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        x, weight, y = ctx.saved_tensors
        before_tanh = grad * (1 - y * y)
        return before_tanh @ weight, before_tanh.t() @ x, before_tanh.sum(0)


def dense_tanh(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Computes the same layer with built-in operations, whose backward autograd derives."""
    return torch.tanh(x @ weight.t() + bias)


class Network(nn.Module):
    """Maps 64 pixels to 10 scores by DenseTanh and dense_tanh."""

    def __init__(self, hidden: int = 128) -> None:
        super().__init__()
        self.first = nn.Linear(64, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.last = nn.Linear(hidden, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = DenseTanh.apply(x, self.first.weight, self.first.bias)
        x = dense_tanh(x, self.second.weight, self.second.bias)
        return self.last(x)


def check_same_gradients() -> None:
    """Compares the two layers, and the Function with finite differences; raises if they differ."""
    x = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(3, dtype=torch.float64, requires_grad=True)
    seed = torch.randn(5, 3, dtype=torch.float64)
    inputs = (x, weight, bias)
    own = torch.autograd.grad(DenseTanh.apply(*inputs), inputs, seed)
    built_in = torch.autograd.grad(dense_tanh(*inputs), inputs, seed)
    for name, a, b in zip(("x", "weight", "bias"), own, built_in, strict=True):
        if not torch.allclose(a, b, rtol=1e-12, atol=1e-12):
            raise SystemExit(f"gradients of {name} differ by {(a - b).abs().max().item():g}")
    torch.autograd.gradcheck(DenseTanh.apply, inputs)
    torch.autograd.gradgradcheck(DenseTanh.apply, inputs)
    print("DenseTanh and dense_tanh give the same gradients; gradcheck and gradgradcheck agree")


def load() -> Any:
    """Returns training and test images (float32, in [0, 1]) and labels (int64)."""
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype("float32")
    parts = train_test_split(images, labels, test_size=360, random_state=0, stratify=labels)
    x_train, x_test, y_train, y_test = (torch.from_numpy(part) for part in parts)
    return x_train, y_train.long(), x_test, y_test.long()


def train(
    model: nn.Module,
    x: torch.Tensor,
    y: torch.Tensor,
    x_test: torch.Tensor,
    y_test: torch.Tensor,
    epochs: int,
    batch: int = 32,
) -> Any:
    """Runs Adam over shuffled, slightly noisy batches; returns both losses of every epoch."""
    optimizer = torch.optim.Adam(model.parameters(), weight_decay=1e-4)
    history: dict[str, list[float]] = {"train": [], "test": []}
    bar = tqdm(range(epochs), desc="training", unit="epoch", file=sys.stdout)
    for epoch in bar:
        optimizer.param_groups[0]["lr"] = 4e-3 * (1 - epoch / epochs)
        total = 0.0
        order = torch.randperm(len(x))
        for rows in order.split(batch):
            optimizer.zero_grad()
            images = x[rows]
            noisy = images + 0.1 * torch.randn_like(images)
            loss = F.cross_entropy(model(noisy), y[rows])
            loss.backward()
            optimizer.step()
            total += loss.item() * len(rows)
        with torch.no_grad():
            scores = model(x_test)
            history["test"].append(F.cross_entropy(scores, y_test).item())
            accuracy = (scores.argmax(1) == y_test).float().mean().item()
        history["train"].append(total / len(x))
        bar.set_postfix(loss=f"{history['train'][-1]:.4f}", test_accuracy=f"{accuracy:.1%}")
    return history


def draw(
    path: str,
    model: Any,
    history: Any,
    predicted: Any,
    labels: Any,
    accuracy: float,
    seconds: float,
    one_step: torch.Tensor,
) -> None:
    """Writes the picture: loss curves, confusion matrix, graph of one step."""
    fig = plt.figure(figsize=(13, 8.2), layout="constrained")
    grid = fig.add_gridspec(2, 2, width_ratios=[1, 1.35])

    ax = fig.add_subplot(grid[0, 0])
    epochs = range(1, len(history["train"]) + 1)
    ax.plot(epochs, history["train"], color="#3b6ea5", lw=2, label="training images")
    ax.plot(epochs, history["test"], color="#c8442f", lw=2, label="images not seen")
    ax.set_yscale("log")
    ax.set_xlabel("epoch")
    ax.set_title(f"Cross entropy ({seconds:.1f} s of training)", fontsize=11)
    ax.grid(color="#e4e4e4", lw=0.6)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)

    ax = fig.add_subplot(grid[1, 0])
    counts = torch.bincount(labels * 10 + predicted, minlength=100).view(10, 10).numpy()
    ax.imshow(counts**0.5, cmap="Blues")
    for i in range(10):
        for j in range(10):
            if counts[i, j]:
                shade = "white" if counts[i, j] > counts.max() / 3 else "#1b1b1b"
                ax.text(j, i, counts[i, j], ha="center", va="center", fontsize=8, color=shade)
    ax.set_xticks(range(10))
    ax.set_yticks(range(10))
    ax.set_xlabel("network's answer")
    ax.set_ylabel("digit")
    ax.set_title(f"{accuracy:.1%} of {len(labels)} unseen images are right", fontsize=11)

    ax = fig.add_subplot(grid[:, 1])
    draw_graph(ax, one_step, list(model.named_parameters()))
    ax.set_title(
        "The graph of one step: the loss on top, arrows are the way of the gradient\n"
        "orange: the user's Function, blue: built-in operations, green: parameters",
        fontsize=11,
    )
    fig.savefig(path, dpi=120)
    print(f"wrote {path}")


def main() -> None:
    """Checks, trains, tests and draws; exits with 1 if the accuracy is too low."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--out", default="demo.png")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    check_same_gradients()
    x_train, y_train, x_test, y_test = load()
    model = Network()
    start = time.perf_counter()
    history = train(model, x_train, y_train, x_test, y_test, args.epochs)
    seconds = time.perf_counter() - start

    with torch.no_grad():
        predicted = model(x_test).argmax(1)
    accuracy = (predicted == y_test).float().mean().item()
    one_step = F.cross_entropy(model(x_train[:32]), y_train[:32])
    draw(args.out, model, history, predicted, y_test, accuracy, seconds, one_step)
    print(f"test accuracy: {accuracy:.2%}")
    if accuracy < WANTED_ACCURACY:
        sys.exit(f"below the {WANTED_ACCURACY:.0%} this example should reach")


if __name__ == "__main__":
    main()
