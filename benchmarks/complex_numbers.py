# SPDX-License-Identifier: BSD-3-Clause
"""Measures kernels for complex numbers."""

# mypy: ignore-errors
from __future__ import annotations

from .case import bench, group

group("complex", "Complex numbers (complex64)")

SIZES = (100_000, 4_000_000)


def pair(torch, n):
    """Returns two vectors of n numbers."""
    torch.manual_seed(0)
    return torch.randn(n, dtype=torch.complex64), torch.randn(n, dtype=torch.complex64)


@bench("complex", name="add", n=SIZES, target=1.0)
def add(torch, n):
    x, y = pair(torch, n)
    return "x + y", vars()


@bench("complex", name="mul", n=SIZES, target=1.0)
def mul(torch, n):
    x, y = pair(torch, n)
    return "x * y", vars()


@bench("complex", op=("add", "mul"), n=SIZES, target=0.9)
def backward_of(torch, op, n):
    x, y = (t.requires_grad_() for t in pair(torch, n))
    f, g = getattr(torch, op), torch.randn(n, dtype=torch.complex64)
    return "torch.autograd.grad(f(x, y), (x, y), g)", vars()


@bench("complex", name="exp", n=SIZES, target=1.0)
def exp(torch, n):
    x, _ = pair(torch, n)
    return "torch.exp(x)", vars()


@bench("complex", name="abs", n=SIZES, target=1.0)
def absolute(torch, n):
    x, _ = pair(torch, n)
    return "torch.abs(x)", vars()


@bench("complex", name="sum", n=SIZES, target=1.0)
def total(torch, n):
    x, _ = pair(torch, n)
    return "x.sum()", vars()


@bench("complex", name="matmul 256", dtype=("complex64", "complex128"), target=1.0)
def matmul(torch, dtype):
    torch.manual_seed(0)
    a = torch.randn(256, 256, dtype=getattr(torch, dtype))
    return "a @ a", vars()
