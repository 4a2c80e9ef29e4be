# SPDX-License-Identifier: BSD-3-Clause
"""Capabilities of the processor."""

from __future__ import annotations

from cograd import _C

__all__ = ["get_cpu_capability"]


def get_cpu_capability() -> str:
    """Returns the vector instructions of cograd's loops: "DEFAULT", "AVX2" or "AVX512"."""
    return _C._cpu_capability()
