# SPDX-License-Identifier: BSD-3-Clause
"""Messages between two ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cograd.distributed._mpi.buffers import message, source, target
from cograd.distributed._mpi.checks import check_int, check_tensor, check_written
from cograd.distributed._mpi.group import ProcessGroup, group_rank, in_group, resolve
from cograd.distributed._mpi.work import Work
from cograd.distributed._nccl import calls as _nccl

if TYPE_CHECKING:
    from cograd import Tensor

__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"]

RESERVED = 16  # number of tags that this package uses internally


def _check_tag(name: str, pg: ProcessGroup, tag: Any) -> int:
    found = check_int(name, "tag", tag)
    limit = pg._runtime.tag_limit - RESERVED
    if not 0 <= found <= limit:
        raise ValueError(f"{name}: tag must be from 0 to {limit}, got {found}")
    return found


def _send(
    name: str, tensor: Any, dst: Any, group: Any, tag: Any, group_dst: Any, async_op: bool
) -> Work | None:
    check_tensor(name, "tensor", tensor)
    pg = in_group(name, group)
    if pg is None:
        return None
    to = group_rank(name, pg, "dst", dst, group_dst)
    if to == pg.rank():
        raise ValueError(
            "Invalid destination rank: destination rank should not be the same as the rank of "
            "the current process."
        )
    label = _check_tag(name, pg, tag)
    if _nccl.is_for_gpus(name, pg, [tensor], whole=False):
        return _nccl.message(pg, name, tensor, to, sends=True, async_op=async_op).work
    memory = source(tensor)
    spec = message(pg._runtime.MPI, memory)
    return pg.point_to_point(
        name,
        tensor,
        lambda comm: comm.Isend(spec, to, label),
        [pg.ranks[to]],
        detail=f"dst={pg.ranks[to]}, tag={label}",
        keep=(memory, tensor),
        async_op=async_op,
    )


def _receive(
    name: str, tensor: Any, src: Any, group: Any, tag: Any, group_src: Any, async_op: bool
) -> tuple[ProcessGroup, Any, Work | None] | None:
    check_written(name, "tensor", tensor)
    pg = in_group(name, group)
    if pg is None:
        return None
    mpi = pg._runtime.MPI
    label = _check_tag(name, pg, tag)
    for_gpus = _nccl.is_for_gpus(name, pg, [tensor], whole=False)
    if src is None and group_src is None:
        if for_gpus:
            raise RuntimeError(
                f"{name}: NCCL does not receive from any rank; pass src, or a tensor of the CPU"
            )
        of, peers, who = mpi.ANY_SOURCE, [r for r in pg.ranks if r != pg._runtime.rank], "any"
    else:
        of = group_rank(name, pg, "src", src, group_src)
        peers, who = [pg.ranks[of]], str(pg.ranks[of])
        if of == pg.rank():
            raise ValueError(
                "Invalid source rank: source rank should not be the same as the rank of the "
                "current process."
            )
    if for_gpus:
        started = _nccl.message(pg, name, tensor, of, sends=False, async_op=async_op)
        return pg, pg.ranks[of], started.work
    place = target(tensor)
    spec = message(mpi, place.memory)
    status = mpi.Status()

    def finish() -> None:
        count = status.Get_elements(spec[2])
        if count != spec[1]:
            sender = pg.ranks[status.Get_source()]
            raise RuntimeError(
                f"{name}: rank {sender} sent {count} elements, the tensor of shape "
                f"{list(tensor.shape)} {tensor.dtype} has {spec[1]}"
            )
        place.finish()

    work = pg.point_to_point(
        name,
        tensor,
        lambda comm: comm.Irecv(spec, of, label),
        peers,
        detail=f"src={who}, tag={label}",
        keep=(place.memory, tensor),
        finish=finish,
        async_op=async_op,
        status=status,
    )
    return pg, status, work


def isend(
    tensor: Tensor,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:
    """Begins to send a tensor; its memory must not change before the Work is complete.

    Args:
        tensor: any shape and dtype.
        dst: global rank of the receiver.
        group: the process group; None for the default group.
        tag: the tag, which must be that of the receiver's call.
        group_dst: the receiver's rank in the group, instead of ``dst``.

    Raises:
        TypeError, ValueError: a tensor, rank or tag is invalid, or the rank is this process's own.
    """
    return _send("isend", tensor, dst, group, tag, group_dst, True)


def send(
    tensor: Tensor,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """Sends a tensor and returns once its memory may change.

    The arguments and errors are those of ``isend``; it also raises DistBackendError if MPI fails,
    another rank fails or the timeout passes. Large messages wait for the receiver.
    """
    _send("send", tensor, dst, group, tag, group_dst, False)


def irecv(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Work | None:
    """Begins to receive a tensor, which must not be used before the Work is complete.

    Args:
        tensor: of the sender's dtype and number of elements; written.
        src: global rank of the sender; any sender if neither is given.
        group: the process group; None for the default group.
        tag: the tag of the sender's call.
        group_src: the sender's rank in the group, instead of ``src``.

    Raises:
        TypeError, ValueError: a tensor, rank or tag is invalid, or the rank is this process's own.
    """
    received = _receive("irecv", tensor, src, group, tag, group_src, True)
    return None if received is None else received[2]


def recv(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Receives a tensor; returns the sender's global rank, or -1 if not a member of the group.

    The arguments and errors are those of ``irecv``. It also raises RuntimeError if the sender's
    tensor is smaller, and DistBackendError if it is larger, MPI or another rank fails, or the
    timeout passes.
    """
    received = _receive("recv", tensor, src, group, tag, group_src, False)
    if received is None:
        return -1
    pg, sender, _ = received
    if isinstance(sender, int):
        return sender
    at: int = sender.Get_source()
    return pg.ranks[at]


class P2POp:
    """A send or a receive for ``batch_isend_irecv``.

    Args:
        op: ``isend`` or ``irecv``.
        tensor: the tensor to send or to write.
        peer: global rank of the other side.
        group: the process group; None for the default group.
        tag: as in ``isend``.
        group_peer: the other side's rank in the group, instead of ``peer``.
    """

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: Tensor,
        peer: int | None = None,
        group: ProcessGroup | None = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``distributed.isend`` or "
                "``distributed.irecv``."
            )
        check_tensor("P2POp", "tensor", tensor)
        self.op = op
        self.tensor = tensor
        self.group = resolve("P2POp", group)
        self.group_peer = group_rank("P2POp", self.group, "peer", peer, group_peer)
        self.peer = self.group.ranks[self.group_peer]
        self.tag = tag

    def __repr__(self) -> str:
        return (
            f"P2POp({self.op.__name__} pg={self.group.group_name}, group_rank={self.group.rank()}, "
            f"group_peer={self.group_peer}, {tuple(self.tensor.shape)}, {self.tensor.dtype})"
        )


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Begins all sends and receives of a list, in any order; returns their Work objects.

    Messages of tensors on GPUs are one group of NCCL with one Work, the first of the list; all
    ranks of the process group make the first such call. Those of the CPU go by MPI. Raises
    ValueError if the list is empty, an item is not a P2POp, or groups differ.
    """
    if not isinstance(p2p_op_list, list) or not all(isinstance(p, P2POp) for p in p2p_op_list):
        raise ValueError(
            "Invalid ``p2p_op_list``. Each op is expected to be of type ``distributed.P2POp``."
        )
    if not p2p_op_list:
        raise ValueError("batch_isend_irecv: p2p_op_list is empty")
    if any(op.group is not p2p_op_list[0].group for op in p2p_op_list):
        raise ValueError("All ops need to use the same group.")
    pg = p2p_op_list[0].group
    # The other sides see only their own messages: what is of GPUs goes by NCCL in any list.
    of_gpus = [p for p in p2p_op_list if p.tensor.is_cuda]
    others = p2p_op_list
    works: list[Work] = []
    tensors = [p.tensor for p in of_gpus]
    if tensors and _nccl.is_for_gpus("batch_isend_irecv", pg, tensors, whole=False):
        works.append(_nccl.batch(pg, [(p.op is isend, p.tensor, p.group_peer) for p in of_gpus]))
        others = [p for p in p2p_op_list if not p.tensor.is_cuda]
    begun: dict[int, Work | None] = {}
    for at, op in enumerate(others):
        if op.op is irecv:
            begun[at] = irecv(op.tensor, group=op.group, tag=op.tag, group_src=op.group_peer)
    for at, op in enumerate(others):
        if op.op is isend:
            work = isend(op.tensor, group=op.group, tag=op.tag, group_dst=op.group_peer)
        else:
            work = begun[at]
        if work is not None:
            works.append(work)
    return works
