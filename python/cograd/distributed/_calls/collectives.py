# SPDX-License-Identifier: BSD-3-Clause
"""Collectives on one tensor per rank: barrier, broadcast, all_reduce, reduce."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from cograd.distributed._mpi.buffers import (
    Target,
    flat_source,
    flat_target,
    message,
    source,
    target,
)
from cograd.distributed._mpi.checks import check_list, check_same, check_tensor, check_written
from cograd.distributed._mpi.compare import with_shapes
from cograd.distributed._mpi.dtypes import average_, operation
from cograd.distributed._mpi.extremes import as_keys, is_ordered, keys
from cograd.distributed._mpi.group import ProcessGroup, group_rank, in_group
from cograd.distributed._mpi.watch import poll
from cograd.distributed._mpi.work import Work
from cograd.distributed._names import DistBackendError, ReduceOp, seconds
from cograd.distributed._nccl import calls as _nccl

if TYPE_CHECKING:
    from cograd import Tensor

__all__ = [
    "all_reduce",
    "all_reduce_coalesced",
    "barrier",
    "broadcast",
    "monitored_barrier",
    "reduce",
]


def barrier(
    group: ProcessGroup | None = None,
    async_op: bool = False,
    device_ids: Any = None,
    timeout: timedelta | None = None,
) -> Work | None:
    """Waits until all ranks of the group have called it.

    ``timeout`` replaces the group's for this call. In a group of the backend "nccl" it also waits
    for the work of the current stream of the GPU ``device_ids[0]``, or of the current GPU.
    """
    pg = in_group("barrier", group)
    if pg is None:
        return None
    if pg._backend == "nccl" and timeout is None:
        return _nccl.barrier(pg, device_ids[0] if device_ids else None, async_op).work
    limit = None if timeout is None else seconds("barrier", timeout)
    return pg.collective(
        "barrier", None, lambda comm: comm.Ibarrier(), async_op=async_op, timeout=limit
    )


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Copies the tensor of rank ``src`` into that of every other rank.

    Args:
        tensor: any shape and dtype, the same on all ranks; written on all ranks but the source.
        src: global rank of the source.
        group: the ranks that take part; None for all.
        async_op: whether to return a Work instead of waiting.
        group_src: the source's rank in the group, instead of ``src``.

    Raises:
        TypeError: ``tensor`` is not a Tensor.
        ValueError: the source is not in the group.
        DistBackendError: MPI fails, another rank fails, or the timeout passes.
    """
    check_tensor("broadcast", "tensor", tensor)
    pg = in_group("broadcast", group)
    if pg is None:
        return None
    root = group_rank("broadcast", pg, "src", src, group_src)
    if _nccl.is_for_gpus("broadcast", pg, [tensor]):
        if root != pg.rank():
            check_written("broadcast", "tensor", tensor)
        return _nccl.broadcast(pg, tensor, root, async_op).work
    mpi = pg._runtime.MPI
    if root == pg.rank():
        memory, finish = source(tensor), None
    else:
        check_written("broadcast", "tensor", tensor)
        place = target(tensor)
        memory, finish = place.memory, place.finish
    spec = message(mpi, memory)
    return pg.collective(
        "broadcast",
        tensor,
        lambda comm: comm.Ibcast(spec, root),
        keep=(memory, tensor),
        finish=finish,
        async_op=async_op,
        detail=f"src={pg.ranks[root]}",
        result=tensor,
    )


def reduced(place: Target, op: ReduceOp, size: int) -> Callable[[], None]:
    """Returns a function that copies a sum to the tensors, after division for an average."""
    if op is not ReduceOp.AVG:
        return place.finish

    def finish() -> None:
        average_(place.memory, size)
        place.finish()

    return finish


def all_reduce(
    tensor: Tensor,
    op: ReduceOp = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Replaces the tensor on every rank by the sum (or another reduction) over the ranks.

    All ranks receive the same bits. float16 and bfloat16 are summed in float32 and rounded once.

    Args:
        tensor: any shape and dtype, the same on all ranks; written without autograd.
        op: the reduction.
        group: the ranks that take part; None for all.
        async_op: whether to return a Work instead of waiting.

    Raises:
        TypeError: ``tensor`` is not a Tensor, or ``op`` is not a ReduceOp.
        ValueError, RuntimeError: ``op`` does not support the dtype.
        DistBackendError: MPI fails, another rank fails, or the timeout passes.
    """
    check_written("all_reduce", "tensor", tensor)
    pg = in_group("all_reduce", group)
    if pg is None:
        return None
    if _nccl.is_for_gpus("all_reduce", pg, [tensor]):
        started = _nccl.all_reduce(pg, "all_reduce", [tensor], op, async_op)
        if started is not None:
            return started.work
    mpi = pg._runtime.MPI
    place = target(tensor, reduced=True, filled=True)
    if is_ordered(op, place.memory.dtype):
        place = as_keys(place, op)
    how = operation(mpi, "all_reduce", place.memory.dtype, op)
    spec = message(mpi, place.memory)
    return pg.collective(
        "all_reduce",
        tensor,
        lambda comm: comm.Iallreduce(mpi.IN_PLACE, spec, how),
        keep=(place.memory, tensor),
        finish=reduced(place, op, pg.size()),
        async_op=async_op,
        detail=op,
        result=tensor,
    )


def all_reduce_coalesced(
    tensors: Sequence[Tensor],
    op: ReduceOp = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Runs ``all_reduce`` on several tensors of one dtype in a single message."""
    given = check_list("all_reduce_coalesced", "tensors", tensors)
    if not given:
        raise ValueError("all_reduce_coalesced: tensors is empty")
    for tensor in given:
        check_written("all_reduce_coalesced", "tensors", tensor)
    check_same("all_reduce_coalesced", "tensors", given, given[0])
    pg = in_group("all_reduce_coalesced", group)
    if pg is None:
        return None
    if _nccl.is_for_gpus("all_reduce_coalesced", pg, given):
        started = _nccl.all_reduce(pg, "all_reduce_coalesced", given, op, async_op)
        if started is not None:
            return started.work
    mpi = pg._runtime.MPI
    place = flat_target(given, reduced=True)
    how = operation(mpi, "all_reduce_coalesced", place.memory.dtype, op)
    values = flat_source(given, reduced=True)
    if values.data_ptr() != place.memory.data_ptr():
        place.memory.copy_(values)
    if is_ordered(op, values.dtype):
        place = as_keys(place, op)
        how = operation(mpi, "all_reduce_coalesced", place.memory.dtype, op)
    spec = message(mpi, place.memory)
    return pg.collective(
        "all_reduce_coalesced",
        values,
        lambda comm: comm.Iallreduce(mpi.IN_PLACE, spec, how),
        keep=(place.memory, given),
        finish=reduced(place, op, pg.size()),
        async_op=async_op,
        detail=with_shapes(op, given),
        result=given,
    )


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: ReduceOp = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Reduces as ``all_reduce``, but only rank ``dst`` receives the result.

    Args:
        tensor: any shape and dtype, the same on all ranks; written only on ``dst``.
        dst: global rank of the receiver.
        op: the reduction.
        group: the ranks that take part; None for all.
        async_op: whether to return a Work instead of waiting.
        group_dst: the receiver's rank in the group, instead of ``dst``.

    Raises:
        The same as ``all_reduce``, and ValueError if the receiver is not in the group.
    """
    check_tensor("reduce", "tensor", tensor)
    pg = in_group("reduce", group)
    if pg is None:
        return None
    root = group_rank("reduce", pg, "dst", dst, group_dst)
    if _nccl.is_for_gpus("reduce", pg, [tensor]):
        if root == pg.rank():
            check_written("reduce", "tensor", tensor)
        started = _nccl.reduce(pg, tensor, root, op, async_op)
        if started is not None:
            return started.work
    mpi = pg._runtime.MPI
    finish = None
    if root == pg.rank():
        check_written("reduce", "tensor", tensor)
        place = target(tensor, reduced=True, filled=True)
        if is_ordered(op, place.memory.dtype):
            place = as_keys(place, op)
        memory, finish = place.memory, reduced(place, op, pg.size())
    else:
        memory = source(tensor, reduced=True)
        memory = keys(memory, op) if is_ordered(op, memory.dtype) else memory
    how = operation(mpi, "reduce", memory.dtype, op)
    spec = message(mpi, memory)

    def start(comm: Any) -> Any:
        if root == pg.rank():
            return comm.Ireduce(mpi.IN_PLACE, spec, how, root)
        return comm.Ireduce(spec, None, how, root)

    return pg.collective(
        "reduce",
        tensor,
        start,
        keep=(memory, tensor),
        finish=finish,
        async_op=async_op,
        detail=f"{op.name}, dst={pg.ranks[root]}",
        result=tensor,
    )


def monitored_barrier(
    group: ProcessGroup | None = None,
    timeout: timedelta | None = None,
    wait_all_ranks: bool = False,
) -> None:
    """Waits for all ranks, and reports which ranks did not call it.

    Rank 0 of the group waits for a message from each other rank and then releases them.

    Args:
        group: the ranks that take part; None for all.
        timeout: how long to wait; None for the group's timeout.
        wait_all_ranks: whether to name all missing ranks, not only the first.

    Raises:
        DistBackendError: a rank did not call it in time; raised on every rank that did.
    """
    pg = in_group("monitored_barrier", group)
    if pg is None:
        return
    runtime = pg._alive()
    limit = pg.timeout if timeout is None else seconds("monitored_barrier", timeout)
    tag, empty = runtime.tag_limit - 1, bytearray()
    text = "monitored_barrier"
    runtime.board.enter(True, 0, text.encode())
    if pg.rank():
        pg.comm.Isend([empty, 0, runtime.MPI.BYTE], 0, tag).Wait()
        request = pg.comm.Irecv([empty, 0, runtime.MPI.BYTE], 0, tag)
        # Rank 0 reports the missing rank; the additional 5 s leave it time to do so.
        poll(request.Test, runtime, pg, lambda: text, timeout=limit + 5.0, peers=[pg.ranks[0]])
    else:
        _hear(pg, tag, limit, wait_all_ranks)
        for rank in range(1, pg.size()):
            pg.comm.Isend([empty, 0, runtime.MPI.BYTE], rank, tag).Wait()
    runtime.board.leave()


def _hear(pg: ProcessGroup, tag: int, limit: float, wait_all_ranks: bool) -> None:
    """Waits on rank 0 for a message from every other rank."""
    runtime = pg._runtime
    empty = bytearray()
    requests = {
        rank: pg.comm.Irecv([empty, 0, runtime.MPI.BYTE], rank, tag) for rank in range(1, pg.size())
    }

    def test() -> bool:
        for rank in list(requests):
            if requests[rank].Test():
                del requests[rank]
        return not requests

    try:
        poll(test, runtime, pg, lambda: "monitored_barrier", timeout=limit, fatal=False)
    except DistBackendError as error:
        runtime.parked.append(requests)
        if runtime.broken is not None:
            raise
        missing = [pg.ranks[rank] for rank in sorted(requests)]
        which = f"ranks {missing}" if wait_all_ranks else f"rank {missing[0]}"
        raise runtime.fail(
            f"monitored_barrier: {which} did not come within {limit:g} s\n"
            + str(error).partition("\n")[2]
        ) from None
