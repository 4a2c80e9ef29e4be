# SPDX-License-Identifier: BSD-3-Clause
"""Linear and bilinear maps."""

from __future__ import annotations

import cograd

__all__ = ["bilinear", "linear"]

bilinear = cograd.bilinear
linear = cograd._C._nn.linear
