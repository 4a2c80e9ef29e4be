# SPDX-License-Identifier: BSD-3-Clause
"""Passes as objects."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

__all__ = ["PassBase", "PassResult"]


class PassResult(NamedTuple):
    """Holds the result of a pass: a module, and whether it changed."""

    graph_module: Any
    modified: bool


class PassBase(ABC):
    """A pass: ``call`` changes a module; ``requires`` and ``ensures`` check it."""

    def __call__(self, graph_module: Any) -> PassResult | None:
        """Runs the checks and the pass."""
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abstractmethod
    def call(self, graph_module: Any) -> PassResult | None:
        """Changes the module; override it."""

    def requires(self, graph_module: Any) -> None:  # noqa: B027
        """Called before the pass; override it to check the module."""

    def ensures(self, graph_module: Any) -> None:  # noqa: B027
        """Called after the pass; override it to check the module."""
