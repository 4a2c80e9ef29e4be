# SPDX-License-Identifier: BSD-3-Clause
"""``Variable``: the old name of a tensor that is part of a graph."""

from __future__ import annotations

import warnings
from typing import Any

from cograd import _C
from cograd._C import Tensor
from cograd.autograd._edges import queue_callback

__all__ = ["Variable", "VariableMeta"]


class _Engine:
    """The functions that programs reach through ``Variable._execution_engine``."""

    @staticmethod
    def queue_callback(callback: Any) -> None:
        """Calls ``autograd.graph.queue_callback``."""
        queue_callback(callback)

    @staticmethod
    def is_checkpoint_valid() -> bool:
        """Returns whether the running backward reaches all leaves, for re-entrant checkpoints."""
        return bool(_C._is_checkpoint_valid())

    @staticmethod
    def run_backward(
        tensors: Any,
        grad_tensors: Any,
        keep_graph: bool,
        create_graph: bool,
        inputs: Any = (),
        allow_unreachable: bool = True,
        accumulate_grad: bool = False,
    ) -> tuple[Tensor | None, ...]:
        """Runs a backward; ``backward`` and ``grad`` call it."""
        wanted = tuple(inputs) or None
        return tuple(
            _C._run_backward(
                tuple(tensors),
                tuple(grad_tensors),
                keep_graph,
                create_graph,
                wanted,
                accumulate_grad or wanted is None,
            )
        )


class VariableMeta(type):
    """Makes every tensor an instance of ``Variable``."""

    def __instancecheck__(cls, other: object) -> bool:
        return isinstance(other, Tensor)


class Variable(metaclass=VariableMeta):
    """Old constructor: ``Variable(t)`` is a tensor over the memory of ``t`` without its history.

    Args:
        data: a tensor; None creates an empty one.
        requires_grad: whether the result requires grad.
        volatile: has no effect.
    """

    _execution_engine = _Engine()

    def __new__(cls, data: Any = None, requires_grad: bool = False, volatile: bool = False) -> Any:
        if volatile:
            warnings.warn(
                "volatile was removed and now has no effect. Use `with cograd.no_grad():` instead.",
                stacklevel=2,
            )
        if data is None:
            data = Tensor()
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        out = data.detach()
        return out.requires_grad_() if requires_grad else out
