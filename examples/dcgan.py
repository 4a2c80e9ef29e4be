# SPDX-License-Identifier: BSD-3-Clause
"""Trains a convolutional generator and critic of images, as in DCGAN (Radford et al. 2016).

The images are the 8 x 8 digits that come with scikit-learn, enlarged to 28 x 28. The generator
makes images from 32 normal numbers by transposed convolutions; the critic distinguishes them from
real ones by convolutions. The picture shows images made from the same numbers during training, and
real images.

Usage: python examples/dcgan.py [--epochs N] [--out dcgan.png] [--seed N]
"""

import argparse
import time
from typing import Any

from sklearn.datasets import load_digits

import cograd as torch
from cograd import nn
from cograd.nn import functional as F

LATENT = 32


def load_images() -> torch.Tensor:
    """Returns 1797 images of 28 x 28 pixels in [-1, 1]."""
    pixels, _ = load_digits(return_X_y=True)
    small = torch.tensor(pixels / 8 - 1, dtype=torch.float32).view(-1, 1, 8, 8)
    return F.interpolate(small, size=(28, 28), mode="bilinear", align_corners=False)


def make_generator(width: int = 16) -> nn.Sequential:
    """Maps 32 numbers to images: 7 x 7, then 14 x 14, then 28 x 28."""
    return nn.Sequential(
        nn.Linear(LATENT, 4 * width * 49, bias=False),
        nn.Unflatten(1, (4 * width, 7, 7)),
        nn.BatchNorm2d(4 * width),
        nn.ReLU(),
        nn.ConvTranspose2d(4 * width, width, 4, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.ConvTranspose2d(width, 1, 4, stride=2, padding=1),
        nn.Tanh(),
    )


def make_critic(width: int = 16) -> nn.Sequential:
    """Maps images of 28 x 28 by 14 x 14 and 7 x 7 to the log odds of being real."""
    return nn.Sequential(
        nn.Conv2d(1, width, 4, stride=2, padding=1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(width, 4 * width, 4, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(4 * width),
        nn.LeakyReLU(0.2),
        nn.Flatten(),
        nn.Linear(4 * width * 49, 1),
    )


def initialise(module: nn.Module) -> None:
    """Initialises weights normally with deviation 0.02, as in the paper."""
    if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d, nn.Linear)):
        nn.init.normal_(module.weight, 0.0, 0.02)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.normal_(module.weight, 1.0, 0.02)


def loss_of(scores: torch.Tensor, real: bool) -> torch.Tensor:
    """Returns the cross entropy of log odds if all images are real, or none is."""
    targets = torch.full_like(scores, 1.0 if real else 0.0)
    return F.binary_cross_entropy_with_logits(scores, targets)


def train(
    generator: nn.Module,
    critic: nn.Module,
    images: torch.Tensor,
    epochs: int,
    fixed: torch.Tensor,
    batch: int = 64,
) -> Any:
    """Trains both networks; returns both losses by epoch, and images of fixed numbers."""
    betas = (0.5, 0.999)
    of_generator = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=betas)
    of_critic = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=betas)
    history, shown = [], []
    for epoch in range(epochs):
        sums = torch.zeros(2)
        batches = torch.randperm(len(images))[: len(images) // batch * batch].split(batch)
        for rows in batches:
            fake = generator(torch.randn(batch, LATENT))
            of_critic.zero_grad()
            loss = loss_of(critic(images[rows]), True) + loss_of(critic(fake.detach()), False)
            loss.backward()
            of_critic.step()

            of_generator.zero_grad()
            own = loss_of(critic(fake), True)
            own.backward()
            of_generator.step()
            sums += torch.stack([loss.detach(), own.detach()])
        history.append((sums / len(batches)).tolist())
        if epoch in (0, epochs // 4, epochs - 1):
            shown.append((epoch + 1, sample(generator, fixed)))
    return history, shown


def sample(generator: nn.Module, z: torch.Tensor) -> torch.Tensor:
    """Returns images of the generator in evaluation mode, with batch norm's running averages."""
    generator.eval()
    with torch.no_grad():
        images = generator(z)
    generator.train()
    return images


def tiled(images: torch.Tensor, side: int = 6) -> Any:
    """Arranges images in a square."""
    return images[: side * side].view(side, side, 28, 28).permute(0, 2, 1, 3).reshape(28 * side, -1)


def nearest(images: torch.Tensor, real: torch.Tensor) -> float:
    """Returns the mean RMS distance of the images to their nearest real ones."""
    distance = torch.cdist(images.flatten(1), real.flatten(1)) / 28
    return distance.min(1).values.mean().item()


def draw(path: str, images: torch.Tensor, history: Any, shown: Any) -> None:
    """Draws generated images by epoch, real images, and the losses."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    squares = [(f"epoch {epoch}", made) for epoch, made in shown] + [("real", images)]
    figure, axes = plt.subplots(1, len(squares) + 1, figsize=(3.4 * (len(squares) + 1), 3.6))
    for axis, (title, square) in zip(axes, squares, strict=False):
        axis.imshow(tiled(square), cmap="gray_r")
        axis.set(xticks=[], yticks=[], title=title)
    axes[-1].plot(history, label=["critic", "generator"])
    axes[-1].set(xlabel="epoch", title="losses")
    axes[-1].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=100)


def main() -> None:
    """Trains, prints the results and draws the picture."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--out", default=None)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    images = load_images()
    generator, critic = make_generator(), make_critic()
    generator.apply(initialise)
    critic.apply(initialise)
    fixed = torch.randn(100, LATENT)
    start = time.perf_counter()
    print(f"distance to real images: {nearest(sample(generator, fixed), images):.3f} at first")
    history, shown = train(generator, critic, images, options.epochs, fixed)
    print(f"trained in {time.perf_counter() - start:.1f} s")
    made = shown[-1][1]
    print(f"distance to real images: {nearest(made, images):.3f} at last")
    spreads = (square.std(0).mean().item() for square in (made, images))
    print("spread of a pixel, and of real ones: {:.3f} {:.3f}".format(*spreads))
    if options.out:
        draw(options.out, images, history, shown)
        print("wrote", options.out)


if __name__ == "__main__":
    main()
