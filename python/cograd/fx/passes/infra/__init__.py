# SPDX-License-Identifier: BSD-3-Clause
"""Passes as objects."""

__all__: list[str] = []
