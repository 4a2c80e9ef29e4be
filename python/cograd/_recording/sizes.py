# SPDX-License-Identifier: BSD-3-Clause
"""Looks for sizes that a recording keeps as numbers: it records with other sizes and compares."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import cograd
from cograd._recording.compare import difference, inputs_of, rerun, warn_of
from cograd._recording.recorder import Recording
from cograd.fx.node import map_aggregate

__all__ = ["check_sizes", "resized"]

_CHANGES: tuple[Callable[[int], int], ...] = (lambda n: n + 1, lambda n: 2 * n)


def resized(value: Any, axes: list[Any], change: Callable[[int], int]) -> Any:
    """Returns nested inputs with other sizes; the elements repeat along an axis."""
    remaining = iter(axes)

    def convert(leaf: Any) -> Any:
        if not isinstance(leaf, cograd.Tensor):
            return leaf
        for axis in next(remaining):
            size = leaf.size(axis)
            if change(size) > 0 and size:
                rows = cograd.arange(change(size), device=leaf.device) % size
                leaf = leaf.detach().index_select(axis, rows)
        return leaf

    return map_aggregate(value, convert)


def _groups(shapes: list[tuple[int, ...]]) -> Iterator[set[tuple[int, int]]]:
    """Returns sets of (input, axis) to change together: those of a batch, of one size, single."""
    every = [(i, axis) for i, shape in enumerate(shapes) for axis in range(len(shape))]
    yield {(i, axis) for i, axis in every if axis == 0}
    for size in sorted({shapes[i][axis] for i, axis in every}):
        yield {(i, axis) for i, axis in every if shapes[i][axis] == size}
    for one in every:
        yield {one}


def check_sizes(first: Recording, run: Any, args: Any, kwargs: Any) -> None:
    """Warns if the calls have a size of the inputs as a number.

    Args:
        run: called with other inputs, returns their recording.
    """
    shapes: list[tuple[int, ...]] = []

    def note(leaf: Any) -> Any:
        if isinstance(leaf, cograd.Tensor):
            shapes.append(tuple(leaf.shape) if leaf.layout is cograd.strided else ())
        return leaf

    map_aggregate(inputs_of(first, args, kwargs), note)
    tried: set[tuple[int, int]] = set()
    state = cograd.get_rng_state()
    for group in _groups(shapes):
        if group <= tried:
            continue
        axes = [[a for i, a in sorted(group) if i == number] for number in range(len(shapes))]
        for change in _CHANGES:
            try:
                second = rerun(first, run, args, kwargs, partial(resized, axes=axes, change=change))
            except Exception:  # the program does not accept these sizes
                continue
            finally:
                cograd.set_rng_state(state)
            tried |= group
            found = difference(first, second)
            if found is not None:
                kept = "keeps a size of the example inputs as a number"
                what = "depends on the example inputs" if first.warned else kept
                warn_of(f"The trace {what}: with other sizes", found)
                return
            break
