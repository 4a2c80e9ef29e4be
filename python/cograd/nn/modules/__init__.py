# SPDX-License-Identifier: BSD-3-Clause
"""The layers of cograd.nn."""

from __future__ import annotations

from . import activation, attention, container, layers, linear, loss, param_container
from .activation import *  # noqa: F403
from .attention import *  # noqa: F403
from .container import *  # noqa: F403
from .layers import *  # noqa: F403
from .linear import *  # noqa: F403
from .loss import *  # noqa: F403
from .module import Module
from .param_container import *  # noqa: F403

_FAMILIES = (activation, attention, container, layers, linear, loss, param_container)

__all__ = ["Module", *(name for family in _FAMILIES for name in family.__all__)]
