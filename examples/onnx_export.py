# SPDX-License-Identifier: BSD-3-Clause
"""Trains a small convolutional network, exports it to ONNX and runs it by onnxruntime.

The images are bright bars at an angle with noise; the classes are four angles. onnxruntime gets
batches of other sizes than the export did. Needs the packages onnx and onnxruntime.

Usage: python examples/onnx_export.py [--out bars.onnx] [--steps N]
"""

import argparse
import math

import onnxruntime

import cograd as torch
from cograd import nn
from cograd.nn import functional as F


def bars(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns noisy images (N, 1, 16, 16) of bars, and which of four angles each has."""
    labels = torch.randint(0, 4, (count,))
    angle = (labels * (math.pi / 4)).view(-1, 1, 1)
    place = torch.linspace(-1, 1, 16)
    y, x = place.view(-1, 1), place.view(1, -1)
    away = x * angle.sin() + y * angle.cos() - (torch.rand(count, 1, 1) - 0.5)
    images = (-20 * away.square()).exp() + 0.3 * torch.randn(count, 16, 16)
    return images.unsqueeze(1), labels


class Network(nn.Module):
    """Two convolutions with batch norm, a mean over the image, and a layer for the scores."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(True))
        self.second = nn.Sequential(nn.Conv2d(8, 16, 3, 2), nn.BatchNorm2d(16), nn.SiLU())
        self.scores = nn.Sequential(nn.Dropout(0.1), nn.Linear(16 * 9, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.adaptive_avg_pool2d(self.second(self.first(x)), 3)
        return self.scores(y.view(y.shape[0], -1))


def train(model: nn.Module, steps: int) -> None:
    """Runs AdamW on new images in each step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(steps):
        images, labels = bars(64)
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step}, loss: {loss.item():.3f}")


def main() -> None:
    """Trains, exports, and compares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="bars.onnx")
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    torch.manual_seed(0)
    model = Network()
    train(model, options.steps)
    model.eval()
    torch.onnx.export(
        model,
        (bars(2)[0],),
        options.out,
        input_names=["images"],
        output_names=["scores"],
        dynamic_axes={"images": {0: "batch"}, "scores": {0: "batch"}},
    )
    session = onnxruntime.InferenceSession(options.out, providers=["CPUExecutionProvider"])
    images, labels = bars(500)
    (scores,) = session.run(None, {"images": images.numpy()})
    with torch.no_grad():
        difference = (torch.from_numpy(scores) - model(images)).abs().max().item()
    right = (torch.from_numpy(scores).argmax(1) == labels).float().mean().item()
    print(f"largest difference: {difference:.1e}, accuracy in onnxruntime: {right:.1%}")


if __name__ == "__main__":
    main()
