# SPDX-License-Identifier: BSD-3-Clause
"""Imports every file of benchmarks, in the order of the table."""

from __future__ import annotations


def load() -> None:
    """Fills the registry of `case`."""
    from . import small, graph, function, kernels, package  # noqa: F401, I001: the table's order
