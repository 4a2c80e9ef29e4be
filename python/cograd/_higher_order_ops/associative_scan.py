# SPDX-License-Identifier: BSD-3-Clause
"""Running results of an associative function along a dim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cograd
from cograd import Tensor, _pytree

__all__ = ["associative_scan"]

_Leaves = list[Tensor]


def _interleaved(even: Tensor, odd: Tensor) -> Tensor:
    """Returns even[0], odd[0], even[1], ...; ``even`` may have one more element."""
    n = odd.shape[0]
    pairs = cograd.stack([even[:n], odd], 1).flatten(0, 1)
    return pairs if even.shape[0] == n else cograd.cat([pairs, even[n:]])


def _scan(combine: Callable[[_Leaves, _Leaves], _Leaves], xs: _Leaves) -> _Leaves:
    """Scans recursively: odd results are the scan of combined pairs, even ones add one element."""
    n = xs[0].shape[0]
    if n < 2:
        return xs
    odd = _scan(combine, combine([x[: n - 1 : 2] for x in xs], [x[1::2] for x in xs]))
    even = [x[:1] for x in xs]
    if n > 2:
        later = combine([y[: (n - 1) // 2] for y in odd], [x[2::2] for x in xs])
        even = [cograd.cat(parts) for parts in zip(even, later, strict=True)]
    return [_interleaved(*parts) for parts in zip(even, odd, strict=True)]


def _leaves_of(xs: Any, dim: int) -> tuple[_Leaves, Any]:
    """Returns the tensors of ``xs`` with ``dim`` first, and their tree."""
    leaves, tree = _pytree.flat(xs)
    if not leaves:
        raise ValueError("associative_scan(): xs has no tensor")
    for x in leaves:
        if not isinstance(x, Tensor):
            raise TypeError(
                f"associative_scan(): xs must contain only tensors, got {type(x).__name__}"
            )
        if x.dim() == 0 or x.numel() == 0 or x.shape != leaves[0].shape:
            raise ValueError(
                "associative_scan(): xs must be tensors of one shape with at least one dim and one "
                f"element, got {[tuple(y.shape) for y in leaves if isinstance(y, Tensor)]}"
            )
    return [x.movedim(dim, 0) for x in leaves], tree


def associative_scan(
    combine_fn: Callable[[Any, Any], Any],
    xs: Any,
    dim: int,
    reverse: bool = False,
    combine_mode: str = "pointwise",
) -> Any:
    """Returns running results of ``combine_fn``: of xs[0], of xs[0] and xs[1], ... along ``dim``.

    Takes about 2 log2(n) steps, each of which calls ``combine_fn`` once under ``vmap``: Blelloch,
    "Prefix Sums and Their Applications" (1990). It is differentiable.

    Args:
        combine_fn: combines two trees of tensors, each like one element of ``xs``, to one; must be
            associative, as sums, products and the steps of linear recurrences are.
        xs: a tree of tensors of one shape.
        reverse: start from the end of ``dim``.
        combine_mode: "pointwise" or "generic", which are the same here.

    Raises:
        ValueError: xs has no tensor, shapes differ or are empty, combine_mode is unknown, or
            ``combine_fn`` returns another tree.
        TypeError: xs contains something other than tensors.
        IndexError: ``dim`` is out of range.
    """
    if not callable(combine_fn):
        raise ValueError(
            f"associative_scan(): combine_fn must be callable, got {type(combine_fn).__name__}"
        )
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(
            "associative_scan(): combine_mode must be 'pointwise' or 'generic', got "
            f"{combine_mode!r}"
        )
    leaves, tree = _leaves_of(xs, dim)

    def one(a: _Leaves, b: _Leaves) -> _Leaves:
        made, other = _pytree.flat(
            combine_fn(_pytree.unflatten(tree, iter(a)), _pytree.unflatten(tree, iter(b)))
        )
        if other != tree:
            raise ValueError(
                "associative_scan(): combine_fn must return a tree like xs, "
                f"{_pytree.shown(tree)}, got {_pytree.shown(other)}"
            )
        return made

    if reverse:
        leaves = [x.flip(0) for x in leaves]
    made = _scan(cograd.vmap(one), leaves)
    if reverse:
        made = [y.flip(0) for y in made]
    return _pytree.unflatten(tree, (y.movedim(0, dim) for y in made))
