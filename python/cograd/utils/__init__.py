# SPDX-License-Identifier: BSD-3-Clause
"""Helpers around the engine."""

from cograd.utils import hooks

__all__ = ["hooks"]
