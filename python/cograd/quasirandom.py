# SPDX-License-Identifier: BSD-3-Clause
"""SobolEngine: points that fill a cube evenly. The direction numbers are SciPy's."""

from __future__ import annotations

import operator
from typing import Any

import cograd
from cograd import Tensor

__all__ = ["SobolEngine"]


class SobolEngine:
    """The Sobol sequence in [0, 1)^dimension.

    The points are torch's; scrambled points are torch's for the same ``seed`` if
    ``set_rng("torch")`` is active.

    Args:
        dimension: 1 to 21201.
        scramble: whether the digits are mixed and shifted at random.
        seed: seed of the scrambling; None samples from the default generator.

    Raises:
        ValueError: ``dimension`` is out of range.
        ImportError: SciPy is not installed.
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(
                f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}], "
                f"got {dimension}"
            )
        try:
            from scipy.stats import qmc  # type: ignore[import-untyped, unused-ignore]
        except ImportError as error:
            raise ImportError("quasirandom.SobolEngine needs SciPy: pip install scipy") from error
        self.dimension = dimension
        self.scramble = scramble
        self.seed = seed
        self.num_generated = 0
        self._plain = qmc.Sobol(dimension, scramble=False, bits=self.MAXBIT)
        self._powers = 2 ** cograd.arange(self.MAXBIT)
        self._mix: Tensor | None = None
        if scramble:
            generator = None if seed is None else cograd.Generator().manual_seed(seed)
            shape = (dimension, self.MAXBIT)
            shift = cograd.randint(2, shape, generator=generator)
            self._shift = (shift * self._powers).sum(1)
            mix = cograd.randint(2, (*shape, self.MAXBIT), generator=generator).tril()
            mix.diagonal(0, -2, -1).fill_(1)
            self._mix = mix.double()

    def _integers(self, n: int) -> Tensor:
        """Returns the next points times 2**MAXBIT."""
        # First a single one: SciPy warns if the first batch's size is not a power of 2.
        parts = [k for k in ((min(n, 1), n - 1) if self.num_generated == 0 else (n,)) if k > 0]
        rows = [cograd.from_numpy(self._plain.random(k)) for k in parts]
        self.num_generated += n
        points = (cograd.cat(rows) * 2**self.MAXBIT).long() if rows else self._none()
        if self._mix is None or n == 0:
            return points
        digits = (points.unsqueeze(-1) // self._powers.flip(0)) % 2  # most significant first
        # One matrix of 0 and 1 per dim, in float64: sums of 30 digits are exact.
        mixed = (self._mix @ digits.double().permute(1, 2, 0)).permute(2, 0, 1).long() % 2
        return (mixed * self._powers.flip(0)).sum(-1) ^ self._shift

    def _none(self) -> Tensor:
        return cograd.empty((0, self.dimension), dtype=cograd.int64)

    def _count(self, op: str, n: int) -> int:
        """Returns ``n``; checks it before any point is generated."""
        n = operator.index(n)
        if n < 0:
            raise RuntimeError(f"SobolEngine.{op}(): n must be at least 0, got {n}")
        if self.num_generated + n > 2**self.MAXBIT:
            raise ValueError(
                f"SobolEngine.{op}(): there are 2**{self.MAXBIT} points, n is {n} and "
                f"{self.num_generated} have been generated"
            )
        return n

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """Returns the next ``n`` points, (n, dimension), in ``dtype`` or the default dtype.

        Raises:
            NotImplementedError: the dtype is neither float32 nor float64.
            RuntimeError: ``n`` is negative.
            ValueError: fewer than ``n`` points are left.
        """
        n = self._count("draw", n)
        dtype = cograd.get_default_dtype() if dtype is None else dtype
        start = self.num_generated == 0
        if dtype not in (cograd.float32, cograd.float64) and not (start and n == 1):
            raise NotImplementedError(
                f"SobolEngine.draw(): dtype must be float32 or float64, got {dtype}"
            )
        integers = self._integers(n)
        result = (integers.double() / 2**self.MAXBIT).to(dtype)
        if start and n > 0:  # rounded to the default dtype first, as in torch
            result[0] = (integers[0].double() / 2**self.MAXBIT).to(cograd.get_default_dtype())
        return result if out is None else out.resize_as_(result).copy_(result)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """Returns the next 2**m points. ValueError if the total would not be a power of 2."""
        total = self.num_generated + 2**m
        if total & (total - 1):
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: "
                f"n={self.num_generated}+2**{m}={total}. Use draw() if that is wanted."
            )
        return self.draw(2**m, out, dtype)

    def reset(self) -> SobolEngine:
        """Goes back to the first point; keeps the scrambling."""
        self._plain.reset()
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Skips ``n`` points. Raises RuntimeError if ``n`` is negative."""
        n = self._count("fast_forward", n)
        if n > 0:  # SciPy's fast_forward(0) fails on a new engine
            self._plain.fast_forward(n)
            self.num_generated += n
        return self

    def __repr__(self) -> str:
        text = f"dimension={self.dimension}" + (", scramble=True" if self.scramble else "")
        text += "" if self.seed is None else f", seed={self.seed}"
        return f"SobolEngine({text})"
