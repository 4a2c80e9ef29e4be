# SPDX-License-Identifier: BSD-3-Clause
"""Trains an ensemble of networks at once: how certain is a fit where there is no data?

Ten small networks learn sin(x) from the same points. Their parameters are stacked, and vmap turns
the training step of one network into the step of all. Usage: python examples/ensemble.py
"""

import math

import cograd as torch
from cograd import nn
from cograd.func import functional_call, grad, stack_module_state, vmap

torch.manual_seed(0)
x = torch.cat([torch.rand(32, 1) * 2 - math.pi, torch.rand(32, 1) * 2 + 1])  # a gap from -1.1 to 1
y = x.sin()


def network() -> nn.Module:
    """Creates one network."""
    return nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))


models = [network() for _ in range(10)]
params, buffers = stack_module_state(models)
params = {name: p.detach() for name, p in params.items()}


def predict(params: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """Returns the prediction of one network for x."""
    return functional_call(models[0], (params, {}), (x,))


def loss(params: dict[str, torch.Tensor]) -> torch.Tensor:
    """Returns the loss of one network."""
    return ((predict(params, x) - y) ** 2).mean()


step = vmap(grad(loss))
speed = {name: torch.zeros_like(p) for name, p in params.items()}
for _ in range(1500):
    gradients = step(params)
    for name, p in params.items():
        speed[name] = 0.9 * speed[name] - 0.02 * gradients[name]
        params[name] = p + speed[name]

print(f"losses: {vmap(loss)(params).max().item():.1e} at most")
places = torch.tensor([[-2.0], [2.0], [0.0], [6.0]])
spread = vmap(predict, (0, None))(params, places).std(0)
for place, s in zip(places, spread, strict=True):
    print(f"spread at {place.item():4.1f}: {s.item():.3f}")
