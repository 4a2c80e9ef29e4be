# SPDX-License-Identifier: BSD-3-Clause
"""Fusion of convolutions and linear layers with batch norm, and removal of dropout."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from cograd import nn
from cograd.fx._symbolic_trace import symbolic_trace
from cograd.fx.graph_module import GraphModule
from cograd.fx.interpreter import Transformer
from cograd.fx.node import Node
from cograd.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

__all__ = ["fuse", "matches_module_pattern", "remove_dropout", "replace_node_module"]


def _parent_name(target: str) -> tuple[str, str]:
    parent, _, name = target.rpartition(".")
    return parent, name


def matches_module_pattern(pattern: Iterable[type], node: Node, modules: dict[str, Any]) -> bool:
    """Returns whether ``node.args[0]`` and ``node`` call modules of exactly these types."""
    if not node.args:
        return False
    for kind, found in zip(pattern, (node.args[0], node), strict=False):
        if not isinstance(found, Node) or found.op != "call_module":
            return False
        if type(modules.get(found.target)) is not kind:
            return False
    return True


def replace_node_module(node: Node, modules: dict[str, Any], new_module: nn.Module) -> None:
    """Puts another module where the node's module is."""
    parent, name = _parent_name(node.target)
    modules[node.target] = new_module
    setattr(modules[parent], name, new_module)


def fuse(model: nn.Module, inplace: bool = False, no_trace: bool = False) -> nn.Module:
    """Computes batch norms in evaluation mode by the layers before them.

    Args:
        model: a model in evaluation mode.
        inplace: changes the model itself.
        no_trace: the model is a GraphModule already.
    """
    pairs = [
        (nn.Conv1d, nn.BatchNorm1d, fuse_conv_bn_eval),
        (nn.Conv2d, nn.BatchNorm2d, fuse_conv_bn_eval),
        (nn.Conv3d, nn.BatchNorm3d, fuse_conv_bn_eval),
        (nn.Linear, nn.BatchNorm1d, fuse_linear_bn_eval),
    ]
    if not inplace:
        model = copy.deepcopy(model)
    traced = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    modules = dict(traced.named_modules())
    graph = copy.deepcopy(traced.graph)
    for first, second, function in pairs:
        for node in graph.nodes:
            if not matches_module_pattern((first, second), node, modules):
                continue
            layer, norm = node.args[0], modules[node.target]
            if len(layer.users) > 1 or not norm.track_running_stats:
                continue
            fused: Any = function
            replace_node_module(layer, modules, fused(modules[layer.target], norm))
            node.replace_all_uses_with(layer)
            graph.erase_node(node)
    return GraphModule(traced, graph)


def remove_dropout(model: nn.Module) -> nn.Module:
    """Removes the dropout modules."""

    class _WithoutDropout(Transformer):
        def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
            if isinstance(self.submodules[target], nn.Dropout):
                return args[0]
            return super().call_module(target, args, kwargs)

    return _WithoutDropout(symbolic_trace(model)).transform()
