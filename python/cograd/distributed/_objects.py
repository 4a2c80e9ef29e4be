# SPDX-License-Identifier: BSD-3-Clause
"""Sends pickled Python objects over MPI; unpickling runs code, so ranks must trust each other."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, TypeVar

from cograd.distributed._group import ProcessGroup, group_rank, in_group
from cograd.distributed._names import DistBackendError
from cograd.distributed._watch import call_site, complete, describe, poll

__all__ = [
    "all_gather_object",
    "broadcast_object_list",
    "exchange",
    "gather_object",
    "recv_object_list",
    "scatter_object_list",
    "send_object_list",
]

T = TypeVar("T")
_TAG = 2  # subtracted from the largest tag


def _tried(make: Callable[[], T]) -> T | Exception:
    """Returns the result of ``make`` or its error, so that waiting ranks learn of a failure."""
    try:
        return make()
    except Exception as error:
        return error


def _check_pickled(name: str, given: T | Exception, failed: list[int]) -> T:
    """Raises on every rank if some could not pickle their objects; the group stays usable."""
    if isinstance(given, Exception):
        raise given
    if failed:
        raise DistBackendError(f"{name}: rank {failed[0]} could not pickle its objects")
    return given


def _sized(
    pg: ProcessGroup, name: str, detail: str, given: bytes | Exception
) -> tuple[bytes, list[int]]:
    """Returns the bytes that this rank will send, and the sizes of all ranks' bytes."""
    mpi = pg._runtime.MPI
    own, every = memoryview(bytearray(8)).cast("q"), memoryview(bytearray(8 * pg.size())).cast("q")
    own[0] = len(given) if isinstance(given, bytes) else -1
    pg.collective(
        name,
        None,
        lambda comm: comm.Iallgather([own, mpi.INT64_T], [every, mpi.INT64_T]),
        keep=(own, every),
        detail=detail,
    )
    sizes = list(every)
    failed = [rank for rank, size in zip(pg.ranks, sizes, strict=True) if size < 0]
    return _check_pickled(name, given, failed), sizes


def _places(sizes: list[int]) -> list[int]:
    return [sum(sizes[:at]) for at in range(len(sizes))]


def _all_bytes(pg: ProcessGroup, name: str, given: bytes | Exception) -> list[bytes]:
    """Returns the bytes of every rank."""
    byte = pg._runtime.MPI.BYTE
    data, sizes = _sized(pg, name, "", given)
    places, every = _places(sizes), bytearray(sum(sizes))
    pg.collective(
        name,
        None,
        lambda comm: comm.Iallgatherv([data, byte], [every, (sizes, places), byte]),
        keep=(data, every),
        detail="data",
        nbytes=len(every),
    )
    return [bytes(every[at : at + n]) for at, n in zip(places, sizes, strict=True)]


def exchange(pg: ProcessGroup, name: str, text: str) -> list[str]:
    """Returns the text of every rank."""
    return [data.decode() for data in _all_bytes(pg, name, text.encode())]


def _check_list(name: str, argument: str, value: Any, size: int | None = None) -> None:
    if not isinstance(value, list):
        raise TypeError(f"{name}: {argument} must be a list, got {type(value).__name__}")
    if size is not None and len(value) != size:
        raise ValueError(
            f"{name}: {argument} has {len(value)} elements, expected one for each of the {size} "
            "ranks of the group"
        )


def all_gather_object(object_list: list[Any], obj: Any, group: ProcessGroup | None = None) -> None:
    """Collects one picklable object from every rank into ``object_list`` on all ranks.

    Args:
        object_list: a list with one element for each rank; overwritten.
        obj: this rank's object.
        group: the ranks that take part; None for all.

    Raises:
        TypeError, ValueError: an argument is not a list, or its length does not fit.
        DistBackendError: MPI fails, another rank fails, or the timeout passes.
    """
    pg = in_group("all_gather_object", group)
    if pg is None:
        return
    _check_list("all_gather_object", "object_list", object_list, pg.size())
    every = _all_bytes(pg, "all_gather_object", _tried(lambda: pickle.dumps(obj)))
    for at, data in enumerate(every):
        object_list[at] = pickle.loads(data)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    group_dst: int | None = None,
) -> None:
    """Collects one picklable object from every rank into a list on rank ``dst`` (default 0).

    Other ranks omit ``object_gather_list``. It raises the errors of ``all_gather_object``.
    """
    pg = in_group("gather_object", group)
    if pg is None:
        return
    root = group_rank("gather_object", pg, "dst", dst, group_dst, default=0)
    if root == pg.rank():
        if object_gather_list is None:
            raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
        _check_list("gather_object", "object_gather_list", object_gather_list, pg.size())
    elif object_gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    byte = pg._runtime.MPI.BYTE
    detail = f"dst={pg.ranks[root]}"
    data, sizes = _sized(pg, "gather_object", detail, _tried(lambda: pickle.dumps(obj)))
    places = _places(sizes)
    every = bytearray(sum(sizes) if root == pg.rank() else 0)
    receive = [every, (sizes, places), byte] if root == pg.rank() else None
    pg.collective(
        "gather_object",
        None,
        lambda comm: comm.Igatherv([data, byte], receive, root),
        keep=(data, every),
        detail=f"{detail}, data",
        nbytes=sum(sizes),
    )
    if object_gather_list is not None and root == pg.rank():
        for at, (place, size) in enumerate(zip(places, sizes, strict=True)):
            object_gather_list[at] = pickle.loads(bytes(every[place : place + size]))


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: ProcessGroup | None = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Copies the picklable objects of rank ``src`` (default 0) into the list on all ranks.

    Args:
        object_list: of the same length on all ranks; overwritten on all but the source.
        src: global rank of the source.
        group: the ranks that take part; None for all.
        device: ignored.
        group_src: the source's rank in the group, instead of ``src``.

    Raises:
        The same as ``all_gather_object``; ValueError if the lengths differ.
    """
    name = "broadcast_object_list"
    pg = in_group(name, group)
    if pg is None:
        return
    _check_list(name, "object_list", object_list)
    root = group_rank(name, pg, "src", src, group_src, default=0)
    detail = f"src={pg.ranks[root]}"
    given = _tried(lambda: pickle.dumps(object_list)) if root == pg.rank() else b""
    data, sizes = _sized(pg, name, detail, given)
    memory = bytearray(data) if root == pg.rank() else bytearray(sizes[root])
    byte = pg._runtime.MPI.BYTE
    pg.collective(
        name,
        None,
        lambda comm: comm.Ibcast([memory, byte], root),
        keep=memory,
        detail=f"{detail}, data",
        nbytes=sizes[root],
    )
    if root != pg.rank():
        _fill(name, object_list, pickle.loads(bytes(memory)), pg.ranks[root])


def _fill(name: str, object_list: list[Any], objects: list[Any], sender: int) -> None:
    if len(objects) != len(object_list):
        raise ValueError(
            f"{name}: rank {sender} sent {len(objects)} objects, object_list has {len(object_list)}"
        )
    object_list[:] = objects


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    group_src: int | None = None,
) -> None:
    """Gives each rank one of the picklable objects of rank ``src`` (default 0).

    Args:
        scatter_object_output_list: a list whose first element is overwritten.
        scatter_object_input_list: on the source one object for each rank.
        src: global rank of the source.
        group: the ranks that take part; None for all.
        group_src: the source's rank in the group, instead of ``src``.

    Raises:
        The same as ``all_gather_object``.
    """
    name = "scatter_object_list"
    pg = in_group(name, group)
    if pg is None:
        return
    output = scatter_object_output_list
    if not isinstance(output, list) or len(output) < 1:
        raise ValueError(
            "Expected argument scatter_object_output_list to be a list of size at least 1."
        )
    root = group_rank(name, pg, "src", src, group_src, default=0)
    given: list[bytes] | Exception = []
    if root == pg.rank():
        _check_list(name, "scatter_object_input_list", scatter_object_input_list, pg.size())
        given = _tried(lambda: [pickle.dumps(obj) for obj in scatter_object_input_list or ()])
    mpi = pg._runtime.MPI
    detail = f"src={pg.ranks[root]}"
    sizes = memoryview(bytearray(8 * pg.size())).cast("q")
    if isinstance(given, Exception):
        sizes[0] = -1
    else:
        for at, part in enumerate(given):
            sizes[at] = len(part)
    pg.collective(
        name,
        None,
        lambda comm: comm.Ibcast([sizes, mpi.INT64_T], root),
        keep=sizes,
        detail=detail,
    )
    every = list(sizes)
    parts = _check_pickled(name, given, [pg.ranks[root]] if every[0] < 0 else [])
    data, own = b"".join(parts), bytearray(every[pg.rank()])
    send = [data, (every, _places(every)), mpi.BYTE] if root == pg.rank() else None
    pg.collective(
        name,
        None,
        lambda comm: comm.Iscatterv(send, [own, mpi.BYTE], root),
        keep=(data, own),
        detail=f"{detail}, data",
        nbytes=sum(every),
    )
    output[0] = pickle.loads(bytes(own))


def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: ProcessGroup | None = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Sends picklable objects to rank ``dst``, which calls ``recv_object_list``.

    ``device`` and ``use_batch`` are ignored. Raises TypeError if the argument is not a list,
    ValueError for an invalid rank, and DistBackendError if MPI fails, another rank fails, or the
    timeout passes.
    """
    name = "send_object_list"
    pg = in_group(name, group)
    if pg is None:
        return
    _check_list(name, "object_list", object_list)
    to = group_rank(name, pg, "dst", dst, group_dst)
    if to == pg.rank():
        raise ValueError("Invalid destination rank: it is that of the current process.")
    runtime = pg._alive()
    given = _tried(lambda: pickle.dumps(object_list))
    data = given if isinstance(given, bytes) else b""  # an empty message signals a failure
    text = describe(f"{name}(dst={pg.ranks[to]})", None, None, call_site())
    runtime.board.enter(True, 0, text.encode()[:900])
    request = pg.comm.Isend([data, runtime.MPI.BYTE], to, runtime.tag_limit - _TAG)
    waiting = {"timeout": pg.timeout, "nbytes": len(data), "peers": [pg.ranks[to]]}
    complete([request], data, runtime, pg, lambda: text, **waiting)
    runtime.board.leave()
    if isinstance(given, Exception):
        raise given


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: ProcessGroup | None = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Receives the objects of ``send_object_list`` into a list of the same length.

    Returns the sender's global rank, or -1 on a process that is not a member; ``src`` None
    accepts any sender. Raises the errors of ``send_object_list``, and ValueError if the lengths
    differ.
    """
    name = "recv_object_list"
    pg = in_group(name, group)
    if pg is None:
        return -1
    _check_list(name, "object_list", object_list)
    runtime = pg._alive()
    mpi = runtime.MPI
    of, peers = mpi.ANY_SOURCE, [rank for rank in pg.ranks if rank != runtime.rank]
    if src is not None or group_src is not None:
        of = group_rank(name, pg, "src", src, group_src)
        peers = [pg.ranks[of]]
        if of == pg.rank():
            raise ValueError("Invalid source rank: it is that of the current process.")
    text = describe(f"{name}(src={peers})", None, None, call_site())
    runtime.board.enter(True, 0, text.encode()[:900])
    status, found = mpi.Status(), []

    def probe() -> bool:
        message = pg.comm.Improbe(of, runtime.tag_limit - _TAG, status)
        if message is not None:
            found.append(message)
        return message is not None

    poll(probe, runtime, pg, lambda: text, timeout=pg.timeout, peers=peers)
    data = bytearray(status.Get_count(mpi.BYTE))
    request = found[0].Irecv([data, mpi.BYTE])
    waiting = {"timeout": pg.timeout, "nbytes": len(data), "peers": peers}
    complete([request], data, runtime, pg, lambda: text, **waiting)
    runtime.board.leave()
    sender: int = pg.ranks[status.Get_source()]
    if not data:
        raise DistBackendError(f"{name}: rank {sender} could not pickle its objects")
    _fill(name, object_list, pickle.loads(bytes(data)), sender)
    return sender
