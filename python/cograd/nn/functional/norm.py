# SPDX-License-Identifier: BSD-3-Clause
"""Normalisations."""

from __future__ import annotations

import cograd
from cograd import Tensor

layer_norm = cograd.layer_norm
rms_norm = cograd.rms_norm


def normalize(
    input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """``input`` divided by its p-norm along ``dim``, which is taken as at least ``eps``."""
    result = input / input.norm(p, dim, keepdim=True).clamp(min=eps).expand_as(input)
    return result if out is None else out.copy_(result)
