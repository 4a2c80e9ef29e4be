# SPDX-License-Identifier: BSD-3-Clause
"""Functions inside of a vmap: by their vmap rule, or sample by sample."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import cograd
from cograd import _C


class VmapInfo(NamedTuple):
    """What a ``vmap`` staticmethod is told: the number of samples, and how to draw numbers."""

    batch_size: int
    randomness: str


_told: set[type] = set()


def _level_of(value: Any) -> int:
    found = _C._describe_samples(value) if isinstance(value, cograd.Tensor) else None
    return 0 if found is None else found[0]


def _whole(value: Any, level: int) -> tuple[Any, int | None]:
    """(tensor with the dim of samples, that dim), or (value, None)."""
    if _level_of(value) != level:
        return value, None
    _, dim, whole = _C._describe_samples(value)
    return whole, dim


def _by_rule(cls: Any, args: tuple[Any, ...], names: tuple[str, ...], level: int) -> Any:
    pairs = [_whole(a, level) for a in args]
    if names:
        raise TypeError(f"{cls.__name__}.vmap takes no keyword-only arguments of forward: {names}")
    info = VmapInfo(*_C._describe_vmap(level))
    result = cls.vmap(info, tuple(dim for _, dim in pairs), *(w for w, _ in pairs))
    if not isinstance(result, tuple) or len(result) != 2:
        raise RuntimeError(
            f"{cls.__name__}.vmap must return (output, out_dims), a tuple of two; got "
            f"{type(result).__name__}"
        )
    outputs, dims = result
    many = isinstance(outputs, (tuple, list))
    values = tuple(outputs) if many else (outputs,)
    places = tuple(dims) if isinstance(dims, (tuple, list)) else (dims,) * len(values)
    if len(places) != len(values):
        raise RuntimeError(
            f"{cls.__name__}.vmap returned {len(values)} outputs and {len(places)} out_dims"
        )
    for place in places:
        if place is not None and not isinstance(place, int):
            raise RuntimeError(
                f"{cls.__name__}.vmap returned out_dims={dims}: a dim of samples is an int, or None"
            )
    wrapped = tuple(
        v if d is None or not isinstance(v, cograd.Tensor) else _C._add_samples(v, d, level)
        for v, d in zip(values, places, strict=True)
    )
    return wrapped if many else wrapped[0]


def _stack(values: list[Any], cls: Any, level: int) -> Any:
    first = values[0]
    if isinstance(first, cograd.Tensor):
        return _C._add_samples(cograd.stack(values), 0, level)
    if any(v is not first and v != first for v in values):
        raise RuntimeError(
            f"vmap: {cls.__name__}.forward returned a {type(first).__name__} that differs from "
            "sample to sample; return a Tensor"
        )
    return first


def _sample_by_sample(cls: Any, args: tuple[Any, ...], names: tuple[str, ...], level: int) -> Any:
    if cls not in _told and not cls.generate_vmap_rule and _C._tells_of_loops():
        _told.add(cls)
        warnings.warn(
            f"vmap: {cls.__name__} has no vmap rule and runs sample by sample. Add\n"
            "    @staticmethod\n"
            "    def vmap(info, in_dims, *args):\n"
            "        return output, out_dims",
            stacklevel=3,
        )
    size, _ = _C._describe_vmap(level)
    if size == 0:
        raise RuntimeError(f"vmap: {cls.__name__} runs sample by sample, and there is no sample")
    pairs = [_whole(a, level) for a in args]
    count = len(args) - len(names)
    results = []
    for i in range(size):
        sample = [w if dim is None else w.select(dim, i) for w, dim in pairs]
        keywords = dict(zip(names, sample[count:], strict=True))
        results.append(cls.apply(*sample[:count], **keywords))
    if not isinstance(results[0], tuple):
        return _stack(results, cls, level)
    return tuple(_stack(list(column), cls, level) for column in zip(*results, strict=True))


def apply_samples(cls: Any, args: tuple[Any, ...], names: tuple[str, ...]) -> Any:
    """``cls.apply(*args)`` where arguments have a value for each sample of a vmap.

    The rule is that of the innermost vmap; what it calls meets the outer ones. ``names``: of the
    last arguments, which forward takes by keyword only.
    """
    level = max(_level_of(a) for a in args)
    if cls._style == "instance":
        raise NotImplementedError(
            f"vmap: {cls.__name__} has a forward that is no staticmethod, which vmap does not run"
        )
    if cls._has_vmap():
        if cls.generate_vmap_rule:
            raise RuntimeError(
                f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True "
                "and an overridden vmap staticmethod. Please set generate_vmap_rule=False or "
                "delete the overridden vmap staticmethod to avoid ambiguity."
            )
        return _by_rule(cls, args, names, level)
    return _sample_by_sample(cls, args, names, level)
