# SPDX-License-Identifier: BSD-3-Clause
"""Writes csrc/kernels/elementwise/special_tables.h: piecewise polynomials of the special functions.

Needs mpmath and takes minutes; run it when you add a function. Each function is interpolated at
Chebyshev nodes on equal pieces of its interval, and stored as powers of the piece's own variable
in [-1, 1]. The coefficients of the incomplete gamma functions' uniform expansion follow from the
recurrence of N. M. Temme, "The asymptotic expansion of the incomplete gamma functions" (1979),
DLMF 8.12.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import mpmath as mp

TARGET = Path(__file__).resolve().parent.parent / "csrc" / "kernels" / "special_tables.h"
mp.mp.dps = 60
Function = Callable[[mp.mpf], mp.mpf]


def powers(f: Function, low: mp.mpf, high: mp.mpf, degree: int) -> list[mp.mpf]:
    """Returns coefficients of powers of u in [-1, 1], for the interval [low, high]."""
    n = degree + 1
    middle, half = (low + high) / 2, (high - low) / 2
    angles = [mp.pi * (2 * k + 1) / (2 * n) for k in range(n)]
    values = [f(middle + half * mp.cos(a)) for a in angles]
    chebyshev = [
        2 * mp.fsum(v * mp.cos(j * a) for v, a in zip(values, angles, strict=True)) / n
        for j in range(n)
    ]
    chebyshev[0] /= 2
    result = [mp.mpf(0)] * n
    before, now = [mp.mpf(1)], [mp.mpf(0), mp.mpf(1)]
    for c in chebyshev:
        for i, b in enumerate(before):
            result[i] += c * b
        after = [mp.mpf(0), *(2 * b for b in now)]
        for i, b in enumerate(before):
            after[i] -= b
        before, now = now, after
    return result


def table(f: Function, low: float, high: float, relative: bool = True) -> tuple[int, list]:
    """Returns the fewest pieces of degree 15 or less within 2e-17 of f, and their polynomials."""
    low, high = mp.mpf(low), mp.mpf(high)
    for pieces in (1, 2, 3, 4, 6, 8, 12, 16):
        width = (high - low) / pieces
        bounds = [(low + i * width, low + (i + 1) * width) for i in range(pieces)]
        for degree in (9, 11, 13, 15):
            fits = [powers(f, a, b, degree) for a, b in bounds[:1]]
            if not all(close(f, *b, p, relative) for b, p in zip(bounds[:1], fits, strict=True)):
                continue
            fits = [powers(f, a, b, degree) for a, b in bounds]
            if all(close(f, *b, p, relative) for b, p in zip(bounds, fits, strict=True)):
                return degree, fits
    raise ValueError("no fit")


def close(f: Function, low: mp.mpf, high: mp.mpf, fit: list[mp.mpf], relative: bool) -> bool:
    """Returns True if the polynomial is within 3e-17 of f between its nodes."""
    for k in range(9):
        u = mp.cos(mp.pi * (k + mp.mpf(1) / 3) / 9)
        exact = f((low + high) / 2 + (high - low) / 2 * u)
        error = abs(mp.polyval(fit[::-1], u) - exact)
        if error > mp.mpf("3e-17") * (abs(exact) if relative else 1):
            return False
    return True


def hankel(order: int, t: mp.mpf) -> tuple[mp.mpf, mp.mpf]:
    """Returns P and Q of DLMF 10.18 at x = 8 / sqrt(t), Q over 8 / x."""
    x = 8 / mp.sqrt(t)
    chi = x - mp.pi / 4 - order * mp.pi / 2
    j, y, scale = mp.besselj(order, x), mp.bessely(order, x), mp.sqrt(mp.pi * x / 2)
    p = scale * (j * mp.cos(chi) + y * mp.sin(chi))
    q = scale * (y * mp.cos(chi) - j * mp.sin(chi))
    return p, q * x / 8


def airy(t: mp.mpf) -> tuple[mp.mpf, mp.mpf]:
    """Returns modulus parts of Ai and zeta * Bi at -z, t = 1 / zeta^2 (DLMF 9.7.9)."""
    zeta = 1 / mp.sqrt(t)
    z = (3 * zeta / 2) ** (mp.mpf(2) / 3)
    chi = zeta - mp.pi / 4
    a, b, scale = mp.airyai(-z), mp.airybi(-z), mp.sqrt(mp.pi) * mp.sqrt(mp.sqrt(z))
    c, s = mp.cos(chi), mp.sin(chi)
    return scale * (c * a - s * b), scale * (s * a + c * b) * zeta


def k_rest(order: int, t: mp.mpf) -> mp.mpf:
    """Returns the analytic parts of K0 and K1 at 0, functions of t = x^2 (DLMF 10.31)."""
    x = mp.sqrt(t)
    if order == 0:
        return mp.besselk(0, x) + mp.log(x / 2) * mp.besseli(0, x)
    return (mp.besselk(1, x) - mp.log(x / 2) * mp.besseli(1, x) - 1 / x) / x


def y_rest(order: int, t: mp.mpf) -> mp.mpf:
    """Returns the analytic parts of Y0 and Y1 at 0, functions of t = x^2 (DLMF 10.8)."""
    x = mp.sqrt(t)
    if order == 0:
        return mp.bessely(0, x) - 2 / mp.pi * mp.log(x / 2) * mp.besselj(0, x)
    log_part = mp.log(x / 2) * mp.besselj(1, x) - 1 / x
    return (mp.bessely(1, x) - 2 / mp.pi * log_part) / x


def scaled(bessel: Callable[..., mp.mpf], order: int, sign: int) -> Function:
    """Returns a modified Bessel function times sqrt(x) exp(sign x), a function of t = 1 / x."""
    return lambda t: mp.exp(sign / t) * bessel(order, 1 / t) / mp.sqrt(t)


def airy_decay(t: mp.mpf) -> mp.mpf:
    """Returns Ai over its leading decay (DLMF 9.7.5), a function of t = 1 / zeta."""
    zeta = 1 / t
    x = (3 * zeta / 2) ** (mp.mpf(2) / 3)
    return mp.airyai(x) * mp.exp(zeta) * mp.sqrt(mp.sqrt(x))


def erfcx(t: mp.mpf) -> mp.mpf:
    """Returns exp(x^2) erfc(x) / t, a function of t = 1 / (1 + x)."""
    x = 1 / t - 1
    return mp.exp(x * x) * mp.erfc(x) / t


# Name, function of t, interval of t, True if the error is relative to the value.
TABLES: list[tuple[str, Function, float, float, bool]] = [
    ("kJ0", lambda t: mp.besselj(0, mp.sqrt(t)), 0, 64, False),
    ("kJ1", lambda t: mp.besselj(1, mp.sqrt(t)) / mp.sqrt(t), 0, 64, False),
    ("kY0", lambda t: y_rest(0, t), 0, 64, False),
    ("kY1", lambda t: y_rest(1, t), 0, 64, False),
    ("kP0", lambda t: hankel(0, t)[0], 0, 1, True),
    ("kQ0", lambda t: hankel(0, t)[1], 0, 1, False),
    ("kP1", lambda t: hankel(1, t)[0], 0, 1, True),
    ("kQ1", lambda t: hankel(1, t)[1], 0, 1, False),
    ("kI0e", lambda x: mp.exp(-x) * mp.besseli(0, x), 0, 8, True),
    ("kI1e", lambda x: mp.exp(-x) * mp.besseli(1, x) / x, 0, 8, True),
    ("kI0Far", scaled(mp.besseli, 0, -1), 0, 0.125, True),
    ("kI1Far", scaled(mp.besseli, 1, -1), 0, 0.125, True),
    ("kK0", lambda t: k_rest(0, t), 0, 1, False),
    ("kK1", lambda t: k_rest(1, t), 0, 1, False),
    ("kK0Far", scaled(mp.besselk, 0, 1), 0, 1, True),
    ("kK1Far", scaled(mp.besselk, 1, 1), 0, 1, True),
    ("kAiryNear", mp.airyai, -4, 1, False),
    ("kAiryDecay", airy_decay, 0, 1.5, True),
    ("kAiryCos", lambda t: airy(t)[0], 0, 0.0375, False),
    ("kAirySin", lambda t: airy(t)[1], 0, 0.0375, False),
    ("kErfcx", erfcx, 0, 1, True),
    ("kLogGamma1p", lambda a: mp.loggamma(1 + a) / a, 0, 1, False),
]


def stirling(count: int) -> list[mp.mpf]:
    """Returns g of Gamma(a) ~ sqrt(2 pi / a) (a / e)^a (1 + g_1 / a + ...), DLMF 5.11.3."""
    log_terms = [mp.mpf(0)] * (count + 1)
    for k in range(1, count // 2 + 2):
        if 2 * k - 1 <= count:
            log_terms[2 * k - 1] = mp.bernoulli(2 * k) / (2 * k * (2 * k - 1))
    g = [mp.mpf(1)]
    for n in range(1, count + 1):
        g.append(mp.fsum(j * log_terms[j] * g[n - j] for j in range(1, n + 1)) / n)
    return g


def temme(orders: int, terms: int) -> list[list[mp.mpf]]:
    """Returns Taylor coefficients of c_k = c_(k-1)' / eta + (-1)^k g_k / mu in eta (DLMF 8.12)."""
    n = terms + 2 * orders + 2
    # mu as a series of eta: eta = mu - ... solves eta eta' ... = mu mu' / (1 + mu).
    mu = [mp.mpf(0), mp.mpf(1)]
    for i in range(2, n + 2):  # mu' mu = eta (1 + mu): coefficient of eta^i
        known = mp.fsum(j * mu[j] * mu[i + 1 - j] for j in range(2, i))
        mu.append((mu[i - 1] - known) / (i + 1))
    shifted = mu[1:]  # mu / eta
    inverse = [1 / shifted[0]]  # eta / mu
    for i in range(1, n):
        inverse.append(-mp.fsum(shifted[j] * inverse[i - j] for j in range(1, i + 1)) / shifted[0])
    g = stirling(orders)
    # c_0 = 1 / mu - 1 / eta; each c_k starts at eta^0.
    series = [inverse[1:]]
    for k in range(1, orders):
        previous = series[-1]
        derivative = [(i + 1) * previous[i + 1] for i in range(len(previous) - 1)]
        factor = (-1) ** k * g[k]
        # The terms in 1 / eta cancel: derivative[0] + factor * inverse[0] = 0.
        assert abs(derivative[0] + factor * inverse[0]) < mp.mpf(10) ** -40, k
        series.append([derivative[i] + factor * inverse[i] for i in range(1, len(derivative))])
    return [s[:terms] for s in series]


def numbers(name: str, values: list[mp.mpf]) -> list[str]:
    """Returns the lines of an array of doubles."""
    lines = [f"inline constexpr double {name}[] = {{"]
    row = "   "
    for v in values:
        text = f" {float(v)!r},"
        if len(row) + len(text) > 99:
            lines.append(row)
            row = "   "
        row += text
    return [*lines, row, "};"]


def main() -> None:
    """Writes the file."""
    lines = [
        "// SPDX-License-Identifier: BSD-3-Clause",
        "// Made by tools/gen_special_tables.py: powers of u in [-1, 1], piece after piece.",
        "#pragma once",
        '#include "kernels/elementwise/special_piecewise.h"',
        "",
        "namespace cograd::kernels::tables {",
        "// clang-format off",
        "",
    ]
    for name, f, low, high, relative in TABLES:
        degree, fits = table(f, low, high, relative)
        print(name, "degree", degree, "pieces", len(fits), flush=True)
        lines += numbers(f"{name}Values", [c for fit in fits for c in fit])
        scale = repr(len(fits) / (high - low))
        lines.append(
            f"inline constexpr Piecewise<{degree}> {name}{{{name}Values, {len(fits)}, "
            f"{float(low)!r}, {scale}}};"
        )
    lines += ["", "// The coefficients of eta^n in c_k, and the index at which each c_k begins."]
    kept: list[mp.mpf] = []
    starts = [0]
    for k, row in enumerate(temme(16, 22)):
        size = [abs(c) * mp.mpf("0.37") ** n * mp.mpf(20) ** -k for n, c in enumerate(row)]
        last = max((n for n, s in enumerate(size) if s > mp.mpf("1e-18")), default=-1)
        if last < 0:
            break
        kept += row[: last + 1]
        starts.append(len(kept))
    lines += numbers("kTemmeValues", kept)
    lines.append(f"inline constexpr int kTemmeStarts[] = {{{', '.join(map(str, starts))}}};")
    lines += ["", "// clang-format on", "}  // namespace cograd::kernels::tables", ""]
    TARGET.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
