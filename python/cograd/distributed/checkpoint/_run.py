# SPDX-License-Identifier: BSD-3-Clause
"""Implements ``save`` and ``load``, which all ranks run together."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import cograd.distributed as dist
from cograd import Tensor
from cograd.serialization import _Packer, _Unpacker

from ._plan import CheckpointException, Chunk, Shard, describe, leaves, planned, replace_leaf
from .filesystem import FileSystemReader, FileSystemWriter, entries
from .stateful import Stateful

__all__ = ["load", "save"]

T = TypeVar("T")


class _Ranks:
    """The ranks that write or read together; a single one without a process group."""

    def __init__(self, group: Any, no_dist: bool) -> None:
        self.alone = no_dist or not (dist.is_available() and dist.is_initialized())
        self.group = None if self.alone or group is None else group
        self.rank = 0 if self.alone else dist.get_rank(self.group)
        self.size = 1 if self.alone else dist.get_world_size(self.group)

    def gather(self, value: T) -> list[T]:
        """Returns every rank's value."""
        if self.alone:
            return [value]
        found: list[Any] = [None] * self.size
        dist.all_gather_object(found, value, group=self.group)
        return found

    def together(self, what: str, step: Callable[[], T]) -> list[T]:
        """Returns every rank's result of ``step``; raises on all ranks if it fails on one."""
        value: Any = None
        error: Exception | None = None
        try:
            value = step()
        except Exception as caught:
            error = caught
        text = None if error is None else f"{type(error).__name__}: {error}"
        found = self.gather((value, text))
        failed = [f"rank {r}: {text}" for r, (_, text) in enumerate(found) if text is not None]
        if error is not None:
            raise error
        if failed:
            raise CheckpointException(f"{what}: " + "; ".join(failed))
        return [value for value, _ in found]


def _place(name: str, checkpoint_id: Any, other: Any, kind: Any) -> Any:
    if other is not None:
        if not isinstance(other, kind):
            raise TypeError(
                f"{name}(): expected a {kind.__name__}, got {type(other).__name__}: other storage "
                "is not offered"
            )
        if checkpoint_id is not None and os.fspath(checkpoint_id) != other.path:
            return kind(checkpoint_id)
        return other
    if checkpoint_id is None:
        raise ValueError(f"{name}(): give checkpoint_id, the folder of the checkpoint")
    return kind(checkpoint_id)


def _no_planner(name: str, planner: Any) -> None:
    if planner is not None:
        raise ValueError(f"{name}(): planner must be None: custom planners are not supported")


def _described(state: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns a rank's tensors, described by shapes, and its other values, packed."""
    tensors, values = {}, {}
    for key, _, value in leaves(state):
        about = describe(value)
        if about is not None:
            tensors[key] = about
        else:
            packer = _Packer()
            values[key] = packer.pack(value, key)
            if packer.tensors:
                raise TypeError(
                    f"save(): '{key}' is a {type(value).__name__} that holds tensors; expected "
                    "dicts and lists around them"
                )
    return tensors, values


def _taken(state: dict[str, Any]) -> dict[str, Any]:
    """Returns ``state`` with the state_dict of each object that has one."""
    if not isinstance(state, dict):
        raise TypeError(f"state_dict must be a dict, got {type(state).__name__}")
    return {k: v.state_dict() if isinstance(v, Stateful) else v for k, v in state.items()}


def _part(value: Any, chunk: Chunk) -> Tensor:
    """Returns the elements of this rank's tensor or shard that a chunk names."""
    tensor: Tensor = value.tensor if isinstance(value, Shard) else value
    base = value.offsets if isinstance(value, Shard) else (0,) * tensor.dim()
    at = tuple(
        slice(first - b, first - b + n)
        for first, b, n in zip(chunk.offsets, base, chunk.sizes, strict=True)
    )
    return tensor.detach()[at] if at else tensor.detach()


def save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: FileSystemWriter | None = None,
    planner: None = None,
    process_group: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> dict[str, Any]:
    """Writes a checkpoint; all ranks must call it, each with its own ``state_dict``.

    Each rank writes a safetensors file: its shards, the tensors that only it has, and its part of
    the tensors that all ranks have. The index is written last and in one step, so a crash at any
    time leaves the previous checkpoint.

    Args:
        state_dict: nested dicts and lists of tensors, ``Shard``s, numbers, strings, bools and None;
            at its top level also objects with ``state_dict()`` and ``load_state_dict()``. Ranks may
            have different keys. If several ranks have a tensor at the same key, one of them is
            written; for other values, that of the lowest rank.
        checkpoint_id: a directory that all ranks see; an existing checkpoint is replaced.
        storage_writer: a FileSystemWriter, instead of ``checkpoint_id``.
        planner: must be None.
        process_group: the ranks; None for all.
        no_dist: whether this process writes a checkpoint alone.
        use_collectives: accepted and ignored.

    Returns:
        The index.

    Raises:
        CheckpointException: a rank failed, or ranks disagree on a tensor; nothing was changed. The
            rank that failed raises its own error.
    """
    _no_planner("save", planner)
    writer = _place("save", checkpoint_id, storage_writer, FileSystemWriter)
    ranks = _Ranks(process_group, no_dist)

    state: dict[str, Any] = {}

    def prepared() -> tuple[Any, str]:
        if ranks.rank == 0:
            writer.prepare()
        state.update(_taken(state_dict))
        return _described(state), uuid.uuid4().hex

    given = ranks.together("save()", prepared)
    whole, chunks = planned([tensors for (tensors, _), _ in given])
    names = [f"shard-{given[0][1]}-{rank}.safetensors" for rank in range(ranks.size)]
    values: dict[str, Any] = {}
    for (_, packed), _ in given:
        values = {**packed, **values}
    index: dict[str, Any] = {
        "world_size": ranks.size,
        "files": [name for name, mine in zip(names, chunks, strict=True) if mine],
        "values": values,
        "tensors": {
            key: {"dtype": dtype, "shape": list(shape), "chunks": []}
            for key, (dtype, shape) in whole.items()
        },
    }
    for name, mine in zip(names, chunks, strict=True):
        for key, entry in entries(name, mine):
            index["tensors"][key]["chunks"].append(entry)
    mine, name = chunks[ranks.rank], names[ranks.rank]

    def written() -> None:
        if not mine:
            return
        found = {key: value for key, _, value in leaves(state)}
        tensors = {
            entry["entry"]: _part(found[chunk.key], chunk)
            for chunk, (_, entry) in zip(mine, entries(name, mine), strict=True)
        }
        writer.write_shard(name, tensors)

    try:
        ranks.together("save()", written)
    except Exception:
        writer.remove_shard(name)
        raise
    ranks.together("save()", lambda: writer.write_index(index) if ranks.rank == 0 else None)
    return index


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: FileSystemReader | None = None,
    planner: None = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> None:
    """Fills ``state_dict`` from a checkpoint that ``save`` wrote with any number of ranks.

    Args:
        state_dict: what this rank wants. Tensors and ``Shard``s are written in place, other values
            are replaced, and objects with ``load_state_dict()`` receive their filled state. Other
            entries of the checkpoint are not read.
        checkpoint_id: the directory.
        storage_reader: a FileSystemReader, instead of ``checkpoint_id``.
        planner: must be None.
        process_group: the ranks; None for all.
        no_dist: whether this process reads alone.

    Raises:
        CheckpointException: there is no checkpoint, it is damaged, or a key is missing or has
            another shape. All ranks raise; ``state_dict`` may be partly filled.
    """
    _no_planner("load", planner)
    reader = _place("load", checkpoint_id, storage_reader, FileSystemReader)
    ranks = _Ranks(process_group, no_dist)

    def read() -> Any:
        return ranks.together("load()", lambda: reader.read_index() if ranks.rank == 0 else None)[0]

    def filled() -> None:
        state = _taken(state_dict)
        wanted = list(leaves(state))
        for key, _, value in wanted:
            with _sound(reader.path, key):
                _check(reader.path, key, value, index)
        for key, path, value in wanted:
            with _sound(reader.path, key):
                _fill(reader, index, state, key, path, value)
        for key, value in state_dict.items():
            if isinstance(value, Stateful):
                value.load_state_dict(state[key])
            else:
                state_dict[key] = state[key]

    index = read()
    while True:
        try:
            ranks.together("load()", filled)
            return
        except Exception:
            before, index = index, read()
            if index == before:  # else another program has saved here meanwhile; retry
                raise


@contextlib.contextmanager
def _sound(path: str, key: str) -> Iterator[None]:
    """Converts errors from reading untrusted files to CheckpointException."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError) as e:
        raise CheckpointException(
            f"load(): the checkpoint in {path} is damaged at '{key}': {type(e).__name__}: {e}"
        ) from e


def _check(path: str, key: str, value: Any, index: dict[str, Any]) -> None:
    about = describe(value)
    kind = "values" if about is None else "tensors"
    if key not in index[kind]:
        other = key in index["tensors"] or key in index["values"]
        raise CheckpointException(
            f"load(): the checkpoint in {path} has "
            + (
                f"no {'value' if about is None else 'tensor'} at '{key}'"
                if other
                else f"no '{key}'"
            )
        )
    if about is None:
        return
    dtype, shape, *_ = about
    known = index["tensors"][key]
    if tuple(known["shape"]) != shape:
        raise CheckpointException(
            f"load(): '{key}' has shape {list(shape)}, and {known['shape']} in the checkpoint in "
            f"{path}"
        )
    if known["dtype"] != dtype and "complex" in known["dtype"] + dtype:
        raise CheckpointException(
            f"load(): '{key}' is {dtype}, and {known['dtype']} in the checkpoint in {path}"
        )


def _fill(
    reader: FileSystemReader,
    index: dict[str, Any],
    state: dict[str, Any],
    key: str,
    path: tuple[Any, ...],
    value: Any,
) -> None:
    about = describe(value)
    if about is None:
        replace_leaf(state, path, _Unpacker({}, reader.path).unpack(index["values"][key]))
        return
    _, _, offsets, sizes = about
    into = value.tensor if isinstance(value, Shard) else value
    reader.read(key, index["tensors"][key], Chunk(key, offsets, sizes), into)
