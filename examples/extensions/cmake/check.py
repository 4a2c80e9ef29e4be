# SPDX-License-Identifier: BSD-3-Clause
"""Checks the installed package: gradients, and finds rates from a trajectory."""

from rk4 import rk4

import cograd as torch
from cograd.autograd import gradcheck

y = (torch.rand(3, 2, dtype=torch.float64) + 0.5).requires_grad_()
rates = torch.tensor([1.1, 0.4, 0.4, 0.1], dtype=torch.float64, requires_grad=True)
assert gradcheck(lambda y, p: rk4(y, p, 0.1, steps=5), (y, rates))

start = torch.tensor([[10.0, 5.0]], dtype=torch.float64)
seen = rk4(start, rates.detach(), 0.05, steps=100)
guess = torch.tensor([1.0, 0.5, 0.5, 0.12], dtype=torch.float64, requires_grad=True)
optimizer = torch.optim.Adam([guess], lr=0.01)
for _ in range(600):
    optimizer.zero_grad()
    ((rk4(start, guess, 0.05, steps=100) - seen) ** 2).mean().backward()
    optimizer.step()
print("rates:", [round(v, 3) for v in guess.tolist()])
assert torch.allclose(guess, rates, atol=0.02)
print("rk4: ok")
