# SPDX-License-Identifier: BSD-3-Clause
"""Finds the tensors in a state_dict, and plans which rank writes which part of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cograd import Tensor

__all__ = ["CheckpointException", "Chunk", "Shard", "describe", "leaves", "planned", "replace_leaf"]

Path = tuple[Any, ...]
_SMALL = 1 << 16  # elements; smaller tensors are not divided


class CheckpointException(RuntimeError):  # noqa: N818
    """Raised by all ranks if a checkpoint cannot be written or read."""


class Shard:
    """This rank's part of a tensor that is divided among the ranks.

    In a state_dict it takes the place of the tensor. ``load`` fills ``tensor`` with the elements of
    its region, however many ranks wrote them and however they were divided.

    Args:
        tensor: the part.
        offsets: the index of its first element in the whole tensor, one value for each dim.
        shape: shape of the whole tensor.
    """

    def __init__(self, tensor: Tensor, offsets: Any, shape: Any) -> None:
        self.tensor = tensor
        self.offsets = tuple(int(n) for n in offsets)
        self.shape = tuple(int(n) for n in shape)
        dims = zip(self.offsets, tensor.shape, self.shape)
        if not len(self.offsets) == len(self.shape) == tensor.dim() or any(
            first < 0 or first + size > whole for first, size, whole in dims
        ):
            raise ValueError(
                f"Shard: a part of shape {list(tensor.shape)} at {list(self.offsets)} is not "
                f"within the whole tensor's shape {list(self.shape)}"
            )


@dataclass(frozen=True)
class Chunk:
    """A region of the tensor ``key``: starts at ``offsets`` and has the shape ``sizes``."""

    key: str
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]


def leaves(state: Any) -> Iterator[tuple[str, Path, Any]]:
    """Yields (key, path, value) of all values but dicts and lists; the key is the dotted path."""
    seen: dict[str, Path] = {}
    for path, value in _walk(state, ()):
        key = ".".join(str(part) for part in path)
        if key in seen:
            raise ValueError(
                f"checkpoint: the places {seen[key]} and {path} of the state_dict have one name, "
                f"'{key}'"
            )
        seen[key] = path
        yield key, path, value


def _walk(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict) and (value or not path):
        for key, item in value.items():
            yield from _walk(item, (*path, key))
    elif isinstance(value, list) and value:
        for at, item in enumerate(value):
            yield from _walk(item, (*path, at))
    else:
        yield path, value


def replace_leaf(state: Any, path: Path, value: Any) -> None:
    """Replaces the value at ``path``."""
    for part in path[:-1]:
        state = state[part]
    state[path[-1]] = value


def describe(value: Any) -> tuple[Any, ...] | None:
    """Returns (dtype, whole shape, offsets, sizes) of a tensor or shard, else None."""
    if isinstance(value, Shard):
        part = value.tensor
        return str(part.dtype), value.shape, value.offsets, tuple(part.shape)
    if isinstance(value, Tensor):
        shape = tuple(value.shape)
        return str(value.dtype), shape, (0,) * len(shape), shape
    return None


def _elements(sizes: tuple[int, ...]) -> int:
    product = 1
    for n in sizes:
        product *= n
    return product


def planned(given: list[dict[str, Any]]) -> tuple[dict[str, Any], list[list[Chunk]]]:
    """Returns each tensor's dtype and shape, and the chunks that each rank writes.

    A chunk that several ranks have is written by one of them, so that all ranks write about the
    same number of elements; a large tensor that all ranks have is divided by rows.

    Args:
        given: for each rank, its keys and their ``describe`` results.
    """
    whole: dict[str, Any] = {}
    owners: dict[Chunk, list[int]] = {}
    for rank, keys in enumerate(given):
        for key, (dtype, shape, offsets, sizes) in keys.items():
            if whole.setdefault(key, (dtype, shape)) != (dtype, shape):
                raise CheckpointException(
                    f"checkpoint: '{key}' is {dtype} {list(shape)} on rank {rank}, and "
                    f"{whole[key][0]} {list(whole[key][1])} on another one"
                )
            owners.setdefault(Chunk(key, offsets, sizes), []).append(rank)
    written: list[list[Chunk]] = [[] for _ in given]
    load = [0] * len(given)
    share = max(_SMALL, sum(_elements(chunk.sizes) for chunk in owners) // len(given))
    for chunk, ranks in sorted(owners.items(), key=lambda item: -_elements(item[0].sizes)):
        for piece in _pieces(chunk, len(ranks) if _elements(chunk.sizes) > share else 1):
            rank = min(ranks, key=lambda r: load[r])
            written[rank].append(piece)
            load[rank] += _elements(piece.sizes)
    return whole, written


def _pieces(chunk: Chunk, count: int) -> Iterator[Chunk]:
    rows = chunk.sizes[0] if chunk.sizes else 1
    count = min(count, rows)
    if count <= 1:
        yield chunk
        return
    for at in range(count):
        begin, end = rows * at // count, rows * (at + 1) // count
        offsets = (chunk.offsets[0] + begin, *chunk.offsets[1:])
        yield Chunk(chunk.key, offsets, (end - begin, *chunk.sizes[1:]))
