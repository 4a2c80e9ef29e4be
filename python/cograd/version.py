# SPDX-License-Identifier: BSD-3-Clause
"""The version of cograd; the versions of accelerator libraries are None."""

from __future__ import annotations

import cograd

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "rocm", "xpu"]

__version__ = cograd.__version__
debug = False
git_version = "unknown"
cuda: str | None = None
hip: str | None = None
rocm: str | None = None
xpu: str | None = None
