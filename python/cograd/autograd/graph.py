# SPDX-License-Identifier: BSD-3-Clause
"""The recorded graph: nodes, edges to tensors, tensor versions."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cograd._C import Node
from cograd.autograd._edges import (
    GradientEdge,
    InputMetadata,
    get_gradient_edge,
    increment_version,
    queue_callback,
    register_multi_grad_hook,
)
from cograd.autograd._saved import (
    allow_mutation_on_saved_tensors,
    disable_saved_tensors_hooks,
    save_on_cpu,
    saved_tensors_hooks,
)

if TYPE_CHECKING:
    from cograd.autograd._draw import draw, to_dot, to_mermaid
    from cograd.autograd._graph_page import ModuleCalls, record_modules
    from cograd.autograd._memory import (
        SavedMemory,
        SavedRecord,
        saved_memory,
        saved_tensor_budget,
    )

# Imported at first access, because training does not need these modules.
_LAZY = {
    "ModuleCalls": "_graph_page",
    "SavedMemory": "_memory",
    "SavedRecord": "_memory",
    "draw": "_draw",
    "record_modules": "_graph_page",
    "saved_memory": "_memory",
    "saved_tensor_budget": "_memory",
    "to_dot": "_draw",
    "to_mermaid": "_draw",
}

__all__ = [
    "GradientEdge",
    "InputMetadata",
    "ModuleCalls",
    "Node",
    "SavedMemory",
    "SavedRecord",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "draw",
    "get_gradient_edge",
    "increment_version",
    "queue_callback",
    "record_modules",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_memory",
    "saved_tensor_budget",
    "saved_tensors_hooks",
    "to_dot",
    "to_mermaid",
]


if not TYPE_CHECKING:  # type checkers would accept every name

    def __getattr__(name: str) -> Any:
        if name in _LAZY:
            value = getattr(import_module(f"cograd.autograd.{_LAZY[name]}"), name)
            globals()[name] = value
            return value
        from cograd._base import absent

        raise absent.missing(__name__, name)
