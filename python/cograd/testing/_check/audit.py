# SPDX-License-Identifier: BSD-3-Clause
"""One audit: the subject, the options, and the runs that the checks share."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import cograd
from cograd import Tensor

from .report import Fault, Inapplicable
from .subject import Subject, array, element_text

__all__ = ["Audit", "Options", "raised"]

_MAX_ELEMENTS = 128  # elements of one input; numerical derivatives of larger ones are sampled
_MAX_SEEDS = 64  # elements of one output; larger ones get random combinations


@dataclass
class Options:
    """The tolerances and limits of one audit; see ``check``."""

    eps: float | None
    atol: float
    rtol: float
    nondet_tol: float
    iterations: int
    second_order: bool
    may_alias: bool
    dtypes: tuple[Any, ...]
    seed: int


def raised(error: BaseException) -> str:
    """Formats an exception: 'RuntimeError: first line of the message'."""
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0][:300]}" if text else type(error).__name__


@dataclass
class Rows:
    """Numerical derivatives with respect to some elements of one tensor.

    Attributes:
        elements: flat indices of the elements.
        values: for each output a matrix (len(elements), output.numel()).
    """

    elements: list[int]
    values: list[Any]


class Audit:
    """State that checks share: the subject, inputs of the right dtype, gradients, references."""

    def __init__(self, subject: Subject, options: Options) -> None:
        self.subject = subject
        self.options = options
        self.dtype: Any = None  # float64, or None if the callable rejects it
        self.coarse = False  # True if inputs or outputs have a lower precision
        self.random = cograd.Generator()
        self.random.manual_seed(options.seed)
        self.choose = np.random.default_rng(options.seed)

    # ------------------------------------------------------------------ runs

    @property
    def tight(self) -> tuple[float, float]:
        """Rtol, and atol relative to the largest value, for two runs that may round differently."""
        return (1e-3, 1e-4) if self.coarse else (1e-9, 1e-11)

    def fresh(self, requires: Iterable[int] | None = None, shift: float = 0.0) -> list[Any]:
        """Returns inputs in the dtype of the gradient checks."""
        return self.subject.fresh(self.dtype, requires, shift)

    def targets(self, leaves: Sequence[Any]) -> list[Tensor]:
        """Returns the differentiated inputs."""
        return [leaves[i] for i in self.subject.targets]

    def draw(self, like: Tensor, batch: tuple[int, ...] = ()) -> Tensor:
        """Samples random values in [-1, 1], like a tensor, or like a batch of such tensors."""
        values = cograd.rand(
            (*batch, *like.shape), dtype=cograd.float64, generator=self.random, device="cpu"
        )
        return (values * 2 - 1).to(like.device, like.dtype)

    def seeds(self, outputs: Sequence[Tensor]) -> list[Tensor | None]:
        """Returns a random gradient for each output that requires grad."""
        return [self.draw(o) if o.requires_grad else None for o in outputs]

    def gradients(
        self,
        outputs: Sequence[Tensor],
        inputs: Sequence[Tensor],
        seeds: Sequence[Tensor | None],
        **options: Any,
    ) -> list[Tensor | None]:
        """Returns gradients of the outputs that have a seed; None if there is none."""
        pairs = [(o, s) for o, s in zip(outputs, seeds, strict=True) if s is not None]
        if not pairs or not inputs:
            return [None] * len(inputs)
        grads = cograd.autograd.grad(
            [pair[0] for pair in pairs],
            list(inputs),
            [pair[1] for pair in pairs],
            allow_unused=True,
            **options,
        )
        return list(grads)

    def arrays(self, grads: Sequence[Tensor | None], inputs: Sequence[Tensor]) -> list[Any]:
        """Returns the gradients as arrays, zeros for None."""
        return [
            np.zeros(tuple(t.shape)) if g is None else array(g)
            for g, t in zip(grads, inputs, strict=True)
        ]

    def need_gradient(self) -> None:
        """Raises Inapplicable if nothing can be differentiated."""
        if not self.subject.targets:
            raise Inapplicable("no floating-point tensor among the arguments")
        if not any(o.requires_grad for o in self.subject.run(self.fresh())):
            raise Inapplicable("no output requires grad")

    @property
    def reference(self) -> tuple[list[Any], list[Tensor | None], list[Any]]:
        """Outputs, seeds and gradients of a plain run: contiguous, all require grad, no graph.

        The seeds are copies: a backward that writes them affects only one check.
        """
        values, seeds, grads = self._reference
        return values, copies(seeds), grads

    @cached_property
    def _reference(self) -> tuple[list[Any], list[Tensor | None], list[Any]]:
        self.need_gradient()
        leaves = self.fresh()
        outputs = self.subject.run(leaves)
        seeds = self.seeds(outputs)
        values = [array(o) for o in outputs]
        targets = self.targets(leaves)
        grads = self.gradients(outputs, targets, copies(seeds))
        return values, seeds, self.arrays(grads, targets)

    def tolerance(self, expected: Any) -> dict[str, Any]:
        """Returns keyword arguments of ``compare`` for a value that may only round differently."""
        rtol, atol = self.tight
        finite = np.abs(expected[np.isfinite(expected)])
        return {"rtol": rtol, "atol": atol * max(1.0, float(finite.max(initial=0.0)))}

    # ------------------------------------------------------------------ derivatives

    def numerical(self, run: Callable[[], list[Any]], target: Tensor) -> Rows:
        """Computes central differences of the arrays that ``run`` returns."""
        size = target.numel()
        elements = list(range(size))
        if size > _MAX_ELEMENTS:
            chosen = self.choose.choice(size, _MAX_ELEMENTS, replace=False)
            elements = sorted(int(i) for i in chosen)
        eps = self.options.eps or (4e-3 if self.coarse else 1e-6)
        columns: list[list[Any]] = []
        for flat in elements:
            index = np.unravel_index(flat, tuple(target.shape)) if target.dim() else ()
            cell = target.data
            for i in index:
                cell = cell[int(i)]
            value = cell.item()
            try:
                cell.fill_(value - eps)
                low, below = run(), cell.item()
                cell.fill_(value + eps)
                high, above = run(), cell.item()
            finally:
                cell.fill_(value)
            same = len(low) == len(high) and all(
                a.shape == b.shape for a, b in zip(low, high, strict=True)
            )
            if not same:
                raise Fault("output", f"its shape changes when an input changes by {eps:g}")
            columns.append(
                [(b - a).reshape(-1) / (above - below) for a, b in zip(low, high, strict=True)]
            )
        if not columns:
            return Rows([], [np.zeros((0, value.size)) for value in run()])
        return Rows(elements, [np.stack(parts) for parts in zip(*columns, strict=True)])

    def unit_seeds(self, output: Tensor) -> Iterator[tuple[Tensor, Any, str]]:
        """Yields gradients to try for one output: the seed, its values, and its description."""
        count = output.numel()
        if count > _MAX_SEEDS:
            for i in range(8):
                seed = self.draw(output)
                yield seed, array(seed).reshape(-1), f" (random combination {i})"
            return
        for i in range(count):
            seed = cograd.zeros(tuple(output.shape), dtype=output.dtype, device=output.device)
            seed.view(-1)[i] = 1.0
            values = np.zeros(count)
            values[i] = 1.0
            yield seed, values, element_text(output.shape, i)

    def close(self, expected: Any, scale: float) -> dict[str, Any]:
        """Returns keyword arguments of ``compare`` for a numerical derivative."""
        if self.coarse:
            return {"rtol": 1e-2, "atol": 1e-2 * max(1.0, scale)}
        return {"rtol": self.options.rtol, "atol": self.options.atol * max(1.0, scale * 1e-3)}


def copies(seeds: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Returns contiguous copies."""
    return [None if seed is None else seed.detach().clone().contiguous() for seed in seeds]


def subsets(count: int) -> Iterator[tuple[int, ...]]:
    """Yields proper subsets of range(count): all up to five, else single ones and all but one."""
    everything = tuple(range(count))
    if count <= 5:
        for size in range(count):
            yield from itertools.combinations(everything, size)
        return
    yield ()
    for i in everything:
        yield (i,)
        yield tuple(k for k in everything if k != i)
