# SPDX-License-Identifier: BSD-3-Clause
"""Matrix products."""

# mypy: ignore-errors
from __future__ import annotations

from .frame import scaling

for _n in (128, 256, 512, 1024, 2048):

    @scaling("products", name=f"mm {_n}", multiplications=_n**3)
    def mm(torch, n=_n):
        x, y = torch.randn(n, n), torch.randn(n, n)
        return "x @ y", vars()


@scaling("products", name="mm 1024 float64", multiplications=1024**3, double=True)
def mm_double(torch):
    x, y = (torch.randn(1024, 1024, dtype=torch.float64) for _ in range(2))
    return "x @ y", vars()


@scaling("products", name="linear 64x784x256", multiplications=64 * 784 * 256)
def linear(torch):
    x, w, b = torch.randn(64, 784), torch.randn(256, 784), torch.randn(256)
    f = torch.nn.functional.linear
    return "f(x, w, b)", vars()


@scaling("products", name="bmm 32x128x64x128", multiplications=32 * 128 * 64 * 128)
def bmm(torch):
    x, y = torch.randn(32, 128, 64), torch.randn(32, 64, 128)
    return "x @ y", vars()
