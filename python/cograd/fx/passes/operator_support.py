# SPDX-License-Identifier: BSD-3-Clause
"""Says which nodes a backend supports."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import cograd
from cograd.fx.node import Node
from cograd.fx.passes.shape_prop import TensorMetadata
from cograd.fx.passes.tools_common import get_node_target

__all__ = [
    "OpSupports",
    "OperatorSupport",
    "OperatorSupportBase",
    "any_chain",
    "chain",
    "create_op_support",
]


class OperatorSupportBase(ABC):
    """Says whether a node is supported."""

    @abstractmethod
    def is_node_supported(self, submodules: Mapping[str, Any], node: Node) -> bool:
        """Returns whether a node is supported; override it."""


def _dtype_of(node: Node) -> Any:
    meta = node.meta.get("tensor_meta")
    return meta.dtype if isinstance(meta, TensorMetadata) else node.meta["type"]


class OperatorSupport(OperatorSupportBase):
    """Supports nodes by a table.

    Args:
        support_dict: the dtypes of arguments by a target's name, as ``get_node_target`` returns it:
            a list for each positional one and a dict of those by name; None accepts all.
    """

    def __init__(self, support_dict: Mapping[str, Any] | None = None) -> None:
        self._support_dict = support_dict or {}

    def is_node_supported(self, submodules: Mapping[str, Any], node: Node) -> bool:
        """Returns whether the table has the node's target and the dtypes of its arguments."""
        if node.op not in ("call_module", "call_function", "call_method"):
            return True
        target = get_node_target(submodules, node)
        if target not in self._support_dict:
            return False
        wanted = self._support_dict[target]
        if wanted is None:
            return True
        pairs = [*zip(node.args, wanted[0], strict=False)]
        pairs += [(node.kwargs.get(name), dtypes) for name, dtypes in wanted[1].items()]
        return all(
            dtypes is None or not isinstance(arg, Node) or _dtype_of(arg) in dtypes
            for arg, dtypes in pairs
        )


def create_op_support(
    is_node_supported: Callable[[Mapping[str, Any], Node], bool],
) -> OperatorSupportBase:
    """Returns an object that asks a function."""

    class FunctionalOperatorSupport(OperatorSupportBase):
        def is_node_supported(self, submodules: Mapping[str, Any], node: Node) -> bool:
            return is_node_supported(submodules, node)

    return FunctionalOperatorSupport()


def chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """Supports what all of them support."""
    return create_op_support(lambda m, n: all(s.is_node_supported(m, n) for s in op_support))


def any_chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """Supports what one of them supports."""
    return create_op_support(lambda m, n: any(s.is_node_supported(m, n) for s in op_support))


class OpSupports:
    """Rules to combine by ``chain``."""

    @classmethod
    def decline_if_input_dtype(cls, dtype: cograd.dtype) -> OperatorSupportBase:
        """Supports nodes none of whose inputs has this dtype."""
        return create_op_support(
            lambda _, node: all(_dtype_of(n) != dtype for n in node.all_input_nodes)
        )

    @classmethod
    def decline_if_node_in_names(cls, disallow_set: set[str]) -> OperatorSupportBase:
        """Supports nodes of other names."""
        return create_op_support(lambda _, node: node.name not in disallow_set)
