# SPDX-License-Identifier: BSD-3-Clause
"""ShapeProp: notes the shape and dtype of every value of a graph."""

from __future__ import annotations

import traceback
from typing import Any, NamedTuple

import cograd
from cograd.fx.interpreter import Interpreter
from cograd.fx.node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """Describes a node's value, as ``meta["tensor_meta"]``."""

    shape: cograd.Size
    dtype: cograd.dtype
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: cograd.memory_format | None
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(
    result: cograd.Tensor, include_contiguity: bool = True
) -> TensorMetadata:
    layout = None
    if include_contiguity:
        formats = (cograd.contiguous_format, cograd.channels_last, cograd.channels_last_3d)
        layout = next((f for f in formats if _has_format(result, f)), None)
    return TensorMetadata(
        result.shape, result.dtype, result.requires_grad, result.stride(), layout, False, {}
    )


def _has_format(tensor: cograd.Tensor, form: Any) -> bool:
    dims = {cograd.channels_last: 4, cograd.channels_last_3d: 5}.get(form, tensor.dim())
    return tensor.dim() == dims and bool(tensor.is_contiguous(memory_format=form))


class ShapeProp(Interpreter):
    """Runs a graph and notes shapes, dtypes and types in ``meta`` of its nodes.

    Args:
        gm: the module.
        fake_mode: must be None: there are no tensors without data here.
    """

    def __init__(self, gm: Any, fake_mode: Any = None) -> None:
        super().__init__(gm)
        if fake_mode is not None:
            raise NotImplementedError("ShapeProp(): fake_mode must be None: pass real tensors")
        self.real_module = self.module

    def run_node(self, n: Node) -> Any:
        """Runs a node and notes what its value is."""
        try:
            result = super().run_node(n)
        except Exception as error:
            traceback.print_exc()
            raise RuntimeError(
                f"ShapeProp error for: node={n.format_node()} with meta={n.meta}"
            ) from error
        found = []

        def extract(value: Any) -> Any:
            if isinstance(value, cograd.Tensor):
                found.append(value)
                return _extract_tensor_metadata(value)
            return value

        meta = map_aggregate(result, extract)
        if found:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Runs the module on these arguments and returns its result."""
        return super().run(*args)
