# SPDX-License-Identifier: BSD-3-Clause
"""Trains a network that tells two spirals apart, and saves it for predict.cpp."""

import math

import cograd as torch

torch.manual_seed(0)
turn = torch.linspace(0.05, 1, 200).repeat(2)
label = torch.arange(400).ge(200).float()
angle = 6 * turn + math.pi * label
x = 2 * turn[:, None] * torch.stack([angle.cos(), angle.sin()], 1)

model = torch.nn.Sequential(
    torch.nn.Linear(2, 32), torch.nn.Tanh(), torch.nn.Linear(32, 32), torch.nn.Tanh()
)
model.append(torch.nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(400):
    optimizer.zero_grad()
    z = model(x)[:, 0]
    loss = torch.nn.functional.binary_cross_entropy_with_logits(z, label)
    loss.backward()
    optimizer.step()
print(f"loss: {loss.item():.4f}")

with torch.no_grad():
    outputs = model(x)
contents = {"model": model.state_dict(), "x": x, "label": label.bool(), "outputs": outputs}
torch.save(contents, "spirals.safetensors")
