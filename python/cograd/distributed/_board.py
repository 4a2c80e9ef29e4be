# SPDX-License-Identifier: BSD-3-Clause
"""Publishes what every rank is doing, so that others can read it while a collective hangs.

Each rank writes one record into the shared memory of its node (an MPI window), so that reading
needs no help of a rank that hangs. Records of other nodes are read by one-sided MPI with a time
limit.
"""

from __future__ import annotations

import struct
import time
from typing import Any

__all__ = ["FAILED", "GONE", "LEFT", "RUNNING", "Board", "Entry", "spoken"]

RUNNING, LEFT, FAILED, GONE = 0, 1, 2, 3  # GONE: failed and reached its end
_SIZE = 2560
_HEAD = struct.Struct("<qqqqdd")  # life, busy, number, text length, time of life, time of text
_LIFE = struct.Struct("<q")
_TEXT, _REASON, _ALARM, _CALLS = 64, 1024, 2040, 2048
_CALL = struct.Struct("<QQ")  # call of a group, hash of what it is; for the last 32 calls
_ROOM = 900


def spoken(text: str, number: int) -> str:
    """Returns the description of a call with its number in the group, if it has one."""
    return f"{text}, call {number}" if number else text


class Entry:
    """One rank's record, as read."""

    def __init__(self, rank: int, raw: bytes) -> None:
        self.rank = rank
        self.life, self.busy, self.number, length, self.ended, self.since = _HEAD.unpack_from(raw)
        self.text = raw[_TEXT : _TEXT + min(length, _ROOM)].decode(errors="replace")
        self.text = spoken(self.text, self.number)
        self.reason = raw[_REASON : _REASON + _ROOM].split(b"\0")[0].decode(errors="replace")

    def __str__(self) -> str:
        head = f"rank {self.rank}: "
        age = f"{max(0.0, time.time() - self.since):.1f} s"
        last = f"the last call was {self.text}" if self.text else "no call yet"
        if self.life in (FAILED, GONE) and not self.busy:
            return f"{head}failed: {self.reason}; {last}"
        if self.life == LEFT:
            return f"{head}has ended its program; {last}"
        if self.busy:
            return f"{head}in {self.text} for {age}"
        return f"{head}computing for {age}; {last}" if self.text else f"{head}computing; {last}"


class Board:
    """The records of all ranks: writes this rank's record and reads the others'."""

    def __init__(self, mpi: Any, world: Any, node: Any) -> None:
        """Creates the windows; ``node`` is the communicator of the ranks that share memory."""
        self._mpi = mpi
        self._world = world
        self._window = mpi.Win.Allocate_shared(_SIZE, 1, comm=node)
        translate = node.Get_group().Translate_ranks
        locals_ = translate(list(range(node.size)), world.Get_group())
        self._near = {
            rank: memoryview(self._window.Shared_query(at)[0]).cast("B")
            for at, rank in enumerate(locals_)
        }
        self.rank = world.rank
        self._own = self._near[world.rank]
        self._own[:] = bytes(_SIZE)
        leader = self._near[locals_[0]]
        self.alarm = leader[_ALARM : _ALARM + 8].cast("q")
        leaders = world.allgather(locals_[0])
        self._leaders = sorted(set(leaders) - {locals_[0]})
        self._far = None
        if node.size < world.size:
            self._far = mpi.Win.Create(self._own, 1, comm=world)
            self._far.Lock_all(mpi.MODE_NOCHECK)
        world.Barrier()

    def enter(self, busy: bool, number: int, text: bytes) -> None:
        """Records that this rank begins a call."""
        n = len(text)
        self._own[_TEXT : _TEXT + n] = text
        _HEAD.pack_into(self._own, 0, RUNNING, busy, number, n, 0.0, time.time())

    def leave(self) -> None:
        """Records that this rank's call has returned."""
        _LIFE.pack_into(self._own, 8, 0)

    def note(self, call: int, what: int) -> None:
        """Records that this rank's call number ``call`` is ``what``, a hash equal on all ranks."""
        _CALL.pack_into(self._own, _CALLS + 16 * (call & 31), call, what)

    def differs(self, rank: int, call: int, what: int) -> bool:
        """Returns whether a rank of this node has recorded another ``what`` for this call."""
        raw = self._near.get(rank)
        if raw is None:
            return False
        place = _CALLS + 16 * (call & 31)
        found = _CALL.unpack_from(raw, place)
        if found[0] != call or found[1] == what:
            return False
        return _CALL.unpack_from(raw, place) == found  # False if it is being overwritten

    def gone(self) -> None:
        """Records that this rank has failed and has reached its end."""
        _LIFE.pack_into(self._own, 0, GONE)

    def end(self, life: int, reason: str = "") -> None:
        """Records that this rank has left or failed; a failure sets the alarm of every node."""
        raw = reason.encode(errors="replace")[:_ROOM]
        self._own[_REASON : _REASON + len(raw) + 1] = raw + b"\0"
        struct.pack_into("<d", self._own, 32, time.time())
        _LIFE.pack_into(self._own, 0, life)
        if life == FAILED:
            if not self.alarm[0]:
                self.alarm[0] = self.rank + 1
            for rank in self._leaders:
                self._ring(rank)

    def life(self, rank: int) -> tuple[int, float]:
        """Returns the life of a rank of this node and its time; RUNNING for other nodes."""
        raw = self._near.get(rank)
        if raw is None:
            return RUNNING, 0.0
        life, *_, ended, _since = _HEAD.unpack_from(raw)
        return life, ended

    def near(self) -> list[int]:
        """Returns the ranks of this node."""
        return list(self._near)

    def read(self, rank: int) -> Entry | None:
        """Reads a rank's record; returns None if another node does not answer within a second."""
        raw = self._near.get(rank)
        if raw is not None:
            return Entry(rank, bytes(raw))
        into = bytearray(_SIZE)
        return Entry(rank, bytes(into)) if self._one_sided("Rget", into, rank, 0) else None

    def describe(self, ranks: list[int]) -> str:
        """Returns one line for each rank that describes what it is doing."""
        lines = []
        for rank in ranks:
            entry = self.read(rank)
            lines.append(f"  rank {rank}: does not answer" if entry is None else f"  {entry}")
        return "\n".join(lines)

    def _ring(self, rank: int) -> None:
        self._one_sided("Rput", bytearray(struct.pack("<q", self.rank + 1)), rank, _ALARM)

    def _one_sided(self, call: str, data: bytearray, rank: int, offset: int) -> bool:
        if self._far is None:
            return False
        byte = self._mpi.BYTE
        request = getattr(self._far, call)([data, byte], rank, [offset, len(data), byte])
        end = time.monotonic() + 1.0
        while not request.Test():
            if time.monotonic() > end:
                _abandoned.append((request, data))
                return False
            time.sleep(1e-4)
        if call == "Rput":
            self._far.Flush_local(rank)
        return True


_abandoned: list[Any] = []  # memory that MPI may still write to
