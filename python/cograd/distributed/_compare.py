# SPDX-License-Identifier: BSD-3-Clause
"""Debug mode: the ranks compare their calls before each collective."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cograd.distributed import _names
from cograd.distributed._names import DistBackendError
from cograd.distributed._watch import complete

if TYPE_CHECKING:
    from cograd import Tensor
    from cograd.distributed._group import ProcessGroup

__all__ = ["compare", "compare_counts", "with_shapes"]

_SIZE = 1024


def compare(group: ProcessGroup, number: int, what: str, text: bytes) -> None:
    """Raises on every rank if the calls, tensors or sequence numbers differ.

    The collective itself has not sent anything by then, so the group stays usable.
    """
    if group.size() == 1:
        return
    runtime = group._runtime
    runtime.board.enter(True, number, text)
    if group._beside is None:
        group._beside, request = group.comm.Idup()
        complete([request], None, runtime, group, text.decode, timeout=group.timeout)
    own = f"{number}\0{what}".encode()[:_SIZE].ljust(_SIZE, b"\0")
    every = bytearray(_SIZE * group.size())
    byte = runtime.MPI.BYTE
    request = group._beside.Iallgather([own, byte], [every, byte])
    complete([request], (own, every), runtime, group, text.decode, timeout=group.timeout)
    runtime.board.leave()
    calls = []
    for at in range(group.size()):
        raw = bytes(every[at * _SIZE : (at + 1) * _SIZE]).rstrip(b"\0")
        count, _, call = raw.decode(errors="replace").partition("\0")
        calls.append((count, *call.rpartition(" at ")[::2]))
    first = calls[0][:2]
    other = next((at for at, call in enumerate(calls) if call[:2] != first), None)
    if other is None:
        return
    lines = [
        f"  rank {rank}: {call} at {site} (call {count})"
        for rank, (count, call, site) in zip(group.ranks, calls, strict=True)
    ]
    raise DistBackendError(
        f"the ranks of group {group.group_name} are about to run different collectives: rank "
        f"{group.ranks[0]} is at {calls[0][2]}, rank {group.ranks[other]} at {calls[other][2]}\n"
        + "\n".join(lines)
    )


def with_shapes(detail: Any, tensors: Sequence[Tensor]) -> Any:
    """In debug mode, adds to ``detail`` the shapes of a list, which all ranks must share."""
    if _names._level is _names.DebugLevel.OFF:
        return detail
    own = detail.name if isinstance(detail, _names.ReduceOp) else detail
    shapes = f"shapes {[list(t.shape) for t in tensors]}"
    return f"{own}, {shapes}" if own else shapes


def compare_counts(group: ProcessGroup, name: str, sent: list[int], received: list[int]) -> None:
    """In debug mode, raises on every rank unless all send as many elements as others expect."""
    size = group.size()
    if _names._level is _names.DebugLevel.OFF or size == 1:
        return
    runtime, kind = group._runtime, group._runtime.MPI.INT64_T
    own = memoryview(bytearray(16 * size)).cast("q")
    every = memoryview(bytearray(16 * size * size)).cast("q")
    for at, count in enumerate(sent + received):
        own[at] = count
    request = group._beside.Iallgather([own, kind], [every, kind])
    complete([request], (own, every), runtime, group, lambda: name, timeout=group.timeout)
    for at, of in ((at, of) for at in range(size) for of in range(size)):
        given, expected = every[2 * size * of + at], every[2 * size * at + size + of]
        if given != expected:
            raise DistBackendError(
                f"{name}: rank {group.ranks[of]} sends {given} elements to rank "
                f"{group.ranks[at]}, which expects {expected}"
            )
