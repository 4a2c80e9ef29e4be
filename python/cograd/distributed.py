# SPDX-License-Identifier: BSD-3-Clause
"""Answers for programs that may run over several processes: here they run in one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cograd import _absent

__all__ = ["is_available", "is_initialized", "is_torchelastic_launched"]


def is_available() -> bool:
    """Always False."""
    return False


def is_initialized() -> bool:
    """Always False."""
    return False


def is_torchelastic_launched() -> bool:
    """Always False."""
    return False


if not TYPE_CHECKING:
    __getattr__ = _absent.reporter(__name__)
