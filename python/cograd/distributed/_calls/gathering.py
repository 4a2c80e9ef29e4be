# SPDX-License-Identifier: BSD-3-Clause
"""Collectives that gather or scatter the ranks' tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import cograd
from cograd.distributed._calls.collectives import reduced
from cograd.distributed._mpi.buffers import (
    Target,
    flat_source,
    flat_target,
    message,
    overlap,
    source,
    target,
)
from cograd.distributed._mpi.checks import (
    check_lengths,
    check_list,
    check_same,
    check_tensor,
    check_written,
)
from cograd.distributed._mpi.compare import compare_counts, with_shapes
from cograd.distributed._mpi.dtypes import operation
from cograd.distributed._mpi.extremes import as_keys, is_ordered, keys
from cograd.distributed._mpi.group import ProcessGroup, group_rank, in_group
from cograd.distributed._mpi.work import Work
from cograd.distributed._names import ReduceOp
from cograd.distributed._nccl import calls as _nccl

if TYPE_CHECKING:
    from cograd import Tensor

__all__ = [
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_single",
    "all_to_all",
    "all_to_all_single",
    "gather",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "scatter",
]


def _counted(mpi: Any, memory: Tensor, counts: Sequence[int]) -> list[Any]:
    """Returns an MPI buffer of consecutive parts: ``counts[r]`` elements for rank ``r``."""
    buffer, _, kind = message(mpi, memory)
    places, place = [], 0
    for count in counts:
        places.append(place)
        place += count
    return [buffer, (list(counts), places), kind]


def _written_list(name: str, argument: str, tensors: Any) -> list[Tensor]:
    found = check_list(name, argument, tensors)
    for tensor in found:
        check_written(name, argument, tensor)
    return found


def all_gather(
    tensor_list: list[Tensor],
    tensor: Tensor,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Copies every rank's tensor into ``tensor_list`` of all ranks.

    Args:
        tensor_list: one tensor for each rank, of that rank's shape and of one dtype; written.
        tensor: this rank's tensor, of the shape of its own element of the list.
        group: the ranks that take part; None for all.
        async_op: whether to return a Work instead of waiting.

    Raises:
        TypeError, ValueError, RuntimeError: an argument is not a list of tensors, or a dtype,
            length or shape does not fit.
        DistBackendError: MPI fails, another rank fails, or the timeout passes.
    """
    outputs = _written_list("all_gather", "tensor_list", tensor_list)
    check_tensor("all_gather", "tensor", tensor)
    pg = in_group("all_gather", group)
    if pg is None:
        return None
    check_lengths("all_gather", "tensor_list", outputs, pg.size())
    check_same("all_gather", "tensor_list", outputs, tensor)
    own = outputs[pg.rank()]
    if own.shape != tensor.shape:
        raise RuntimeError(
            f"all_gather: invalid tensor size at index {pg.rank()} of tensor_list (expected "
            f"{tuple(tensor.shape)}, got {tuple(own.shape)})"
        )
    if _nccl.is_for_gpus("all_gather", pg, [tensor, *outputs]):
        return _nccl.all_gather(pg, "all_gather", outputs, tensor, async_op).work
    mpi = pg._runtime.MPI
    place = flat_target(outputs)
    values = _apart(source(tensor), place.memory)
    send = message(mpi, values)
    receive = _counted(mpi, place.memory, [t.numel() for t in outputs])
    same = all(t.shape == tensor.shape for t in outputs)
    return pg.collective(
        "all_gather",
        tensor if same else place.memory,
        lambda comm: comm.Iallgatherv(send, receive),
        keep=(values, place.memory, outputs),
        finish=place.finish,
        async_op=async_op,
        detail="" if same else with_shapes("", outputs),
        result=[outputs],
        nbytes=place.memory.numel() * place.memory.element_size(),
    )


def _apart(values: Tensor, memory: Tensor) -> Tensor:
    """Returns ``values``, or a copy if they overlap the memory that is written."""
    return values.detach().clone() if overlap(values, memory) else values


def _check_into(name: str, big: Tensor, small: Tensor, size: int, words: tuple[str, str]) -> None:
    """Checks that ``big`` has ``size`` times ``small``: joined along dim 0, stacked or flat."""
    check_same(name, words[0], [big], small)
    shape = tuple(small.shape)
    joined = (shape[0] * size, *shape[1:]) if shape else (size,)
    if tuple(big.shape) in (joined, (size, *shape), (small.numel() * size,)):
        return
    raise RuntimeError(
        f"{name}: {words[0]} has shape {tuple(big.shape)}, expected {joined} or "
        f"{(size, *shape)} for {size} ranks with a {words[1]} of shape {shape}"
    )


def all_gather_into_tensor(
    output_tensor: Tensor,
    input_tensor: Tensor,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Copies every rank's tensor into one tensor on all ranks, without an intermediate copy.

    Args:
        output_tensor: of shape ``(size * n, ...)`` or ``(size, n, ...)``; written.
        input_tensor: of shape ``(n, ...)``; may be this rank's part of the output.
        group: the ranks that take part; None for all.
        async_op: whether to return a Work instead of waiting.

    Raises:
        The same as ``all_gather``.
    """
    name = "all_gather_into_tensor"
    check_written(name, "output_tensor", output_tensor)
    check_tensor(name, "input_tensor", input_tensor)
    pg = in_group(name, group)
    if pg is None:
        return None
    _check_into(name, output_tensor, input_tensor, pg.size(), ("output_tensor", "input_tensor"))
    if _nccl.is_for_gpus(name, pg, [output_tensor, input_tensor]):
        return _nccl.all_gather(pg, name, output_tensor, input_tensor, async_op).work
    mpi = pg._runtime.MPI
    place = target(output_tensor)
    values = source(input_tensor)
    nbytes = values.numel() * values.element_size()
    own_part = place.memory.data_ptr() + pg.rank() * nbytes
    if values.data_ptr() == own_part and nbytes:
        send: Any = mpi.IN_PLACE
    else:
        values = _apart(values, place.memory)
        send = message(mpi, values)
    receive = message(mpi, place.memory, pg.size())
    return pg.collective(
        name,
        input_tensor,
        lambda comm: comm.Iallgather(send, receive),
        keep=(values, place.memory, output_tensor),
        finish=place.finish,
        async_op=async_op,
        result=output_tensor,
        nbytes=nbytes * pg.size(),
    )


all_gather_single = all_gather_into_tensor


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Copies every rank's tensor into ``gather_list`` of one rank.

    Args:
        tensor: this rank's tensor; the same shape and dtype on all ranks.
        gather_list: on the receiver one tensor for each rank, written; None on the others.
        dst: global rank of the receiver; 0 if neither is given.
        group: the ranks that take part; None for all.
        async_op: whether to return a Work instead of waiting.
        group_dst: the receiver's rank in the group, instead of ``dst``.

    Raises:
        The same as ``all_gather``, and ValueError if a list is given on the wrong rank.
    """
    check_tensor("gather", "tensor", tensor)
    outputs = _written_list("gather", "gather_list", gather_list or [])
    pg = in_group("gather", group)
    if pg is None:
        return None
    root = group_rank("gather", pg, "dst", dst, group_dst, default=0)
    mpi = pg._runtime.MPI
    finish, receive, memory = None, None, None
    if root == pg.rank():
        if not outputs:
            raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
        check_lengths("gather", "gather_list", outputs, pg.size())
        check_same("gather", "gather_list", outputs, tensor, shapes=True)
    elif outputs:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    if _nccl.is_for_gpus("gather", pg, [tensor, *outputs]):
        return _nccl.gather(pg, tensor, outputs, root, async_op).work
    if root == pg.rank():
        place = flat_target(outputs)
        memory, finish = place.memory, place.finish
        receive = message(mpi, memory, pg.size())
    values = source(tensor) if memory is None else _apart(source(tensor), memory)
    send = message(mpi, values)
    return pg.collective(
        "gather",
        tensor,
        lambda comm: comm.Igather(send, receive, root),
        keep=(values, memory, outputs),
        finish=finish,
        async_op=async_op,
        detail=f"dst={pg.ranks[root]}",
        result=[outputs],
    )


def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Copies the tensors of one rank's ``scatter_list`` to the ranks, one to each rank.

    Args:
        tensor: written; the same shape and dtype on all ranks.
        scatter_list: on the sender one tensor for each rank; None on the others.
        src: global rank of the sender; 0 if neither is given.
        group: the ranks that take part; None for all.
        async_op: whether to return a Work instead of waiting.
        group_src: the sender's rank in the group, instead of ``src``.

    Raises:
        The same as ``all_gather``, and ValueError if a list is given on the wrong rank.
    """
    check_written("scatter", "tensor", tensor)
    inputs = check_list("scatter", "scatter_list", scatter_list or [])
    pg = in_group("scatter", group)
    if pg is None:
        return None
    root = group_rank("scatter", pg, "src", src, group_src, default=0)
    if root == pg.rank():
        if not inputs:
            raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
        check_lengths("scatter", "scatter_list", inputs, pg.size())
        check_same("scatter", "scatter_list", inputs, tensor, shapes=True)
    elif inputs:
        raise ValueError("Argument ``scatter_list`` must NOT be specified on non-source ranks.")
    if _nccl.is_for_gpus("scatter", pg, [tensor, *inputs]):
        return _nccl.scatter(pg, tensor, inputs, root, async_op).work
    mpi = pg._runtime.MPI
    send, values = None, None
    place = target(tensor)
    if root == pg.rank():
        values = _apart(flat_source(inputs), place.memory)
        send = message(mpi, values, pg.size())
    receive = message(mpi, place.memory)
    return pg.collective(
        "scatter",
        tensor,
        lambda comm: comm.Iscatter(send, receive, root),
        keep=(values, place.memory, tensor),
        finish=place.finish,
        async_op=async_op,
        detail=f"src={pg.ranks[root]}",
        result=tensor,
    )


def _reduce_scatter(
    name: str,
    pg: ProcessGroup,
    output: Tensor,
    values: Tensor,
    counts: Sequence[int] | None,
    op: ReduceOp,
    async_op: bool,
    what: Tensor,
    detail: Any,
) -> Work | None:
    mpi = pg._runtime.MPI
    place = target(output, reduced=True)
    if is_ordered(op, values.dtype):
        values, place = keys(values, op), as_keys(place, op, filled=False)
    how = operation(mpi, name, values.dtype, op)
    values = _apart(values, place.memory)
    parts = pg.size() if counts is None else 1
    send, receive = message(mpi, values, parts), message(mpi, place.memory)

    def start(comm: Any) -> Any:
        if counts is None:
            return comm.Ireduce_scatter_block(send, receive, how)
        return comm.Ireduce_scatter(send, receive, list(counts), how)

    return pg.collective(
        name,
        what,
        start,
        keep=(values, place.memory, output),
        finish=reduced(place, op, pg.size()),
        async_op=async_op,
        detail=detail,
        result=output,
        nbytes=values.numel() * values.element_size(),
    )


def reduce_scatter(
    output: Tensor,
    input_list: list[Tensor],
    op: ReduceOp = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Reduces the lists of all ranks element by element; rank ``r`` receives the ``r``-th result.

    Args:
        output: of the shape of this rank's element of the list; written.
        input_list: one tensor for each rank; the same shapes on all ranks, one dtype.
        op: the reduction.
        group: the ranks that take part; None for all.
        async_op: whether to return a Work instead of waiting.

    Raises:
        The same as ``all_reduce``, and RuntimeError if a length or shape does not fit.
    """
    check_written("reduce_scatter", "output", output)
    inputs = check_list("reduce_scatter", "input_list", input_list)
    pg = in_group("reduce_scatter", group)
    if pg is None:
        return None
    check_lengths("reduce_scatter", "input_list", inputs, pg.size())
    check_same("reduce_scatter", "input_list", inputs, output)
    own = inputs[pg.rank()]
    if own.shape != output.shape:
        raise RuntimeError(
            f"reduce_scatter: invalid tensor size at index {pg.rank()} of input_list (expected "
            f"{tuple(output.shape)}, got {tuple(own.shape)})"
        )
    if _nccl.is_for_gpus("reduce_scatter", pg, [output, *inputs]):
        started = _nccl.reduce_scatter(pg, "reduce_scatter", output, inputs, op, async_op)
        if started is not None:
            return started.work
    values = flat_source(inputs, reduced=True)
    counts = [t.numel() for t in inputs]
    detail = with_shapes(op, inputs)
    return _reduce_scatter(
        "reduce_scatter", pg, output, values, counts, op, async_op, values, detail
    )


def reduce_scatter_tensor(
    output: Tensor,
    input: Tensor,
    op: ReduceOp = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Reduces a tensor over the ranks; each rank receives its part of the result.

    Args:
        output: of shape ``(n, ...)``; written; may be this rank's part of the input.
        input: of shape ``(size * n, ...)`` or ``(size, n, ...)``.
        op: the reduction.
        group: the ranks that take part; None for all.
        async_op: whether to return a Work instead of waiting.

    Raises:
        The same as ``all_reduce``, and RuntimeError if a shape does not fit.
    """
    name = "reduce_scatter_tensor"
    check_written(name, "output", output)
    check_tensor(name, "input", input)
    pg = in_group(name, group)
    if pg is None:
        return None
    _check_into(name, input, output, pg.size(), ("input", "output"))
    if _nccl.is_for_gpus(name, pg, [output, input]):
        started = _nccl.reduce_scatter(pg, name, output, input, op, async_op)
        if started is not None:
            return started.work
    values = source(input, reduced=True)
    return _reduce_scatter(name, pg, output, values, None, op, async_op, input, op)


reduce_scatter_single = reduce_scatter_tensor


def all_to_all(
    output_tensor_list: list[Tensor],
    input_tensor_list: list[Tensor],
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Sends the ``r``-th input to rank ``r``, and receives the ``r``-th output from rank ``r``.

    Args:
        output_tensor_list: one tensor for each rank, of the shape that this rank sends; written.
        input_tensor_list: one tensor for each rank; all of one dtype.
        group: the ranks that take part; None for all.
        async_op: whether to return a Work instead of waiting.

    Raises:
        The same as ``all_gather``.
    """
    outputs = _written_list("all_to_all", "output_tensor_list", output_tensor_list)
    inputs = check_list("all_to_all", "input_tensor_list", input_tensor_list)
    pg = in_group("all_to_all", group)
    if pg is None:
        return None
    check_lengths("all_to_all", "output_tensor_list", outputs, pg.size())
    check_lengths("all_to_all", "input_tensor_list", inputs, pg.size())
    check_same("all_to_all", "output_tensor_list", outputs, inputs[0])
    check_same("all_to_all", "input_tensor_list", inputs, inputs[0])
    received, sent = [t.numel() for t in outputs], [t.numel() for t in inputs]
    _check_own("all_to_all", pg, received, sent)
    if _nccl.is_for_gpus("all_to_all", pg, [*outputs, *inputs]):
        return _nccl.all_to_all(pg, "all_to_all", outputs, inputs, received, sent, async_op).work
    place, values = flat_target(outputs), flat_source(inputs)
    return _all_to_all("all_to_all", pg, place, values, received, sent, async_op, outputs)


def _check_own(name: str, pg: ProcessGroup, received: Sequence[int], sent: Sequence[int]) -> None:
    own = pg.rank()
    if received[own] != sent[own]:
        raise RuntimeError(
            f"{name}: rank {own} sends {sent[own]} elements to itself but expects {received[own]}"
        )


def _all_to_all(
    name: str,
    pg: ProcessGroup,
    place: Target,
    values: Tensor,
    received: Sequence[int],
    sent: Sequence[int],
    async_op: bool,
    result: Any,
) -> Work | None:
    mpi = pg._runtime.MPI
    values = _apart(values, place.memory)
    send, receive = _counted(mpi, values, sent), _counted(mpi, place.memory, received)
    kind = cograd.empty(0, dtype=values.dtype)  # only the dtypes must agree

    def start(comm: Any) -> Any:
        compare_counts(pg, name, list(sent), list(received))
        return comm.Ialltoallv(send, receive)

    return pg.collective(
        name,
        kind,
        start,
        keep=(values, place.memory, result),
        finish=place.finish,
        async_op=async_op,
        result=[result] if isinstance(result, list) else result,
        nbytes=values.numel() * values.element_size(),
    )


def _splits(name: str, argument: str, splits: Any, tensor: Tensor, size: int) -> list[int]:
    rows = tensor.shape[0] if tensor.dim() else 1
    if splits is None or len(splits) == 0:
        if rows % size:
            raise RuntimeError(
                f"{name}: Tensor's dim 0 does not divide equally across group size: {rows} rows, "
                f"{size} ranks"
            )
        return [tensor.numel() // size] * size
    found = [int(n) for n in splits]
    if len(found) != size or min(found) < 0 or sum(found) != rows:
        raise RuntimeError(
            f"{name}: {argument} {found} must be {size} numbers that add up to the {rows} rows of "
            "the tensor: Split sizes doesn't match total dim 0 size"
        )
    row = tensor.numel() // rows if rows else 0
    return [n * row for n in found]


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Sends parts of the rows of ``input`` to the ranks and receives rows from them.

    Args:
        output: of shape ``(m, ...)``; written; its parts are in the order of the ranks.
        input: of shape ``(n, ...)``.
        output_split_sizes: number of rows that each rank sends here; None for equal parts.
        input_split_sizes: number of rows for each rank; None for equal parts.
        group: the ranks that take part; None for all.
        async_op: whether to return a Work instead of waiting.

    Raises:
        The same as ``all_gather``, and RuntimeError if split sizes do not fit.
    """
    name = "all_to_all_single"
    check_written(name, "output", output)
    check_tensor(name, "input", input)
    pg = in_group(name, group)
    if pg is None:
        return None
    check_same(name, "output", [output], input)
    received = _splits(name, "output_split_sizes", output_split_sizes, output, pg.size())
    sent = _splits(name, "input_split_sizes", input_split_sizes, input, pg.size())
    _check_own(name, pg, received, sent)
    if _nccl.is_for_gpus(name, pg, [output, input]):
        return _nccl.all_to_all(pg, name, output, input, received, sent, async_op).work
    return _all_to_all(name, pg, target(output), source(input), received, sent, async_op, output)
