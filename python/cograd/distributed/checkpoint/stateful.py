# SPDX-License-Identifier: BSD-3-Clause
"""Protocol of objects that return and load their state."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

__all__ = ["Stateful"]


@runtime_checkable
class Stateful(Protocol):
    """An object whose state ``save`` writes and ``load`` restores, such as a module."""

    def state_dict(self) -> dict[str, Any]:
        """Returns the state, in a form that ``save`` accepts."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores a result of ``state_dict`` that was filled from a checkpoint."""
