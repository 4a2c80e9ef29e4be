# SPDX-License-Identifier: BSD-3-Clause
"""Provides matching, which several passes use."""

__all__: list[str] = []
