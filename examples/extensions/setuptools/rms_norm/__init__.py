# SPDX-License-Identifier: BSD-3-Clause
"""A fused, differentiable RMS norm."""

from pathlib import Path

import cograd

cograd.ops.load_library(next(Path(__file__).parent.glob("_ops*.so")))
rms_norm = cograd.ops.rms_norm.rms_norm

__all__ = ["rms_norm"]
