# SPDX-License-Identifier: BSD-3-Clause
"""Differentiable communication: the names of torch.distributed.nn.functional and more.

The differentiated function is the sum of all ranks' losses: a gradient is the derivative of that
sum with respect to this rank's tensor. Communications are linear maps of the ranks' tensors, and
backward runs the adjoint: the sum for a copy, a copy for a sum, the way back for a message.
Adjoints consist of the same functions, so derivatives of any order, forward mode and vmap work.

In grad mode all ranks record these calls, whether or not their inputs require grad, and each must
run backward through the same ones. The adjoints are transposes of linear maps, as in Hewett and
Grady, "A Linear Algebraic Approach to Model Parallelism in Deep Learning" (arXiv:2006.03108).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cograd
import cograd.distributed as dist
from cograd import Tensor
from cograd._utils import _flatten_dense_tensors
from cograd.autograd.function import Function
from cograd.distributed import ReduceOp

from . import _maps
from ._messages import exchange, recv, send, sendrecv
from ._node import communicate, depends_on, ordered, unrecorded

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "depends_on",
    "exchange",
    "gather",
    "ordered",
    "recv",
    "reduce",
    "reduce_scatter",
    "scatter",
    "send",
    "sendrecv",
]


def _check(name: str, argument: str, tensor: Any) -> None:
    if not isinstance(tensor, Tensor):
        raise TypeError(
            f"{name}(): argument '{argument}' must be Tensor, not {type(tensor).__name__}"
        )


def _check_list(name: str, argument: str, tensors: Any, size: int) -> None:
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(
            f"{name}(): argument '{argument}' must be a list of tensors, not "
            f"{type(tensors).__name__}"
        )
    for tensor in tensors:
        _check(name, argument, tensor)
    if len(tensors) != size:
        raise ValueError(
            f"{name}(): '{argument}' has {len(tensors)} tensors, expected one for each of the "
            f"{size} ranks of the group"
        )


def _stacked(name: str, argument: str, tensors: Sequence[Tensor]) -> Tensor:
    shapes = {(tuple(t.shape), t.dtype) for t in tensors}
    if len(shapes) > 1:
        raise ValueError(
            f"{name}(): the tensors of '{argument}' must have one shape and dtype, got "
            f"{', '.join(f'{list(t.shape)} {t.dtype}' for t in tensors)}"
        )
    return cograd.stack(list(tensors))


def _one(map: _maps.Map, tensor: Tensor) -> Tensor:
    """Runs a map on one tensor and returns its one result."""
    return communicate(map, (tensor,))[0]


def _group(name: str, group: Any) -> Any:
    group = dist.group.WORLD if group is None else group
    if dist.get_rank(group) < 0:
        raise ValueError(f"{name}(): rank {dist.get_rank()} is not a member of the group")
    return group


def _has_derivative(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


class _Instead(Function):
    """Returns the first tensor, with the derivatives of the second one."""

    generate_vmap_rule = True

    @staticmethod
    def forward(ctx: Any, value: Tensor, source: Tensor) -> Tensor:
        return value.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, grad

    @staticmethod
    def jvp(ctx: Any, _: Tensor, tangent: Tensor) -> Tensor:
        return tangent.clone()


def _extreme(group: Any, op: ReduceOp, tensor: Tensor) -> Tensor:
    """Returns the elementwise maximum or minimum over the ranks.

    The gradient is divided equally among the ranks that have the extreme, as for ``amax``.
    """
    plain = tensor.detach()
    value = unrecorded(_maps.AllReduce(group, op), plain)
    part = (plain == value).to(plain.dtype)
    part = part / unrecorded(_maps.AllReduce(group), part)
    shared = _one(_maps.AllReduce(group), cograd.where(part > 0, tensor * part, 0))
    return _Instead.apply(value, shared)  # type: ignore[no-any-return]


def _all_reduced(name: str, tensor: Tensor, op: ReduceOp, group: Any) -> Tensor:
    """Returns any reduction, on all ranks."""
    if op == ReduceOp.SUM or not _has_derivative(tensor):
        return _one(_maps.AllReduce(group, op), tensor)
    if op == ReduceOp.AVG:
        return _one(_maps.AllReduce(group), tensor) / dist.get_world_size(group)
    if op in (ReduceOp.MIN, ReduceOp.MAX) and not tensor.is_complex():
        return _extreme(group, op, tensor)
    if op == ReduceOp.PRODUCT:
        return _one(_maps.AllGather(group), tensor).prod(0)
    raise ValueError(f"{name}(): {op} has no meaning for {tensor.dtype}")


def _zeros_of(tensor: Tensor) -> Tensor:
    """Returns zeros with edges to ``tensor``, for ranks that have no result."""
    return (
        depends_on(cograd.zeros_like(tensor), tensor)
        if _has_derivative(tensor)
        else (cograd.zeros_like(tensor))
    )


def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Tensor:
    """Returns the reduction of the ranks' tensors on all ranks; does not write ``tensor``.

    The adjoint of SUM is SUM. AVG divides it by the number of ranks. The gradient of MIN and MAX
    goes to the ranks that have the extreme, in equal parts if there are several. The gradient of
    PRODUCT is the product of the others' elements, which is also correct for zeros.

    Args:
        tensor: a tensor of the same shape and dtype on all ranks.
        op: BAND, BOR and BXOR are for integers, which have no gradient.
        group: a process group; None for all ranks.
    """
    _check("all_reduce", "tensor", tensor)
    return _all_reduced("all_reduce", tensor, op, _group("all_reduce", group))


def reduce(tensor: Tensor, dst: int, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Tensor:
    """Returns the reduction of the ranks' tensors on rank ``dst``, zeros on the others.

    The adjoint of SUM is ``broadcast`` from ``dst``; for other ops see ``all_reduce``.
    """
    _check("reduce", "tensor", tensor)
    group = _group("reduce", group)
    if op == ReduceOp.SUM:
        return _one(_maps.Reduce(group, dst), tensor)
    if op == ReduceOp.AVG and _has_derivative(tensor):
        return _one(_maps.Reduce(group, dst), tensor) / dist.get_world_size(group)
    result = _all_reduced("reduce", tensor, op, group)
    return result if dist.get_rank() == dst else _zeros_of(result)


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """Returns the tensor of rank ``src`` on all ranks; the adjoint is ``reduce`` to ``src``.

    Args:
        tensor: the tensor of ``src``; on the other ranks any tensor of its shape and dtype, which
            is neither read nor written and has a gradient of zeros.
        src: a global rank.
        group: a process group; None for all ranks.
    """
    _check("broadcast", "tensor", tensor)
    return _one(_maps.Broadcast(_group("broadcast", group), src), tensor)


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """Returns all ranks' tensors, of one shape and dtype; the adjoint is a reduce_scatter."""
    _check("all_gather", "tensor", tensor)
    return _one(_maps.AllGather(_group("all_gather", group)), tensor).unbind(0)


def _all_gather_base(output_tensor: Tensor, input_tensor: Tensor, group: Any = None) -> Tensor:
    """Returns all ranks' tensors, joined or stacked to the shape of ``output_tensor``.

    Args:
        output_tensor: determines shape and dtype and is not written: (n * d, ...) or (n, d, ...)
            for n ranks and an ``input_tensor`` (d, ...).
        input_tensor: a tensor of the same shape and dtype on all ranks.
        group: a process group; None for all ranks.
    """
    _check("_all_gather_base", "output_tensor", output_tensor)
    _check("_all_gather_base", "input_tensor", input_tensor)
    group = _group("_all_gather_base", group)
    want = dist.get_world_size(group) * input_tensor.numel()
    if output_tensor.numel() != want or output_tensor.dtype != input_tensor.dtype:
        raise ValueError(
            f"_all_gather_base(): output_tensor is {list(output_tensor.shape)} "
            f"{output_tensor.dtype}, expected {want} elements of {input_tensor.dtype}"
        )
    return _one(_maps.AllGather(group), input_tensor).reshape(output_tensor.shape)


def reduce_scatter(
    output: Tensor,
    input_list: Sequence[Tensor],
    op: ReduceOp = ReduceOp.SUM,
    group: Any = None,
) -> Tensor:
    """Returns, on each rank r, the reduction over the ranks of ``input_list[r]``.

    The adjoint of SUM is ``all_gather``; for other ops see ``all_reduce``.

    Args:
        output: determines shape and dtype and is not written.
        input_list: one tensor for each rank, all of the shape of ``output``.
        op: SUM, AVG, PRODUCT, MIN or MAX.
        group: a process group; None for all ranks.
    """
    _check("reduce_scatter", "output", output)
    group = _group("reduce_scatter", group)
    size = dist.get_world_size(group)
    _check_list("reduce_scatter", "input_list", input_list, size)
    stacked = _stacked("reduce_scatter", "input_list", input_list)
    if stacked.shape[1:] != output.shape or stacked.dtype != output.dtype:
        raise ValueError(
            f"reduce_scatter(): output is {list(output.shape)} {output.dtype}, expected "
            f"{list(stacked.shape[1:])} {stacked.dtype} like the tensors of input_list"
        )
    if op == ReduceOp.SUM:
        return _one(_maps.ReduceScatter(group), stacked)
    if op == ReduceOp.AVG and _has_derivative(stacked):
        return _one(_maps.ReduceScatter(group), stacked) / size
    return _all_reduced("reduce_scatter", stacked, op, group)[dist.get_rank(group)]


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """Returns all ranks' tensors on rank ``dst``, and as many zero tensors on the others.

    The adjoint is ``scatter``.
    """
    _check("gather", "tensor", tensor)
    return _one(_maps.Gather(_group("gather", group), dst), tensor).unbind(0)


def scatter(tensors: Sequence[Tensor], src: int = 0, group: Any = None) -> Tensor:
    """Returns the tensor for this rank among those of rank ``src``; the adjoint is ``gather``.

    Args:
        tensors: on ``src`` one for each rank, of one shape and dtype. On other ranks only the shape
            and dtype of the first one matter; their gradients are zeros.
        src: a global rank.
        group: a process group; None for all ranks.
    """
    group = _group("scatter", group)
    size = dist.get_world_size(group)
    if dist.get_rank() == src:
        _check_list("scatter", "tensors", tensors, size)
        return _one(_maps.Scatter(group, src), _stacked("scatter", "tensors", tensors))
    if not isinstance(tensors, (list, tuple)) or not tensors:
        raise ValueError(
            "scatter(): 'tensors' must be a list of at least one tensor, of the shape and dtype of "
            "what is received, on ranks other than src, too"
        )
    _check("scatter", "tensors[0]", tensors[0])
    return _one(_maps.Scatter(group, src), tensors[0].expand(size, *tensors[0].shape))


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Any = None
) -> tuple[Tensor, ...]:
    """Sends ``input_tensor_list[r]`` to rank r, returns what the ranks sent; its own adjoint.

    Args:
        output_tensor_list: determine the shapes and dtype of the results and are not written.
        input_tensor_list: one tensor for each rank; shapes may differ.
        group: a process group; None for all ranks.
    """
    group = _group("all_to_all", group)
    size = dist.get_world_size(group)
    _check_list("all_to_all", "output_tensor_list", output_tensor_list, size)
    _check_list("all_to_all", "input_tensor_list", input_tensor_list, size)
    dtypes = {t.dtype for t in (*output_tensor_list, *input_tensor_list)}
    if len(dtypes) > 1:
        raise ValueError(f"all_to_all(): expected tensors of one dtype, got {dtypes}")
    sends = tuple(t.numel() for t in input_tensor_list)
    receives = tuple(t.numel() for t in output_tensor_list)
    rows = _flatten_dense_tensors(input_tensor_list)
    parts = _one(_maps.AllToAll(group, sends, receives), rows).split(receives)
    return tuple(p.reshape(t.shape) for p, t in zip(parts, output_tensor_list, strict=True))


def _splits(name: str, argument: str, given: Any, rows: int, size: int) -> tuple[int, ...]:
    if given is None:
        if rows % size:
            raise ValueError(f"{name}(): {rows} rows cannot be split among {size} ranks evenly")
        return (rows // size,) * size
    splits = tuple(int(n) for n in given)
    if len(splits) != size or sum(splits) != rows or min(splits) < 0:
        raise ValueError(
            f"{name}(): {argument} is {list(splits)}, expected {size} sizes with the sum {rows}"
        )
    return splits


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
) -> Tensor:
    """Sends rows of ``input`` to each rank, in order, and returns the rows that they sent.

    The adjoint is the same function with the sizes exchanged.

    Args:
        output: determines shape and dtype of the result and is not written.
        input: a tensor with any number of rows, its first dim.
        output_split_sizes: number of rows that each rank sends here; None for equal parts.
        input_split_sizes: number of rows for each rank; None for equal parts.
        group: a process group; None for all ranks.
    """
    _check("all_to_all_single", "output", output)
    _check("all_to_all_single", "input", input)
    group = _group("all_to_all_single", group)
    size = dist.get_world_size(group)
    if not output.dim() or output.shape[1:] != input.shape[1:] or output.dtype != input.dtype:
        raise ValueError(
            "all_to_all_single(): output and input must have one dtype and the same shape but for "
            f"the first dim, got {list(output.shape)} {output.dtype} and {list(input.shape)} "
            f"{input.dtype}"
        )
    name = "all_to_all_single"
    sends = _splits(name, "input_split_sizes", input_split_sizes, input.shape[0], size)
    receives = _splits(name, "output_split_sizes", output_split_sizes, output.shape[0], size)
    return _one(_maps.AllToAll(group, sends, receives), input)
