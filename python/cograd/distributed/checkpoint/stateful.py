# SPDX-License-Identifier: BSD-3-Clause
"""Objects that give and take their state."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

__all__ = ["Stateful"]


@runtime_checkable
class Stateful(Protocol):
    """What ``save`` asks for its state, and ``load`` gives one: a module, an optimizer, yours."""

    def state_dict(self) -> dict[str, Any]:
        """Its state, as ``save`` takes it."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what ``state_dict`` returned, filled from a checkpoint."""
