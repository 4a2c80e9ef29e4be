# SPDX-License-Identifier: BSD-3-Clause
"""Checks of vmap: batches against loops over the samples, alone and nested with derivatives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import cograd
from cograd import Tensor
from cograd.func import jvp, vjp, vmap

from .audit import Audit, raised
from .report import Fault, Inapplicable
from .subject import array, compare

__all__ = ["check_batched_derivatives", "check_vmap"]

Function = Callable[..., tuple[Tensor, ...]]
Dims = tuple["int | None", ...]

# Changes of the values from one sample to the next, tried until every sample is accepted.
_STEPS = (-0.03, 0.03, 1e-3, 0.0)


@dataclass(frozen=True)
class Batch:
    """One way to batch: the size and, for each argument, its batch dim or None."""

    size: int
    dims: Dims

    def and_first(self, count: int) -> Batch:
        """Returns the batch with ``count`` more arguments, batched along dim 0."""
        return Batch(self.size, (*self.dims, *[0] * count))


def by_vmap(function: Function, batch: Batch) -> Function:
    """Returns the function of a batch, computed at once."""
    return vmap(function, in_dims=batch.dims)


def by_loop(function: Function, batch: Batch) -> Function:
    """Returns the function of a batch, computed sample by sample."""

    def run(*args: Tensor) -> tuple[Tensor, ...]:
        samples = (
            [a if d is None else a.select(d, b) for a, d in zip(args, batch.dims, strict=True)]
            for b in range(batch.size)
        )
        rows = [function(*sample) for sample in samples]
        return tuple(cograd.stack(column) for column in zip(*rows, strict=True))

    return run


Lift = Callable[[Function, Batch], Function]


class Samples:
    """The subject as a function of one sample, its derivatives, and batches of arguments."""

    def __init__(self, audit: Audit) -> None:
        self.audit = audit
        subject = audit.subject
        self.at = list(subject.targets)
        self.names = [subject.names[i] for i in self.at]
        self.base = [t.detach() for t in audit.targets(audit.fresh(()))]
        outputs = subject.run(audit.fresh())
        self.count = len(outputs)
        self.real = [k for k, o in enumerate(outputs) if o.dtype.is_floating_point]
        self.seeds = [audit.draw(outputs[k]) for k in self.real]
        self.step = self._step()

    def _step(self) -> float:
        """Returns a change of the values after which each sample is accepted and finite."""
        for step in _STEPS:
            try:
                for k in range(6):
                    values = self.outputs(*[t * (1 + k * step) for t in self.base])
                    if not all(np.isfinite(array(v)).all() for v in values):
                        raise ValueError
            except Exception:
                continue
            return step
        raise Inapplicable("the outputs are not finite for these arguments")

    def outputs(self, *x: Tensor) -> tuple[Tensor, ...]:
        """Returns all outputs."""
        leaves = self.audit.fresh(())
        for i, value in zip(self.at, x, strict=True):
            leaves[i] = value
        return tuple(self.audit.subject.run(leaves))

    def values(self, *x: Tensor) -> tuple[Tensor, ...]:
        """Returns the floating-point outputs."""
        found = self.outputs(*x)
        return tuple(found[k] for k in self.real)

    def gradients(self, *args: Tensor) -> tuple[Tensor, ...]:
        """Returns the gradients, as a function of inputs and incoming gradients."""
        count = len(self.at)
        return tuple(vjp(self.values, *args[:count])[1](tuple(args[count:])))

    def tangents(self, *args: Tensor) -> tuple[Tensor, ...]:
        """Returns the tangents, as a function of inputs and their tangents."""
        count = len(self.at)
        return tuple(jvp(self.values, tuple(args[:count]), tuple(args[count:]))[1])

    def products(self, *args: Tensor) -> tuple[Tensor, ...]:
        """Tangents of the gradients: of inputs, incoming gradients, and tangents of both."""
        half = len(args) // 2
        return tuple(jvp(self.gradients, tuple(args[:half]), tuple(args[half:]))[1])

    def stacked(self, values: Sequence[Tensor], batch: Batch) -> list[Tensor]:
        """Returns the arguments of a batch of one level, whose samples differ."""
        return [
            t
            if d is None
            else cograd.stack(
                [t * (1 + b * self.step) for b in range(batch.size)], d if d >= 0 else t.dim()
            )
            for t, d in zip(values, batch.dims, strict=True)
        ]

    def draw_like(self, values: Sequence[Tensor]) -> list[Tensor]:
        """Returns random tensors of the shapes of others."""
        return [self.audit.draw(t) for t in values]

    def batches(self) -> Iterator[tuple[str, Batch]]:
        """Yields ways to batch the inputs. The size is that of no dim, so that no dims mix up."""
        taken = {n for t in [*self.base, *self.seeds] for n in t.shape}
        size = next(n for n in (2, 3, 4, 5, 6) if n not in taken or n == 6)
        count = len(self.at)
        mutated = self.audit.subject.mutated
        yield "all inputs batched", Batch(size, (0,) * count)
        for k in range(count) if count > 1 else ():
            if all(i == self.at[k] or i not in mutated for i in self.at):
                dims = tuple(0 if m == k else None for m in range(count))
                yield f"only {self.names[k]} batched", Batch(size, dims)
        if any(t.dim() for t in self.base):
            yield "the batch in the last dim", Batch(size, (-1,) * count)
        if count > 1:
            mixed = tuple(-(k % 2) for k in range(count))
            yield "the batch in different dims", Batch(size, mixed)
        yield "a batch of one sample", Batch(1, (0,) * count)


class _Comparison:
    """Runs functions of batches in two ways; records what was compared and what is refused."""

    def __init__(self, audit: Audit) -> None:
        self.audit = audit
        self.done: dict[str, int] = {}
        self.refused: dict[str, str] = {}

    def compare(
        self, what: str, label: str, make: Callable[[Lift], Any], args: Sequence[Tensor]
    ) -> None:
        """Compares ``make(by_vmap)(*args)`` with ``make(by_loop)(*args)``."""
        try:
            expected = make(by_loop)(*args)
        except Exception as error:  # one sample alone is refused
            self.refused.setdefault(what, raised(error))
            return
        try:
            found = make(by_vmap)(*args)
        except Exception as error:
            if self.audit.subject.declares("vmap") or "vmap" not in str(error):
                detail = f"with {label} raised {raised(error)}, but a loop is accepted"
                raise Fault(what, detail) from error
            self.refused.setdefault(what, raised(error))
            return
        for k, (actual, right) in enumerate(zip(found, expected, strict=True)):
            where = f"{what}: result {k}" if len(expected) > 1 else what
            if actual.dtype != right.dtype:
                raise Fault(where, f"with {label} is {actual.dtype}, a loop gives {right.dtype}")
            right = array(right)
            when = f"with {label} "
            compare(array(actual), right, where, when, **self.audit.tolerance(right))
        self.done[what] = self.done.get(what, 0) + 1

    def text(self) -> str:
        """Returns what was compared; raises Inapplicable if all was refused."""
        refused = [f"{what} is refused ({why})" for what, why in self.refused.items()]
        if not self.done:
            raise Inapplicable(refused[0])
        nestings = f"{len(self.done)} nestings" if len(self.done) > 2 else ", ".join(self.done)
        return ", ".join([f"{nestings}, {sum(self.done.values())} batches", *refused])


def _samples(audit: Audit) -> Samples:
    """Returns the samples; they are made once."""
    if not audit.subject.targets:
        raise Inapplicable("no floating-point tensor among the arguments")
    found: Samples | None = audit.__dict__.get("_samples")
    if found is None:
        found = audit.__dict__["_samples"] = Samples(audit)
    if not found.count:
        raise Inapplicable("no output is a tensor")
    return found


def _lifted(function: Function, *batches: Batch) -> Callable[[Lift], Any]:
    """Returns a function that lifts ``function`` by a batch after the other, innermost first."""

    def make(lift: Lift) -> Function:
        made = function
        for batch in batches:
            made = lift(made, batch)
        return made

    return make


def check_vmap(audit: Audit) -> str:
    """Compares the outputs of batches with those of loops; also of batches of batches."""
    samples = _samples(audit)
    results = _Comparison(audit)
    for label, batch in samples.batches():
        args = samples.stacked(samples.base, batch)
        outer = Batch(2, (0,) * len(args))
        results.compare("vmap", label, _lifted(samples.outputs, batch), args)
        wide = samples.stacked(args, outer)
        results.compare("vmap of vmap", label, _lifted(samples.outputs, batch, outer), wide)
    if len(samples.at) > 1 and not audit.subject.mutated:
        first = Batch(2, (0, *[None] * (len(samples.at) - 1)))
        rest = Batch(3, (None, *[0] * (len(samples.at) - 1)))
        args = [
            samples.stacked(samples.base, first)[0],
            *samples.stacked(samples.base, rest)[1:],
        ]
        label = f"{samples.names[0]} batched by the outer vmap and the rest by the inner one"
        results.compare("vmap of vmap", label, _lifted(samples.outputs, rest, first), args)
    return results.text()


def check_batched_derivatives(audit: Audit) -> str:
    """Compares gradients and tangents of batches with those of loops, in every nesting."""
    samples = _samples(audit)
    if not samples.real:
        raise Inapplicable("no output is a floating-point tensor")
    results = _Comparison(audit)
    for label, batch in samples.batches():
        _first_order(samples, results, label, batch)
        if audit.options.second_order:
            _second_order(samples, results, label, batch)
    still = Batch(3, (None,) * len(samples.at))
    seeds = [cograd.stack(samples.draw_like([s] * 3)) for s in samples.seeds]
    directions = [cograd.stack(samples.draw_like([x] * 3)) for x in samples.base]
    label = "only incoming gradients batched"
    with_seeds, with_tangents = still.and_first(len(seeds)), still.and_first(len(directions))
    args = [*samples.base, *seeds]
    results.compare("vmap of grad", label, _lifted(samples.gradients, with_seeds), args)
    label = "only tangents batched"
    args = [*samples.base, *directions]
    results.compare("vmap of jvp", label, _lifted(samples.tangents, with_tangents), args)
    return results.text()


def _first_order(samples: Samples, results: _Comparison, label: str, batch: Batch) -> None:
    x = samples.stacked(samples.base, batch)
    seeds = [samples.audit.draw(s, (batch.size,)) for s in samples.seeds]
    batched = [samples.audit.draw(t, (batch.size,)) for t in samples.base]
    with_seeds, with_tangents = batch.and_first(len(seeds)), batch.and_first(len(batched))
    directions = samples.draw_like(x)
    outer = Batch(2, (0,) * len(x))
    wide = samples.stacked(x, outer)
    wide_seeds = [samples.audit.draw(s, (2,)) for s in seeds]

    def pulled(function: Function, cotangents: Sequence[Tensor]) -> Function:
        return lambda *args: tuple(vjp(function, *args)[1](tuple(cotangents)))

    cases: dict[str, tuple[Callable[[Lift], Any], list[Tensor]]] = {
        "vmap of grad": (lambda lift: lift(samples.gradients, with_seeds), [*x, *seeds]),
        "grad of vmap": (lambda lift: pulled(lift(samples.values, batch), seeds), x),
        "vmap of jvp": (lambda lift: lift(samples.tangents, with_tangents), [*x, *batched]),
        "jvp of vmap": (
            lambda lift: lambda *a: jvp(lift(samples.values, batch), a, tuple(directions))[1],
            x,
        ),
        "grad of vmap of vmap": (
            lambda lift: pulled(lift(lift(samples.values, batch), outer), wide_seeds),
            wide,
        ),
        "vmap of grad of vmap": (
            lambda lift: lift(
                lambda *a: pulled(lift(samples.values, batch), a[len(x) :])(*a[: len(x)]),
                outer.and_first(len(seeds)),
            ),
            [*wide, *wide_seeds],
        ),
    }
    for what, (make, args) in cases.items():
        results.compare(what, label, make, args)


def _second_order(samples: Samples, results: _Comparison, label: str, batch: Batch) -> None:
    x = samples.stacked(samples.base, batch)
    seeds = [samples.audit.draw(s, (batch.size,)) for s in samples.seeds]
    primals = [*x, *seeds]
    with_seeds = batch.and_first(len(seeds))
    directions = samples.draw_like(primals)
    doubled = Batch(batch.size, with_seeds.dims * 2)

    def gradients(lift: Lift) -> Function:
        def run(*args: Tensor) -> tuple[Tensor, ...]:
            pull = vjp(lift(samples.values, batch), *args[: len(x)])[1]
            return tuple(pull(tuple(args[len(x) :])))

        return run

    cases: dict[str, Callable[[Lift], Any]] = {
        "jvp of vmap of grad": lambda lift: lift(samples.gradients, with_seeds),
        "jvp of grad of vmap": gradients,
    }

    def pushed(make: Callable[[Lift], Any]) -> Callable[[Lift], Any]:
        return lambda lift: lambda *a: jvp(make(lift), a, tuple(directions))[1]

    for what, make in cases.items():
        results.compare(what, label, pushed(make), primals)
    results.compare(
        "grad of grad of vmap",
        label,
        lambda lift: lambda *a: vjp(gradients(lift), *a)[1](tuple(directions[: len(x)])),
        primals,
    )
    results.compare(
        "vmap of jvp of grad",
        label,
        lambda lift: lift(samples.products, doubled),
        [*primals, *directions],
    )
