# SPDX-License-Identifier: BSD-3-Clause
"""Helpers for state dicts."""

from __future__ import annotations

from typing import Any

__all__ = ["consume_prefix_in_state_dict_if_present"]


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Takes ``prefix`` off the keys that begin with it, in place: "module.", say.

    A state_dict of DistributedDataParallel then fits the module that it wraps.
    """
    for key in list(state_dict):
        value = state_dict.pop(key)  # popped and set: the order stays
        state_dict[key.removeprefix(prefix)] = value
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is None:
        return
    for key in list(metadata):
        if key == prefix.removesuffix("."):
            metadata[""] = metadata.pop(key)
        elif key.startswith(prefix):
            metadata[key[len(prefix) :]] = metadata.pop(key)
