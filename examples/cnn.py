# SPDX-License-Identifier: BSD-3-Clause
"""Trains a convolutional network on handwritten digits and draws what it detects.

The data are the 1797 images of 8 x 8 pixels that come with scikit-learn, enlarged to 16 x 16. The
picture shows the filters of the first layer, their outputs, digits with the pixels that change the
score most, and the loss.

Usage: python examples/cnn.py [--epochs N] [--out cnn.png] [--seed N] [--device cuda]
"""

import argparse
import sys
from typing import Any

import matplotlib

import cograd as torch
from cograd import nn
from cograd.nn import functional as F

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

WANTED_ACCURACY = 0.975


def network() -> nn.Sequential:
    """Maps 1 x 16 x 16 pixels to 10 scores by two convolutions with batch norm."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 5, padding=2),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout2d(0.1),
        nn.Flatten(),
        nn.Linear(16 * 4 * 4, 10),
    )


def load() -> Any:
    """Returns training and test images (N, 1, 16, 16) in [0, 1] and labels."""
    images, labels = load_digits(return_X_y=True)
    parts = train_test_split(images / 16, labels, test_size=360, random_state=0, stratify=labels)
    x_train, x_test, y_train, y_test = (torch.from_numpy(part) for part in parts)

    def enlarged(x: Any) -> torch.Tensor:
        return F.interpolate(x.float().reshape(-1, 1, 8, 8), scale_factor=2, mode="bicubic")

    return enlarged(x_train), y_train.long(), enlarged(x_test), y_test.long()


def train(
    model: nn.Module, x: torch.Tensor, y: torch.Tensor, epochs: int, batch: int = 64
) -> list[float]:
    """Runs AdamW with one cycle of the learning rate; returns the loss of each step."""
    optimizer = torch.optim.AdamW(model.parameters())
    steps = epochs * ((len(x) + batch - 1) // batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=steps)
    losses = []
    for epoch in range(epochs):
        for rows in torch.randperm(len(x)).split(batch):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x[rows]), y[rows])
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        print(f"epoch {epoch + 1}: loss {sum(losses[-10:]) / len(losses[-10:]):.4f}")
    return losses


def saliency(model: nn.Module, images: torch.Tensor) -> torch.Tensor:
    """Returns |d score / d pixel| for the score of the predicted digit."""
    pixels = images.clone().requires_grad_()
    scores = model(pixels)
    scores.max(1).values.sum().backward()
    assert pixels.grad is not None
    return pixels.grad.abs().squeeze(1)


def draw(path: str, model: Any, losses: list[float], images: torch.Tensor, accuracy: float) -> None:
    """Writes the picture."""
    figure, axes = plt.subplots(4, 8, figsize=(11, 6.2), layout="constrained")
    filters = model[0].weight.detach()
    with torch.no_grad():
        seen = model[:3](images[:1])[0]
    shown = saliency(model, images[:8])
    for i in range(8):
        axes[0, i].imshow(filters[i, 0].cpu().numpy(), cmap="RdBu")
        axes[1, i].imshow(seen[i].cpu().numpy(), cmap="gray")
        axes[2, i].imshow(images[i, 0].cpu().numpy(), cmap="gray_r")
        axes[2, i].imshow(shown[i].cpu().numpy(), cmap="Reds", alpha=0.55)
    for ax in axes.flat:
        ax.set_xticks([])
        ax.set_yticks([])
    for row, name in enumerate(("filters", "after them", "what matters")):
        axes[row, 0].set_ylabel(name)
    for ax in axes[3]:
        ax.remove()
    loss_axes = figure.add_subplot(axes[3, 0].get_gridspec()[3, :])
    loss_axes.semilogy(losses, color="#3b6ea5", lw=1.5)
    loss_axes.set_xlabel("step")
    loss_axes.set_ylabel("cross entropy")
    loss_axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"{accuracy:.1%} of the unseen digits are right")
    figure.savefig(path, dpi=110)
    print(f"wrote {path}")


def main() -> None:
    """Trains, tests and draws; exits with 1 if the accuracy is too low."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--out", default="cnn.png")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", help='"cpu" or "cuda"')
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    x_train, y_train, x_test, y_test = (part.to(args.device) for part in load())
    model = network().to(args.device)
    losses = train(model, x_train, y_train, args.epochs)
    model.eval()
    with torch.no_grad():
        accuracy = (model(x_test).argmax(1) == y_test).float().mean().item()
    draw(args.out, model, losses, x_test, accuracy)
    print(f"test accuracy: {accuracy:.2%}")
    if accuracy < WANTED_ACCURACY:
        sys.exit(f"below the {WANTED_ACCURACY:.1%} this example should reach")


if __name__ == "__main__":
    main()
