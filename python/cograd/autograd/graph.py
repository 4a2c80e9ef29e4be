# SPDX-License-Identifier: BSD-3-Clause
"""The recorded graph: nodes, edges to tensors, versions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from cograd import _C
from cograd._C import Node, Tensor

__all__ = ["GradientEdge", "Node", "get_gradient_edge", "increment_version"]


class GradientEdge(NamedTuple):
    """Where the gradient of a tensor goes: output ``output_nr`` of ``node``."""

    node: Node
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge of ``tensor``: of its grad_fn, or of the accumulator if it is a leaf.

    Raises:
        RuntimeError: the tensor does not require grad.
    """
    if not tensor.requires_grad:
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not require "
            "gradients."
        )
    if tensor.grad_fn is not None:
        return GradientEdge(tensor.grad_fn, tensor.output_nr)
    view = tensor.view_as(tensor)
    return GradientEdge(view.grad_fn.next_functions[0][0], 0)


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Counts one in-place write of ``tensor`` (or of each) that the engine could not see."""
    for t in [tensor] if isinstance(tensor, Tensor) else tensor:
        _C._increment_version(t)
