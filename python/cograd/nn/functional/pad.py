# SPDX-License-Identifier: BSD-3-Clause
"""Padding."""

from __future__ import annotations

import cograd

__all__ = ["pad"]

pad = cograd._C._nn.pad
