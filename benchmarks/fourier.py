# SPDX-License-Identifier: BSD-3-Clause
"""Measures Fourier transforms."""

# mypy: ignore-errors
from __future__ import annotations

from .case import bench, group

group("fft", "Fourier transforms", each=0.9)


def signal(torch, *shape, dtype="complex64"):
    """Returns random numbers."""
    torch.manual_seed(0)
    return torch.randn(*shape, dtype=getattr(torch, dtype))


@bench("fft", n=(8, 1024, 1 << 16, 1 << 20, 100_003))
def fft(torch, n):
    x = signal(torch, n)
    return "torch.fft.fft(x)", vars()


@bench("fft", name="fft 1000 x 1024", dtype=("complex64", "complex128"))
def batch(torch, dtype):
    x = signal(torch, 1000, 1024, dtype=dtype)
    return "torch.fft.fft(x)", vars()


@bench("fft", name="fft 20000 x 16")
def short_lines(torch):
    x = signal(torch, 20000, 16)
    return "torch.fft.fft(x)", vars()


@bench("fft", name="fft2 1024 x 1024")
def two(torch):
    x = signal(torch, 1024, 1024)
    return "torch.fft.fft2(x)", vars()


@bench("fft", name="fftn 128 x 128 x 128")
def three(torch):
    x = signal(torch, 128, 128, 128)
    return "torch.fft.fftn(x)", vars()


@bench("fft", n=(8, 1 << 20))
def rfft(torch, n):
    x = signal(torch, n, dtype="float32")
    return "torch.fft.rfft(x)", vars()


@bench("fft", name="rfft 1000 x 1024")
def real_batch(torch):
    x = signal(torch, 1000, 1024, dtype="float32")
    return "torch.fft.rfft(x)", vars()


@bench("fft", name="irfft 1000 x 1024")
def inverse(torch):
    x = signal(torch, 1000, 513)
    return "torch.fft.irfft(x)", vars()


@bench("fft", name="rfft and backward 1000 x 1024")
def backward(torch):
    x = signal(torch, 1000, 1024, dtype="float32").requires_grad_()
    g = signal(torch, 1000, 513)
    return "torch.fft.rfft(x).backward(g)", vars()
