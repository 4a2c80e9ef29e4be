# SPDX-License-Identifier: BSD-3-Clause
"""Helpers around the engine."""

from cograd.utils import dlpack, hooks

__all__ = ["dlpack", "hooks"]
