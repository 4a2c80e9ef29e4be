# SPDX-License-Identifier: BSD-3-Clause
"""Passes over graphs: shapes, splitting, drawing, matching."""

__all__: list[str] = []
