# SPDX-License-Identifier: BSD-3-Clause
"""Measures Fourier transforms."""

# mypy: ignore-errors
from __future__ import annotations

from .case import bench, group

group("fft", "Fourier transforms", each=0.9)

SINGLE, DOUBLE = ("float32", "complex64"), ("float64", "complex128")
# The function, the shapes of its input, and the dtypes of its real numbers and bins.
ROWS = [
    ("fft", [(8,), (1024,), (1 << 16,), (1 << 20,), (100_003,)], SINGLE),
    ("fft", [(1000, 1024), (20000, 16)], SINGLE),
    ("fft", [(1000, 1024), (20000, 16)], DOUBLE),
    ("fft2", [(1024, 1024)], SINGLE),
    ("fft2", [(1024, 1024)], DOUBLE),
    ("fftn", [(128, 128, 128)], SINGLE),
    ("rfft", [(8,), (1 << 20,), (1000, 1024), (20000, 16)], SINGLE),
    ("rfft", [(1000, 1024)], DOUBLE),
    ("irfft", [(1000, 513), (20000, 9)], SINGLE),
    ("irfft", [(1000, 513)], DOUBLE),
    ("rfft2", [(1024, 1024)], SINGLE),
    ("irfft2", [(1024, 513)], SINGLE),
]


def signal(torch, shape, dtype):
    """Returns random numbers."""
    torch.manual_seed(0)
    return torch.randn(*shape, dtype=getattr(torch, dtype))


def measure(function, shape, dtypes):
    """Registers the benchmark of a function of torch.fft."""
    dtype = dtypes[not function.startswith("r")]
    label = f"{function} {' x '.join(map(str, shape))}"

    @bench("fft", name=label if dtypes is SINGLE else f"{label} {dtype}")
    def transform(torch):
        x = signal(torch, shape, dtype)
        return f"torch.fft.{function}(x)", vars()


for function, shapes, dtypes in ROWS:
    for shape in shapes:
        measure(function, shape, dtypes)


@bench("fft", name="rfft and backward 1000 x 1024")
def backward(torch):
    x = signal(torch, (1000, 1024), "float32").requires_grad_()
    g = signal(torch, (1000, 513), "complex64")
    return "torch.fft.rfft(x).backward(g)", vars()
