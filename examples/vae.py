# SPDX-License-Identifier: BSD-3-Clause
"""Trains a variational autoencoder of handwritten digits with two latent numbers.

The encoder returns a normal distribution for each image, the decoder returns one for each pixel
with a learnt scale. The bound on the likelihood is one `log_prob` of an `rsample` minus one
`kl_divergence`. The picture shows the images that the decoder makes on a grid of latent numbers,
and the latent numbers of the digits.

Usage: python examples/vae.py [--epochs N] [--out vae.png] [--seed N]
"""

import argparse
from typing import Any

from sklearn.datasets import load_digits

import cograd as torch
from cograd import distributions as D
from cograd import nn


class Autoencoder(nn.Module):
    """Maps 64 pixels to 2 latent numbers and back to 64 pixels."""

    def __init__(self, hidden: int = 128, latent: int = 2) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 2 * latent)
        )
        self.decoder = nn.Sequential(
            nn.Linear(latent, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, 64),
            nn.Sigmoid(),
        )
        self.log_noise = nn.Parameter(torch.tensor(-1.0))
        self.prior = D.Independent(D.Normal(torch.zeros(latent), torch.ones(latent)), 1)

    def encode(self, x: torch.Tensor) -> D.Independent:
        """Returns the distribution of the latent numbers given the images."""
        mean, log_scale = self.encoder(x).chunk(2, -1)
        return D.Independent(D.Normal(mean, log_scale.exp()), 1)

    def decode(self, z: torch.Tensor) -> D.Independent:
        """Returns the distribution of the images given the latent numbers."""
        return D.Independent(D.Normal(self.decoder(z), self.log_noise.exp()), 1)

    def bound(self, x: torch.Tensor, weight: float = 1.0) -> torch.Tensor:
        """Returns the bound; with weight 1 it is a lower bound of the mean log likelihood."""
        posterior = self.encode(x)
        likelihood = self.decode(posterior.rsample()).log_prob(x)
        return (likelihood - weight * D.kl_divergence(posterior, self.prior)).mean()


def train(model: Autoencoder, data: torch.Tensor, epochs: int, batch: int = 128) -> list[float]:
    """Trains the model; returns each epoch's bound. The weight of the divergence grows slowly."""
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    history = []
    for epoch in range(epochs):
        weight, total = min(1.0, 2 * (epoch + 1) / epochs), 0.0
        for rows in torch.randperm(len(data)).split(batch):
            optimizer.zero_grad()
            loss = -model.bound(data[rows], weight)
            loss.backward()
            optimizer.step()
            total -= loss.item() * len(rows)
        history.append(total / len(data))
    return history


def draw(
    path: str,
    model: Autoencoder,
    data: torch.Tensor,
    digits: Any,
    history: list[float],
    side: int = 14,
) -> None:
    """Draws the bound, the manifold of images and the latent numbers of the data."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with torch.no_grad():
        levels = torch.linspace(0.03, 0.97, side)
        quantiles = D.Normal(0.0, 1.0).icdf(levels)
        grid = torch.cartesian_prod(-quantiles, quantiles)
        images = model.decode(grid).mean.view(side, side, 8, 8)
        manifold = images.permute(0, 2, 1, 3).reshape(side * 8, side * 8)
        places = model.encode(data).mean
    figure, axes = plt.subplots(1, 3, figsize=(14, 4.6), width_ratios=(2, 3, 3))
    axes[0].plot(history)
    axes[0].set(xlabel="epoch", title="bound of the log likelihood")
    axes[1].imshow(manifold, cmap="gray_r")
    axes[1].set(xticks=[], yticks=[], title="decoded from a grid of latent numbers")
    dots = axes[2].scatter(places[:, 1], places[:, 0], c=digits, s=5, cmap="tab10")
    axes[2].set(xlim=(-3, 3), ylim=(-3, 3), title="digits encoded")
    figure.colorbar(dots, ax=axes[2], ticks=range(10))
    figure.tight_layout()
    figure.savefig(path, dpi=100)


def main() -> None:
    """Trains, prints the results and draws the picture."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=80)
    parser.add_argument("--out", default=None)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    images, digits = load_digits(return_X_y=True)
    data = torch.tensor(images / 16, dtype=torch.float32)
    model = Autoencoder()
    history = train(model, data, options.epochs)
    with torch.no_grad():
        seen = model.decode(model.encode(data).mean).mean
        error = (seen - data).square().mean().sqrt()
        blind = (data.mean(0) - data).square().mean().sqrt()
    print(f"bound: {history[0]:.1f} at first, {history[-1]:.1f} at last")
    print(f"error of a pixel: {error.item():.3f}, by the mean image {blind.item():.3f}")
    if options.out:
        draw(options.out, model, data, digits, history)
        print("wrote", options.out)


if __name__ == "__main__":
    main()
