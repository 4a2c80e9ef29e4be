# SPDX-License-Identifier: BSD-3-Clause
"""Neural-network modules with torch.nn's names and semantics."""

from __future__ import annotations

from . import functional, init, modules, parameter, utils
from .modules import *  # noqa: F403
from .parameter import Buffer, Parameter

__all__ = [
    "Buffer",
    "Parameter",
    "functional",
    "init",
    "parameter",
    "utils",
]
__all__ += modules.__all__
