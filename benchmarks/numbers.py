# SPDX-License-Identifier: BSD-3-Clause
"""Measures special functions and results of decompositions."""

# mypy: ignore-errors
from __future__ import annotations

from .case import bench, group

group("special", "Special functions (float32, 100000 elements)")

N = (100_000,)


def positive(torch, n):
    """Returns n numbers in (0.1, 10.1)."""
    torch.manual_seed(0)
    return torch.rand(n) * 10 + 0.1


def add_case(name, code):
    """Registers a case with one argument."""

    @bench("special", name=name, n=N, target=1.0)
    def case(torch, n):
        x = positive(torch, n)
        p = x / 11
        return code, vars()

    return case


for _name in ("i0", "i0e", "i1e", "bessel_j0", "bessel_y1", "modified_bessel_k0", "airy_ai",
              "erfcx", "log_ndtr", "entr", "digamma"):  # fmt: skip
    add_case(_name, f"torch.special.{_name}(x)")
add_case("ndtri", "torch.special.ndtri(p)")
add_case("gammainc", "torch.special.gammainc(x, x)")
add_case("zeta", "torch.special.zeta(x + 1, x)")
add_case("legendre_polynomial_p", "torch.special.legendre_polynomial_p(p, 8)")
