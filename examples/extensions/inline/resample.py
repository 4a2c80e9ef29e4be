# SPDX-License-Identifier: BSD-3-Clause
"""Builds the resampler with load_inline, checks its gradients, and finds a rotation with it."""

import math
from pathlib import Path

import cograd as torch
from cograd.autograd import gradcheck
from cograd.utils.cpp_extension import load_inline

resampler = load_inline(
    "resampler", (Path(__file__).parent / "resample.cpp").read_text(), functions=["Resample"]
)

image = torch.randn(2, 5, 6, dtype=torch.float64, requires_grad=True)
points = (torch.rand(7, 2, dtype=torch.float64) * 7 - 1).requires_grad_()
assert gradcheck(resampler.Resample, (image, points))
print("gradients: ok")

# Rotates a picture by 0.3 rad and finds the angle by gradient descent.
n = 32
axis = torch.linspace(-1, 1, n)
y, x = axis.reshape(n, 1), axis.reshape(1, n)
picture = torch.exp(-8 * ((x - 0.3) ** 2 + 0.2 * (y + 0.1) ** 2)).reshape(1, n, n)
grid = torch.stack([(y + 0 * x).reshape(-1), (x + 0 * y).reshape(-1)], dim=1)


def turned(angle: torch.Tensor) -> torch.Tensor:
    """Returns the picture rotated by an angle, [1, n * n]."""
    c, s = torch.cos(angle), torch.sin(angle)
    rows = c * grid[:, 0] + s * grid[:, 1]
    columns = c * grid[:, 1] - s * grid[:, 0]
    return resampler.Resample(picture, (torch.stack([rows, columns], dim=1) + 1) * (n - 1) / 2)


target = turned(torch.tensor(0.3))
angle = torch.zeros((), requires_grad=True)
optimizer = torch.optim.Adam([angle], lr=0.02)
for _ in range(120):
    optimizer.zero_grad()
    loss = ((turned(angle) - target) ** 2).sum()
    loss.backward()
    optimizer.step()
print(f"angle: {angle.item():.3f}, expected 0.300")
assert math.isclose(angle.item(), 0.3, abs_tol=5e-3)
