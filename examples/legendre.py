# SPDX-License-Identifier: BSD-3-Clause
"""Fits sin(x) by a + b * P3(c + d * x), where P3 is a Legendre polynomial and a custom Function.

The code between the two lines is a program written for torch; only its import was changed.
Afterwards, the program draws the fit into legendre.png.
Usage: python examples/legendre.py [--out FILE]
"""
# The program assumes that gradients exist, but type checkers think that they may be None:
# mypy: disable-error-code="operator"
# pyright: reportOptionalOperand=false

import argparse
import math
import time
from typing import Any

# ---------------------------------------------------------------------------------------------
import cograd as torch


class LegendrePolynomial3(torch.autograd.Function):
    """Computes P3(x) = (5 x^3 - 3 x) / 2."""

    @staticmethod
    def forward(ctx: Any, inputs: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(inputs)
        return 0.5 * (5 * inputs**3 - 3 * inputs)

    @staticmethod
    def backward(ctx: Any, grad_outputs: torch.Tensor) -> torch.Tensor:
        (inputs,) = ctx.saved_tensors
        return grad_outputs * 1.5 * (5 * inputs**2 - 1)


start = time.time()
dtype = torch.float
device = torch.device("cpu")
x = torch.linspace(-math.pi, math.pi, 2000, dtype=dtype, device=device)
y = torch.sin(x)
a = torch.full((), 0.0, dtype=dtype, device=device, requires_grad=True)
b = torch.full((), -1.0, dtype=dtype, device=device, requires_grad=True)
c = torch.full((), 0.0, dtype=dtype, device=device, requires_grad=True)
d = torch.full((), 0.3, dtype=dtype, device=device, requires_grad=True)
learning_rate = 5e-6
P3 = LegendrePolynomial3.apply
losses = []
for i in range(2000):
    y_pred = a + b * P3(c + d * x)
    loss = (y_pred - y).pow(2).sum()
    loss.backward()
    with torch.no_grad():
        a -= a.grad * learning_rate
        b -= b.grad * learning_rate
        c -= c.grad * learning_rate
        d -= d.grad * learning_rate
        a.grad, b.grad, c.grad, d.grad = None, None, None, None
    losses.append(loss.item())
    if i % 100 == 0:
        print(f"id: {i}, loss: {loss.item()}")
seconds = time.time() - start
print(f"{a.item()} + {b.item()} * P3({c.item()} + {d.item()} * x)")
print(f" totally costs {seconds} seconds.")
# ---------------------------------------------------------------------------------------------


def plot(path: str) -> None:
    """Draws the curve, the fit, the initial fit and the loss."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    grid = x.numpy()
    with torch.no_grad():
        fit = (a + b * P3(c + d * x)).numpy()
        first = (-P3(0.3 * x)).numpy()
    fig, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4), layout="constrained")
    left.plot(grid, y.numpy(), color="#1b1b1b", lw=2, label="sin(x)")
    left.plot(grid, first, color="#a8a8a8", lw=1.2, ls="--", label="before the first step")
    left.plot(grid, fit, color="#c8442f", lw=2, label="a + b P3(c + d x) after 2000 steps")
    left.fill_between(grid, y.numpy(), fit, color="#c8442f", alpha=0.15, lw=0)
    ticks = [-math.pi, -math.pi / 2, 0, math.pi / 2, math.pi]
    left.set_xticks(ticks, ["-\u03c0", "-\u03c0/2", "0", "\u03c0/2", "\u03c0"])
    left.set_title(
        f"a = {a.item():.3g}, b = {b.item():.3f}, c = {c.item():.3g}, d = {d.item():.3f}",
        fontsize=10,
    )
    left.legend(loc="upper left", frameon=False)
    left.set_ylim(-1.25, 1.75)
    right.plot(losses, color="#3b6ea5", lw=2)
    right.set_yscale("log")
    right.set_xlabel("step")
    right.set_ylabel("sum of squared errors, 2000 points")
    right.set_title(f"from {losses[0]:.0f} to {losses[-1]:.2f} in {seconds:.2f} s", fontsize=10)
    for ax in (left, right):
        ax.grid(color="#e4e4e4", lw=0.6)
        ax.spines[["top", "right"]].set_visible(False)
    fig.savefig(path, dpi=130)
    print(f"wrote {path}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="legendre.png")
    plot(parser.parse_args().out)
