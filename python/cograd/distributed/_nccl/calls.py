# SPDX-License-Identifier: BSD-3-Clause
"""The collectives and messages of tensors on GPUs, as calls of NCCL.

The functions take arguments that the callers have checked. They return None where NCCL has no
such reduction or type: the tensors then go through the memory of the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import cograd
from cograd.distributed._mpi.buffers import flat_source, flat_target, overlap, source, target
from cograd.distributed._mpi.compare import with_shapes
from cograd.distributed._mpi.dtypes import check_op
from cograd.distributed._names import ReduceOp
from cograd.distributed._nccl.communicator import Call, Communicator, GpuWork, of_group, of_pair

if TYPE_CHECKING:
    from cograd import Tensor
    from cograd.distributed._mpi.group import ProcessGroup

__all__ = [
    "Started",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "barrier",
    "batch",
    "broadcast",
    "gather",
    "is_for_gpus",
    "message",
    "reduce",
    "reduce_scatter",
    "scatter",
]

_ALL_REDUCE, _BROADCAST, _REDUCE, _ALL_GATHER, _REDUCE_SCATTER, _SEND, _RECEIVE = range(7)
_BYTE = 1  # ncclUint8
# NCCL's numbers, and how many of such elements one element of the dtype is.
_TYPES = {
    cograd.int8: (0, 1),
    cograd.bool: (1, 1),
    cograd.uint8: (1, 1),
    cograd.int32: (2, 1),
    cograd.uint32: (3, 1),
    cograd.int64: (4, 1),
    cograd.uint64: (5, 1),
    cograd.float16: (6, 1),
    cograd.float32: (7, 1),
    cograd.float64: (8, 1),
    cograd.bfloat16: (9, 1),
    cograd.complex64: (7, 2),
    cograd.complex128: (8, 2),
}
_OPS = {
    ReduceOp.SUM: 0,
    ReduceOp.PRODUCT: 1,
    ReduceOp.MAX: 2,
    ReduceOp.MIN: 3,
    ReduceOp.AVG: 4,
}
# A bool is 0 or 1: any and all are the largest and the least one.
_OPS_OF_BOOL = {
    ReduceOp.SUM: 2,
    ReduceOp.MAX: 2,
    ReduceOp.BOR: 2,
    ReduceOp.PRODUCT: 3,
    ReduceOp.MIN: 3,
    ReduceOp.BAND: 3,
}


class Started:
    """What a call returns: a Work if it is asynchronous, or None."""

    __slots__ = ("work",)

    def __init__(self, work: GpuWork | None) -> None:
        self.work = work


def is_for_gpus(
    name: str, pg: ProcessGroup, tensors: Sequence[Tensor], *, whole: bool = True
) -> bool:
    """Returns whether NCCL moves these tensors; raises if they are on several devices.

    ``whole`` tells that all ranks of the group make the call, in which they can agree.
    """
    first = tensors[0].device
    for tensor in tensors:
        if tensor.device != first:
            raise RuntimeError(
                f"{name}: Expected all tensors to be on the same device, got {first} and "
                f"{tensor.device}"
            )
    return first.type == "cuda" and (pg.choose() if whole else pg._gpus) == "nccl"


def _reduction(name: str, dtype: cograd.dtype, op: ReduceOp) -> tuple[int, int, int] | None:
    """Returns NCCL's type, the number of elements in one of the dtype, and the operation."""
    check_op(name, dtype, op)
    found, number = _TYPES.get(dtype), _OPS.get(op)
    if dtype is cograd.bool:
        number = _OPS_OF_BOOL.get(op)
    if dtype.is_complex and op is ReduceOp.PRODUCT:
        number = None  # of pairs of reals it would be another one
    return None if found is None or number is None else (*found, number)


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _memory(
    tensor: Tensor, *, writes: bool, reads: bool = False
) -> tuple[Tensor, Callable[[], None] | None]:
    """Returns contiguous memory with a tensor's values, and what to run after NCCL wrote to it.

    If NCCL only writes to it, the memory need not have the values before.
    """
    if not writes:
        return source(tensor, on_device=True), None
    place = target(tensor, filled=reads, on_device=True)
    return place.memory, place.finish


def _apart(values: Tensor, memory: Tensor) -> Tensor:
    return values.detach().clone() if overlap(values, memory) else values


def _run(
    pg: ProcessGroup,
    name: str,
    tensor: Tensor | None,
    device: cograd.device,
    calls: Sequence[Call],
    *,
    keep: Any,
    finish: Callable[[], None] | None = None,
    async_op: bool = False,
    detail: object = "",
    result: Any = None,
    blocks: bool = False,
) -> Started:
    """Starts a collective's calls, which all members of the group make in the same order."""

    def start(_: bytes) -> tuple[Communicator, Any]:
        communicator = of_group(pg, device.index or 0)
        return communicator, communicator.start(f"nccl:{name}", calls)

    text, number, (communicator, event), check = pg.begin(name, detail, tensor, False, start)
    value = result if isinstance(result, list) else [result]
    work = GpuWork(communicator, number, text, event, keep, finish, value, check, blocks)
    if async_op:
        return Started(work)
    work.wait()
    return Started(None)


def all_reduce(
    pg: ProcessGroup, name: str, tensors: list[Tensor], op: ReduceOp, async_op: bool
) -> Started | None:
    """Reduces tensors in place, in one call for all that are adjacent in memory."""
    kind = _reduction(name, tensors[0].dtype, op)
    if kind is None:
        return None
    one = len(tensors) == 1
    places = [target(t, filled=True, on_device=True) for t in tensors]
    calls = []
    for place in places:
        if place.memory.numel():
            at = place.memory.data_ptr()
            calls.append((_ALL_REDUCE, at, at, place.memory.numel() * kind[1], kind[0], kind[2], 0))

    def finish() -> None:
        for place in places:
            place.finish()

    return _run(
        pg,
        name,
        tensors[0] if one else None,
        tensors[0].device,
        calls,
        keep=([p.memory for p in places], tensors),
        finish=finish,
        async_op=async_op,
        detail=op if one else with_shapes(op, tensors),
        result=tensors[0] if one else tensors,
    )


def broadcast(pg: ProcessGroup, tensor: Tensor, root: int, async_op: bool) -> Started:
    """Copies the root's bytes."""
    memory, finish = _memory(tensor, writes=root != pg.rank())
    at, n = memory.data_ptr(), _bytes(memory)
    calls = [(_BROADCAST, at, at, n, _BYTE, 0, root)] if n else []
    return _run(
        pg,
        "broadcast",
        tensor,
        tensor.device,
        calls,
        keep=(memory, tensor),
        finish=finish,
        async_op=async_op,
        detail=f"src={pg.ranks[root]}",
        result=tensor,
    )


def reduce(
    pg: ProcessGroup, tensor: Tensor, root: int, op: ReduceOp, async_op: bool
) -> Started | None:
    """Reduces to the root, in place there."""
    kind = _reduction("reduce", tensor.dtype, op)
    if kind is None:
        return None
    memory, finish = _memory(tensor, writes=root == pg.rank(), reads=True)
    at, n = memory.data_ptr(), memory.numel() * kind[1]
    calls = [(_REDUCE, at, at, n, kind[0], kind[2], root)] if n else []
    return _run(
        pg,
        "reduce",
        tensor,
        tensor.device,
        calls,
        keep=(memory, tensor),
        finish=finish,
        async_op=async_op,
        detail=f"{op.name}, dst={pg.ranks[root]}",
        result=tensor,
    )


def all_gather(
    pg: ProcessGroup,
    name: str,
    outputs: list[Tensor] | Tensor,
    tensor: Tensor,
    async_op: bool,
) -> Started:
    """Gathers parts of one size in one call; of several sizes by a broadcast from each rank."""
    listed = isinstance(outputs, list)
    tensors = outputs if isinstance(outputs, list) else [outputs]
    place = flat_target(tensors, on_device=True) if listed else target(tensors[0], on_device=True)
    values, n = source(tensor, on_device=True), _bytes(tensor)
    to = place.memory.data_ptr()
    sizes = [_bytes(t) for t in tensors] if listed else [n] * pg.size()
    if n == 0 or values.data_ptr() != to + sum(sizes[: pg.rank()]):
        values = _apart(values, place.memory)
    same = all(size == n for size in sizes)
    calls: list[Call] = []
    if same and n:
        calls.append((_ALL_GATHER, values.data_ptr(), to, n, _BYTE, 0, 0))
    for rank, size in enumerate(sizes if not same else ()):
        at = to + sum(sizes[:rank])
        if size:
            own = values.data_ptr() if rank == pg.rank() else at
            calls.append((_BROADCAST, own, at, size, _BYTE, 0, rank))
    alike = not listed or all(t.shape == tensor.shape for t in tensors)
    return _run(
        pg,
        name,
        tensor if alike else place.memory,
        tensor.device,
        calls,
        keep=(values, place.memory, tensors),
        finish=place.finish,
        async_op=async_op,
        detail="" if alike else with_shapes("", tensors),
        result=[tensors] if listed else tensors[0],
    )


def reduce_scatter(
    pg: ProcessGroup,
    name: str,
    output: Tensor,
    inputs: list[Tensor] | Tensor,
    op: ReduceOp,
    async_op: bool,
) -> Started | None:
    """Reduces parts of one size in one call; of several sizes by a reduction to each rank."""
    kind = _reduction(name, output.dtype, op)
    if kind is None:
        return None
    listed = isinstance(inputs, list)
    given = inputs if isinstance(inputs, list) else [inputs]
    place = target(output, on_device=True)
    values = flat_source(given, on_device=True) if listed else source(given[0], on_device=True)
    values = _apart(values, place.memory)
    counts = [t.numel() for t in given] if listed else [output.numel()] * pg.size()
    width, to, at = kind[1], place.memory.data_ptr(), values.data_ptr()
    calls: list[Call] = []
    if len(set(counts)) == 1:
        if counts[0]:
            calls.append((_REDUCE_SCATTER, at, to, counts[0] * width, kind[0], kind[2], 0))
    else:
        for rank, count in enumerate(counts):
            part = at + sum(counts[:rank]) * values.element_size()
            if count:
                into = to if rank == pg.rank() else part
                calls.append((_REDUCE, part, into, count * width, kind[0], kind[2], rank))
    return _run(
        pg,
        name,
        values if listed else given[0],
        output.device,
        calls,
        keep=(values, place.memory, output),
        finish=place.finish,
        async_op=async_op,
        detail=with_shapes(op, given) if listed else op,
        result=output,
    )


def _messages(
    to: Sequence[tuple[int, int, int]], received: Sequence[tuple[int, int, int]]
) -> list[Call]:
    """Returns the calls of messages, each an address, a number of bytes and the other side."""
    calls: list[Call] = [(_SEND, at, 0, n, _BYTE, 0, peer) for at, n, peer in to if n]
    calls += [(_RECEIVE, 0, at, n, _BYTE, 0, peer) for at, n, peer in received if n]
    return calls


def _parts(memory: Tensor, counts: Sequence[int]) -> list[tuple[int, int, int]]:
    """Returns the messages of consecutive parts, one for each rank."""
    size, at, found = memory.element_size(), memory.data_ptr(), []
    for rank, count in enumerate(counts):
        found.append((at, count * size, rank))
        at += count * size
    return found


def all_to_all(
    pg: ProcessGroup,
    name: str,
    outputs: list[Tensor] | Tensor,
    inputs: list[Tensor] | Tensor,
    received: Sequence[int],
    sent: Sequence[int],
    async_op: bool,
) -> Started:
    """Sends a part to each rank and receives one from each, in one group."""
    listed = isinstance(outputs, list)
    if isinstance(outputs, list):
        place = flat_target(outputs, on_device=True)
    else:
        place = target(outputs, on_device=True)
    if isinstance(inputs, list):
        values = flat_source(inputs, on_device=True)
    else:
        values = source(inputs, on_device=True)
    values = _apart(values, place.memory)
    calls = _messages(_parts(values, sent), _parts(place.memory, received))
    return _run(
        pg,
        name,
        cograd.empty(0, dtype=values.dtype),  # only the dtypes must agree
        values.device,
        calls,
        keep=(values, place.memory, outputs),
        finish=place.finish,
        async_op=async_op,
        result=[outputs] if listed else outputs,
    )


def gather(
    pg: ProcessGroup, tensor: Tensor, outputs: list[Tensor], root: int, async_op: bool
) -> Started:
    """Sends every rank's tensor to the root."""
    finish, memory, received = None, None, []
    values = source(tensor, on_device=True)
    if root == pg.rank():
        place = flat_target(outputs, on_device=True)
        memory, finish = place.memory, place.finish
        values = _apart(values, memory)
        received = _parts(memory, [tensor.numel()] * pg.size())
    calls = _messages([(values.data_ptr(), _bytes(values), root)], received)
    return _run(
        pg,
        "gather",
        tensor,
        tensor.device,
        calls,
        keep=(values, memory, outputs),
        finish=finish,
        async_op=async_op,
        detail=f"dst={pg.ranks[root]}",
        result=[outputs],
    )


def scatter(
    pg: ProcessGroup, tensor: Tensor, inputs: list[Tensor], root: int, async_op: bool
) -> Started:
    """Sends the root's tensors to the ranks."""
    place = target(tensor, on_device=True)
    values, sent = None, []
    if root == pg.rank():
        values = _apart(flat_source(inputs, on_device=True), place.memory)
        sent = _parts(values, [tensor.numel()] * pg.size())
    into = place.memory
    calls = _messages(sent, [(into.data_ptr(), _bytes(into), root)])
    return _run(
        pg,
        "scatter",
        tensor,
        tensor.device,
        calls,
        keep=(values, place.memory, tensor),
        finish=place.finish,
        async_op=async_op,
        detail=f"src={pg.ranks[root]}",
        result=tensor,
    )


def barrier(pg: ProcessGroup, device: Any, async_op: bool) -> Started:
    """Waits until the GPUs of all ranks have done what their streams had when they came."""
    index = cograd.cuda.current_device() if device is None else int(device)
    word = cograd.zeros(1, dtype=cograd.uint8, device=f"cuda:{index}")
    at = word.data_ptr()
    call = (_ALL_REDUCE, at, at, 1, _BYTE, 0, 0)
    return _run(pg, "barrier", None, word.device, [call], keep=word, async_op=async_op, blocks=True)


def message(
    pg: ProcessGroup, name: str, tensor: Tensor, peer: int, *, sends: bool, async_op: bool
) -> Started:
    """Sends a tensor to a rank of the group, or receives one from it; tags do not matter."""
    side = f"dst={pg.ranks[peer]}" if sends else f"src={pg.ranks[peer]}"
    _, text, _ = pg._text(name, side, tensor)
    runtime = pg._alive(text)
    runtime.board.enter(False, 0, text)
    memory, finish = _memory(tensor, writes=not sends)
    other = 1 if pg.rank() < peer else 0
    with pg._lock:
        communicator = of_pair(pg, tensor.device.index or 0, peer)
        whole = [(memory.data_ptr(), _bytes(memory), other)]
        calls = _messages(whole, []) if sends else _messages([], whole)
        event = communicator.start(f"nccl:{name}", calls)
    work = GpuWork(communicator, 0, text, event, (memory, tensor), finish, [tensor], None)
    if async_op:
        return Started(work)
    work.wait()
    return Started(None)


def batch(pg: ProcessGroup, messages: Sequence[tuple[bool, Tensor, int]]) -> GpuWork:
    """Starts messages as one group: whether it sends, the tensor, and the other side."""
    first = messages[0][1]
    _, text, _ = pg._text("batch_isend_irecv", f"{len(messages)} messages", None)
    runtime = pg._alive(text)
    runtime.board.enter(False, 0, text)
    to, received, kept, places = [], [], [], []
    for sends, tensor, peer in messages:
        if sends:
            memory = source(tensor, on_device=True)
            to.append((memory.data_ptr(), _bytes(memory), peer))
        else:
            places.append(target(tensor, on_device=True))
            memory = places[-1].memory
            received.append((memory.data_ptr(), _bytes(memory), peer))
        kept.append((memory, tensor))

    def finish() -> None:
        for place in places:
            place.finish()

    with pg._lock:
        communicator = of_group(pg, first.device.index or 0)
        event = communicator.start("nccl:batch_isend_irecv", _messages(to, received))
    results = [tensor for sends, tensor, _ in messages if not sends]
    return GpuWork(communicator, 0, text, event, kept, finish, results, None)
