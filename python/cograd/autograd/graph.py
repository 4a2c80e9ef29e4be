# SPDX-License-Identifier: BSD-3-Clause
"""The recorded graph: nodes, edges to tensors, versions."""

from __future__ import annotations

from cograd._C import Node
from cograd.autograd._edges import (
    GradientEdge,
    InputMetadata,
    get_gradient_edge,
    increment_version,
    queue_callback,
    register_multi_grad_hook,
)

__all__ = [
    "GradientEdge",
    "InputMetadata",
    "Node",
    "get_gradient_edge",
    "increment_version",
    "queue_callback",
    "register_multi_grad_hook",
]
