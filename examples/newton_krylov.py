# SPDX-License-Identifier: BSD-3-Clause
"""Runs Newton's method on 2000 variables with Hessian-vector products, without a Hessian.

The Rosenbrock function's valley is too narrow for steepest descent. Newton's steps solve H p = -g
by conjugate gradients, which only need products H v: the tangent of the gradient along v.
Usage: python examples/newton_krylov.py
"""

from collections.abc import Callable

import cograd as torch
from cograd.func import grad, linearize

Function = Callable[[torch.Tensor], torch.Tensor]


def rosenbrock(x: torch.Tensor) -> torch.Tensor:
    """Computes the Rosenbrock function, which is zero where all x are one."""
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def newton_direction(
    times_hessian: Function, gradient: torch.Tensor, steps: int = 200
) -> torch.Tensor:
    """Solves H p = -g by conjugate gradients; stops if H is not positive along the direction."""
    p, r = torch.zeros_like(gradient), -gradient
    d, size = r, r @ r
    goal = 1e-2 * size * min(1.0, size.item() ** 0.5)
    for _ in range(steps):
        along = times_hessian(d)
        curvature = d @ along
        if curvature <= 0:
            return p if p.any() else -gradient
        step = size / curvature
        p, r = p + step * d, r - step * along
        before, size = size, r @ r
        if size < goal:
            break
        d = r + size / before * d
    return p


def minimise(f: Function, x: torch.Tensor, steps: int = 500) -> tuple[torch.Tensor, int]:
    """Makes Newton steps, shortened until f decreases; returns the minimum and the step count."""
    for k in range(steps):
        gradient, times_hessian = linearize(grad(f), x)
        if gradient.norm() < 1e-8:
            return x, k
        p, rate, value = newton_direction(times_hessian, gradient), 1.0, f(x)
        while f(x + rate * p) > value + 1e-4 * rate * (gradient @ p):
            rate /= 2
        x = x + rate * p
    return x, steps


x = torch.full((2000,), 0.5, dtype=torch.float64)
x, steps = minimise(rosenbrock, x)
print(f"{steps} Newton steps, farthest from the minimum: {(x - 1).abs().max().item():.1e}")
