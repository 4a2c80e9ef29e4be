# SPDX-License-Identifier: BSD-3-Clause
"""The call forms of ``einsum`` and ``tensordot`` that the core's parser does not take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from cograd import _C
from cograd._C import Tensor

__all__ = ["chain_matmul", "einsum", "tensordot"]

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_einsum = _C._ops.einsum
_tensordot = _C._ops.tensordot
_tensordot_dims = _C._ops._tensordot


def _term(labels: Sequence[Any]) -> str:
    """``[0, ..., 2]`` as ``"A...C"``."""
    out = ""
    for label in labels:
        if label is Ellipsis:
            out += "..."
        elif 0 <= label < len(_LETTERS):
            out += _LETTERS[label]
        else:
            raise ValueError(
                "einsum(): subscript in subscript list is not within the valid range [0, 52)"
            )
    return out


def einsum(*args: Any) -> Tensor:
    """Sums of products of the operands' elements over named dims.

    Args:
        args: an equation such as ``"bij,bjk->bik"`` and the operands (or a list of them); or
            operands each followed by its list of labels (ints in [0, 52) or ``...``), then
            optionally the labels of the result.

    Returns:
        The dims that the equation names after ``->``; without it the dims of "..." and then the
        labels that occur once, in alphabetical order.

    Raises:
        ValueError: no operand, or a label out of range.
        RuntimeError: an equation that does not fit the operands.
    """
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least "
            "one operand and its subscripts list"
        )
    if isinstance(args[0], str):
        return _einsum(*args)
    pairs, rest = divmod(len(args), 2)
    equation = ",".join(_term(args[2 * i + 1]) for i in range(pairs))
    if rest:
        equation += "->" + _term(args[-1])
    return _einsum(equation, *(args[2 * i] for i in range(pairs)))


def tensordot(
    a: Tensor,
    b: Tensor,
    dims: int | Tensor | Sequence[Sequence[int]] = 2,
    out: Tensor | None = None,
) -> Tensor:
    """Contracts dims of ``a`` with dims of ``b``; the free dims of ``a``, then of ``b``, remain.

    Args:
        dims: an int n (the last n dims of ``a`` with the first n of ``b``), or the dims of ``a``
            and those of ``b`` as two lists (or one tensor of two rows).

    Raises:
        RuntimeError: lists of different length, or dims of different size.
    """
    if isinstance(dims, Tensor):
        dims = dims.item() if dims.numel() == 1 else dims.tolist()
    if isinstance(dims, int):
        result = _tensordot(a, b, dims)
    else:
        dims_a, dims_b = cast("Sequence[Sequence[int]]", dims)
        result = _tensordot_dims(a, b, dims_a, dims_b)
    return result if out is None else out.copy_(result)


def chain_matmul(*matrices: Tensor) -> Tensor:
    """Product of matrices in the order that needs the fewest multiplications."""
    from cograd.linalg import multi_dot

    return multi_dot(list(matrices))
