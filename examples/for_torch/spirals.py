# SPDX-License-Identifier: BSD-3-Clause
"""Separates two spirals. This is a program for torch: nothing in it mentions cograd.

Usage: python -m cograd run examples/for_torch/spirals.py [--out FILE]
"""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def spirals(n):
    """Returns points of two spirals, and to which each belongs."""
    label = torch.arange(n) % 2
    radius = torch.rand(n).sqrt()
    angle = 3 * math.pi * radius + math.pi * label
    points = torch.stack([radius * angle.cos(), radius * angle.sin()], 1)
    return points + 0.02 * torch.randn(n, 2), label


class Network(nn.Module):
    """Two layers, one of them around a skip connection."""

    def __init__(self, width=48):
        super().__init__()
        self.inner = nn.Linear(2, width)
        self.middle = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.outer = nn.Linear(width, 2)

    def forward(self, x):
        x = F.silu(self.inner(4 * x))
        x = x + F.silu(self.middle(self.norm(x)))
        return self.outer(x)


def draw(model, points, label, path):
    """Draws the points and where the network draws the line."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    line = torch.linspace(-1.2, 1.2, 200)
    with torch.no_grad():
        x, y = torch.meshgrid(line, line, indexing="xy")
        share = model(torch.stack([x, y], -1)).softmax(-1)[..., 1]
    figure, axis = pyplot.subplots(figsize=(3.6, 3.6), layout="constrained")
    axis.imshow(
        share.numpy(),
        extent=(-1.2, 1.2, -1.2, 1.2),
        origin="lower",
        cmap="RdBu",
        vmin=-0.5,
        vmax=1.5,
    )
    colours = ["#c8442f" if k == 0 else "#1d4f8c" for k in label.tolist()]
    axis.scatter(*points.t().numpy(), s=5, c=colours, edgecolors="white", linewidths=0.3)
    axis.set_axis_off()
    figure.savefig(path, dpi=100)


def main():
    """Trains, and tests with fresh points."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--out")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    points, label = spirals(600)
    loader = DataLoader(TensorDataset(points, label), batch_size=50, shuffle=True)
    model = Network().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 2e-2, total_steps=args.epochs * len(loader)
    )
    for _ in range(args.epochs):
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
    with torch.no_grad():
        fresh, truth = spirals(1000)
        right = (model(fresh).argmax(1) == truth).float().mean().item()
    print(f"loss: {loss.item():.4f}, correct: {100 * right:.1f}%")
    if args.out:
        draw(model, points, label, args.out)


if __name__ == "__main__":
    main()
