# SPDX-License-Identifier: BSD-3-Clause
"""Builds soft_dtw.c, checks its gradient, and fits one sequence to another despite a delay."""

from pathlib import Path

import cograd as torch
from cograd.autograd import gradcheck
from cograd.utils.cpp_extension import load

soft_dtw = load("soft_dtw", Path(__file__).parent / "soft_dtw.c", extra_ldflags=["-lm"]).soft_dtw


def distance(a, b, gamma=0.01):
    """Returns the soft-DTW of [n] and [m], with squared differences as costs."""
    return soft_dtw((a.unsqueeze(1) - b.unsqueeze(0)) ** 2, gamma)


cost = torch.rand(4, 6, dtype=torch.float64, requires_grad=True)
assert gradcheck(lambda c: soft_dtw(c, 0.5), (cost,))
assert gradcheck(lambda c: soft_dtw(c.t(), 0.5), (cost,))

t = torch.linspace(0, 6, 40, dtype=torch.float64)
wave, late = torch.sin(t), torch.sin(t - 0.7)
assert distance(wave, late) < ((wave - late) ** 2).sum()
fit = torch.zeros(40, dtype=torch.float64, requires_grad=True)
optimizer = torch.optim.Adam([fit], lr=0.1)
before = distance(fit, wave).item()
for _ in range(100):
    optimizer.zero_grad()
    distance(fit, wave).backward()
    optimizer.step()
after = distance(fit, wave).item()
print(f"distance: {before:.3f} to {after:.3f}")
assert after < 0.05 * before
print("soft_dtw: ok")
