# SPDX-License-Identifier: BSD-3-Clause
"""Lists the tensors that graphs save for backward, and limits their memory."""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, cast

import cograd
from cograd import _C
from cograd._base import notebook
from cograd._C import Tensor
from cograd.autograd._saved import saved_tensors_hooks

__all__ = ["SavedMemory", "SavedRecord", "saved_memory", "saved_tensor_budget"]


@dataclass(frozen=True)
class SavedRecord:
    """One saved tensor.

    ``bytes`` is the size of the memory it keeps alive; ``shared`` is True if an earlier record of
    the list counts the same memory; ``made_at`` is the line that ran the op (anomaly mode only);
    ``spilled`` is True if it is on disk.
    """

    node: str
    slot: str
    shape: tuple[int, ...] | None
    dtype: Any
    bytes: int
    shared: bool
    packed: bool
    spilled: bool
    made_at: str
    sequence_nr: int


class SavedMemory(list[SavedRecord]):
    """Records of saved tensors, largest first; ``str()`` formats a table.

    A list of ``SavedRecord``; ``total_bytes`` counts shared storage once, and ``spilled_bytes``
    counts the bytes on disk.
    """

    @property
    def total_bytes(self) -> int:
        """Bytes kept alive in memory; shared storage is counted once."""
        return sum(r.bytes for r in self if not r.shared and not r.spilled)

    @property
    def spilled_bytes(self) -> int:
        """Bytes on disk."""
        return sum(r.bytes for r in self if r.spilled)

    def _title(self) -> str:
        return f"{len(self)} saved tensors, {self.total_bytes} bytes"

    def __str__(self) -> str:
        lines = [self._title()]
        for r in self:
            at = f" at {r.made_at}" if r.made_at else ""
            marks = "".join(f" ({m})" for m in _marks(r))
            lines.append(f"{r.bytes:>12}  {_shape(r):<20} {r.node}.{r.slot}{marks}{at}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Returns the table that a notebook shows: the largest records."""
        rows = [
            (r.bytes, _shape(r), r.dtype, f"{r.node}.{r.slot}", ", ".join(_marks(r)), r.made_at)
            for r in self[:_SHOWN]
        ]
        title = self._title()
        if len(self) > _SHOWN:
            title += f"; the largest {_SHOWN}"
        head = ("bytes", "shape", "dtype", "saved by", "", "made at")
        return notebook.table(title, head, rows)


_SHOWN = 200  # records in a notebook's table


def _shape(r: SavedRecord) -> str:
    return "?" if r.shape is None else "x".join(map(str, r.shape)) or "scalar"


def _marks(r: SavedRecord) -> list[str]:
    marks = (("shared", r.shared), ("hooks", r.packed), ("disk", r.spilled))
    return [name for name, on in marks if on]


def saved_memory() -> SavedMemory:
    """Lists every tensor that graphs reachable from Python objects save for backward.

    Returns a ``SavedMemory``, largest first, whose records contain the node, the tensor, and the
    number of bytes it keeps alive.
    """
    raw = _C._saved_memory()
    raw.sort(key=lambda d: (-_size_of(d), d["sequence"]))
    seen: set[int] = set()
    out = SavedMemory()
    for d in raw:
        held = d["held"]
        spilled = isinstance(held, _Entry) and held.spilled
        tensor = held.tensor if isinstance(held, _Entry) else None
        storage = d["storage"]
        shape, dtype = d["shape"], d["dtype"]
        if isinstance(held, _Entry):
            shape, dtype = held.shape, held.dtype
            storage = 0 if tensor is None else _C._storage_key(tensor)
        shared = storage in seen and storage != 0
        seen.add(storage)
        out.append(
            SavedRecord(
                d["node"],
                d["slot"],
                shape,
                dtype,
                _size_of(d),
                shared,
                d["packed"],
                spilled,
                d["made_at"],
                d["sequence"],
            )
        )
    return out


def _size_of(d: dict[str, Any]) -> int:
    held = d["held"]
    return held.bytes if isinstance(held, _Entry) else int(d["bytes"])


_UNITS = {"": 1, "b": 1}
for _i, _letter in enumerate("kmgt", 1):
    _UNITS[f"{_letter}ib"] = 1024**_i
    _UNITS[f"{_letter}b"] = 1000**_i
    _UNITS[_letter] = 1024**_i


def _parse_size(size: int | str) -> int:
    """Returns the bytes of 1048576, "1MiB", "2 GB" or "1.5g"."""
    if isinstance(size, int):
        value = float(size)
    else:
        text = size.strip().lower()
        digits = text.rstrip("bikmgt ")
        unit = text[len(digits) :].strip()
        try:
            value = float(digits) * _UNITS[unit]
        except (ValueError, KeyError):
            raise ValueError(
                f'saved_tensor_budget(): expected a size such as "2GiB" or a number of bytes, got '
                f"{size!r}"
            ) from None
    if value < 0:
        raise ValueError(f"saved_tensor_budget(): the budget is negative: {size!r}")
    return int(value)


class _Region:
    """A part of the file that is in use while an entry or a mapping holds it."""

    __slots__ = ("__weakref__",)


class _Mapping(mmap.mmap):
    """A mapped region; it keeps the region from being reused."""

    region: _Region | None


class _Entry:
    """A packed tensor: in memory until it is spilled, then a position in the file."""

    __slots__ = (
        "__weakref__",
        "bytes",
        "device",
        "dtype",
        "key",
        "offset",
        "region",
        "shape",
        "spilled",
        "start",
        "strides",
        "tensor",
        "version",
    )

    def __init__(self, tensor: Tensor) -> None:
        self.tensor: Tensor | None = tensor
        self.shape = tuple(tensor.shape)
        self.strides = tensor.stride()
        self.dtype = tensor.dtype
        self.device = tensor.device
        self.version = tensor._version
        self.bytes = _span(tensor) * tensor.element_size()
        self.key = _C._storage_key(tensor)
        self.spilled = False
        self.offset = 0  # position in the file
        self.region: _Region | None = None


def _span(tensor: Tensor) -> int:
    """Returns the number of elements from the first to the last that a tensor touches."""
    if tensor.numel() == 0:
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))


class _SpillFile:
    """An unlinked temporary file; the space of dead entries is reused."""

    def __init__(self, directory: str | None) -> None:
        self._fd, name = tempfile.mkstemp(prefix="cograd-spill-", dir=directory)
        os.unlink(name)
        weakref.finalize(self, os.close, self._fd).atexit = False
        self._free: list[tuple[int, int]] = []  # (offset, length)
        self._end = 0

    def write(self, data: memoryview) -> int:
        """Writes the bytes and returns their offset.

        Raises:
            RuntimeError: the disk is full (nothing is changed then).
        """
        need = -(-len(data) // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
        offset = self._take(need)
        try:
            done = 0
            while done < len(data):
                done += os.pwrite(self._fd, data[done:], offset + done)
        except OSError as error:
            self.give(offset, need)
            raise RuntimeError(
                f"saved_tensor_budget(): could not spill {len(data)} bytes to disk "
                f"({os.strerror(error.errno or 0)}); the tensors stay in memory and the graph is "
                "unharmed. Raise the budget, or pass a directory with more free space."
            ) from error
        return offset

    def _take(self, need: int) -> int:
        for i, (offset, length) in enumerate(self._free):
            if length >= need:
                if length == need:
                    del self._free[i]
                else:
                    self._free[i] = (offset + need, length - need)
                return offset
        offset = self._end
        self._end += need
        return offset

    def give(self, offset: int, length: int) -> None:
        """Marks a region as unused."""
        length = -(-length // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
        if length == 0:
            return
        if offset + length == self._end:
            self._end = offset
        else:
            self._free.append((offset, length))

    def map(self, offset: int, length: int, region: _Region | None) -> _Mapping:
        """Maps the bytes as private memory: written pages are copied, the file does not change."""
        memory = _Mapping(self._fd, length, access=mmap.ACCESS_COPY, offset=offset)
        memory.region = region
        return memory


class saved_tensor_budget(saved_tensors_hooks):
    """Context manager that limits the memory of saved tensors by moving them to disk.

    When the tensors saved inside exceed the budget, those that backward needs last (the oldest)
    are written to an unlinked temporary file and mapped back when they are needed; gradients are
    bitwise identical. Leaves, and tensors whose memory a leaf that requires grad owns, are not
    counted: moving them frees nothing. Shared memory is counted once.

    Args:
        budget: bytes, or text such as "2GiB".
        spill: must be "disk".
        directory: directory of the file; default: the system's directory for temporary files.

    Attributes:
        spilled_bytes: bytes written so far.
        resident_bytes: bytes of saved tensors in memory now.

    Raises:
        ValueError: the budget or ``spill`` is invalid.
        RuntimeError: the disk is full (raised by the op that saves), or a saved tensor was written
            in place after it was saved (raised in backward).
    """

    def __init__(
        self, budget: int | str, spill: str = "disk", directory: str | None = None
    ) -> None:
        if spill == "recompute":
            raise NotImplementedError(
                'saved_tensor_budget(): spill="recompute" is not offered; wrap the part to be '
                "recomputed in utils.checkpoint.checkpoint"
            )
        if spill != "disk":
            raise ValueError(f'saved_tensor_budget(): spill must be "disk", got {spill!r}')
        self.budget = _parse_size(budget)
        self.directory = directory
        self.spilled_bytes = 0
        self.resident_bytes = 0
        self._entries: OrderedDict[int, weakref.ref[_Entry]] = OrderedDict()  # oldest first
        self._counts: dict[int, list[int]] = {}  # storage -> [entries, bytes]
        self._file: _SpillFile | None = None
        super().__init__(self._pack, self._unpack)

    def _pack(self, tensor: Tensor) -> Any:
        base = tensor._base if tensor._base is not None else tensor
        if tensor.numel() == 0 or (base.is_leaf and base.requires_grad):
            return tensor
        entry = _Entry(tensor)
        self._count(entry.key, tensor.untyped_storage().nbytes())
        number = id(entry)
        self._entries[number] = weakref.ref(entry)
        weakref.finalize(entry, self._forget, number, entry.key).atexit = False
        self._shrink()
        return entry

    def _count(self, key: int, size: int) -> None:
        count = self._counts.setdefault(key, [0, size])
        if count[0] == 0:
            self.resident_bytes += count[1]
        count[0] += 1

    def _uncount(self, key: int) -> None:
        count = self._counts.get(key)
        if count is None:
            return
        count[0] -= 1
        if count[0] == 0:
            self.resident_bytes -= count[1]
            del self._counts[key]

    def _forget(self, number: int, key: int) -> None:
        if self._entries.pop(number, None) is not None:
            self._uncount(key)

    def _shrink(self) -> None:
        while self.resident_bytes > self.budget and self._entries:
            number, reference = next(iter(self._entries.items()))
            entry = reference()
            if entry is None or entry.tensor is None:
                self._entries.pop(number, None)
                continue
            if entry.tensor._version == entry.version:  # otherwise backward raises when it unpacks
                self._spill(entry)
            self._forget(number, entry.key)

    def _spill(self, entry: _Entry) -> None:
        tensor = entry.tensor
        assert tensor is not None
        if self._file is None:
            self._file = _SpillFile(self.directory)
        flat = tensor.detach().as_strided((_span(tensor),), (1,))
        data = memoryview(cast(Any, flat.view(cograd.uint8).cpu())).cast("B")
        entry.offset = self._file.write(data)
        entry.spilled = True
        entry.tensor = None
        self.spilled_bytes += entry.bytes
        entry.region = _Region()
        weakref.finalize(entry.region, self._file.give, entry.offset, entry.bytes).atexit = False

    def _unpack(self, packed: Any) -> Tensor:
        if isinstance(packed, Tensor):
            return packed
        entry: _Entry = packed
        if entry.tensor is not None:
            self._check_version(entry)
            return entry.tensor
        assert self._file is not None
        memory = self._file.map(entry.offset, entry.bytes, entry.region)
        flat = cograd.frombuffer(memory, dtype=entry.dtype)
        return flat.to(entry.device).as_strided(entry.shape, entry.strides)

    def _check_version(self, entry: _Entry) -> None:
        assert entry.tensor is not None
        if entry.tensor._version != entry.version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an "
                f"inplace operation: a saved tensor of shape {list(entry.shape)} is at version "
                f"{entry.tensor._version}; expected version {entry.version} instead. Hint: write "
                "into a copy (.clone())."
            )
