# SPDX-License-Identifier: BSD-3-Clause
"""Differentiable Runge-Kutta steps of a predator-prey system."""

from pathlib import Path

import cograd

cograd.ops.load_library(next(Path(__file__).parent.glob("_ops*.so")))
rk4 = cograd.ops.rk4.rk4

__all__ = ["rk4"]
