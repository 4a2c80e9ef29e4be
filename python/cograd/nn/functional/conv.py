# SPDX-License-Identifier: BSD-3-Clause
"""Convolutions, and the extraction of sliding blocks from images."""

from __future__ import annotations

import cograd

__all__ = [
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "fold",
    "unfold",
]

conv1d = cograd.conv1d
conv2d = cograd.conv2d
conv3d = cograd.conv3d
conv_transpose1d = cograd.conv_transpose1d
conv_transpose2d = cograd.conv_transpose2d
conv_transpose3d = cograd.conv_transpose3d
conv_tbc = cograd.conv_tbc
unfold = cograd._C._nn.unfold
fold = cograd._C._nn.fold
