# SPDX-License-Identifier: BSD-3-Clause
"""Checkpoints in a directory: the ranks' safetensors files, and an index that lists them.

Each file has a name that no other checkpoint uses, and exists either complete or not at all. The
index is written last, in one step: until then the previous index lists the previous files, which
are removed afterwards.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import cograd
from cograd import Tensor
from cograd.serialization import _replace, _serialize, _to_tensor

from ._plan import CheckpointException, Chunk

__all__ = ["FileSystemReader", "FileSystemWriter"]

INDEX = "index.json"
_FORMAT = "cograd.distributed.checkpoint"
_VERSION = 1
_HEADER_LIMIT = 100_000_000


class FileSystemWriter:
    """Writes the checkpoints of ``save`` to the directory ``path``, which it creates if needed.

    Args:
        path: a path that is the same on all ranks.
        single_file_per_rank, sync_files, thread_count, per_thread_copy_ahead: accepted and ignored:
            a rank writes one file, which is on the disk before the index lists it.
        cache_staged_state_dict: accepted and ignored.
        overwrite: False raises if ``path`` has a checkpoint already.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        single_file_per_rank: bool = True,
        sync_files: bool = True,
        thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000,
        cache_staged_state_dict: bool = False,
        overwrite: bool = True,
    ) -> None:
        self.path = os.fspath(path)
        self.overwrite = overwrite

    def prepare(self) -> None:
        """Creates the directory."""
        if not self.overwrite and os.path.exists(os.path.join(self.path, INDEX)):
            raise CheckpointException(
                f"save(): {self.path} has a checkpoint already, and overwrite is False"
            )
        os.makedirs(self.path, exist_ok=True)

    def write_shard(self, name: str, tensors: dict[str, Tensor]) -> None:
        """Writes one rank's file."""
        parts = {
            key: cograd.view_as_real(t.detach()) if t.is_complex() else t.detach()
            for key, t in tensors.items()
        }
        data = _serialize(parts, {})
        _replace(os.path.join(self.path, name), lambda file: file.write(data))

    def remove_shard(self, name: str) -> None:
        """Removes a file that no index lists."""
        try:
            os.unlink(os.path.join(self.path, name))
        except OSError:
            pass

    def write_index(self, index: dict[str, Any]) -> None:
        """Writes the index of the new files, and removes the files of the previous checkpoint."""
        text = json.dumps({"format": _FORMAT, "version": _VERSION, **index}).encode()
        _replace(os.path.join(self.path, INDEX), lambda file: file.write(text))
        named = set(index["files"])
        for name in os.listdir(self.path):
            if name.startswith(("shard-", ".shard-", f".{INDEX}.")) and name not in named:
                self.remove_shard(name)


class FileSystemReader:
    """Reads checkpoints for ``load`` from the directory ``path``."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._files: dict[str, tuple[int, dict[str, Any]]] = {}

    def read_index(self) -> dict[str, Any]:
        """Returns the index that ``write_index`` wrote."""
        name = os.path.join(self.path, INDEX)
        try:
            with open(name, "rb") as file:
                index = json.loads(file.read())
        except FileNotFoundError:
            raise CheckpointException(
                f"load(): {self.path} has no {INDEX}: no checkpoint was finished there"
            ) from None
        except (ValueError, RecursionError) as error:
            raise CheckpointException(f"load(): {name} is damaged: {error}") from None
        if not isinstance(index, dict) or index.get("format") != _FORMAT:
            raise CheckpointException(f"load(): {name} is not the index of a checkpoint")
        if index.get("version") != _VERSION:
            raise CheckpointException(
                f"load(): {name} has version {index.get('version')}, expected {_VERSION}"
            )
        return index

    def _header(self, name: str) -> tuple[int, dict[str, Any]]:
        """Returns (start of the data, entries) of a safetensors file."""
        if os.path.basename(name) != name:
            raise CheckpointException(f"load(): the index names a file elsewhere, {name!r}")
        if name not in self._files:
            path = os.path.join(self.path, name)
            try:
                with open(path, "rb") as file:
                    length = int.from_bytes(file.read(8), "little")
                    if length > _HEADER_LIMIT:
                        raise ValueError(f"its header would have {length} bytes")
                    header = json.loads(file.read(length))
            except (OSError, ValueError, RecursionError) as error:
                raise CheckpointException(f"load(): {path} cannot be read: {error}") from None
            self._files[name] = 8 + length, header
        return self._files[name]

    def _stored(self, name: str, entry: str) -> Tensor:
        begin, header = self._header(name)
        path = os.path.join(self.path, name)
        if entry not in header:
            raise CheckpointException(f"load(): {path} has no tensor '{entry}'")
        first, last = header[entry]["data_offsets"]
        try:
            with open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size - begin
                if not 0 <= first <= last <= size:
                    raise CheckpointException(
                        f"load(): {path} is damaged or cut off: '{entry}' is at bytes {first} to "
                        f"{last} of {size}"
                    )
                file.seek(begin + first)
                data = file.read(last - first)
        except OSError as error:
            raise CheckpointException(f"load(): {path} cannot be read: {error}") from None
        if len(data) != last - first:
            raise CheckpointException(f"load(): {path} is cut off in tensor '{entry}'")
        return _to_tensor(entry, {**header[entry], "data": data}, path)

    def read(self, key: str, known: dict[str, Any], want: Chunk, into: Tensor) -> None:
        """Fills ``into`` with the elements that ``want`` names.

        Args:
            key: the tensor's key.
            known: the tensor's entry in the index.
            want: the elements to read.
            into: the tensor to write in place, of their shape.
        """
        filled, targets = 0, []
        with cograd.no_grad():
            for chunk in known["chunks"]:
                inner = _overlap(chunk["offsets"], chunk["sizes"], want.offsets, want.sizes)
                if inner is None:
                    continue
                source, target = inner
                stored = self._stored(chunk["file"], chunk["entry"])
                if into.is_complex():
                    stored = cograd.view_as_complex(stored)
                part = stored[source] if source else stored
                (into[target] if target else into).copy_(part)
                filled += part.numel()
                targets.append(target)
        if filled > into.numel():  # overlapping parts, such as halos
            filled = _covered(into, targets)
        if filled != into.numel():
            raise CheckpointException(
                f"load(): the checkpoint in {self.path} has {filled} of the {into.numel()} "
                f"elements of '{key}' that are wanted"
            )


def _overlap(
    offsets: Any, sizes: Any, want_offsets: Any, want_sizes: Any
) -> tuple[tuple[slice, ...], tuple[slice, ...]] | None:
    """Returns the slices of the stored part and of the wanted part where both overlap."""
    source, target = [], []
    for a, n, b, m in zip(offsets, sizes, want_offsets, want_sizes, strict=True):
        first, last = max(a, b), min(a + n, b + m)
        if first >= last:
            return None
        source.append(slice(first - a, last - a))
        target.append(slice(first - b, last - b))
    return tuple(source), tuple(target)


def _covered(into: Tensor, targets: list[tuple[slice, ...]]) -> int:
    mask = cograd.zeros(into.shape, dtype=cograd.bool)
    for target in targets:
        mask[target] = True
    return int(mask.sum().item())


def entries(name: str, chunks: list[Chunk]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields (key, entry in the index) of each chunk in the file ``name``."""
    for at, chunk in enumerate(chunks):
        yield (
            chunk.key,
            {
                "file": name,
                "entry": f"{chunk.key}@{at}",
                "offsets": list(chunk.offsets),
                "sizes": list(chunk.sizes),
            },
        )
