# SPDX-License-Identifier: BSD-3-Clause
"""What a compiled module would be an instance of."""

from __future__ import annotations

from typing import Any

from cograd import _absent
from cograd.nn import Module

__all__ = ["OptimizedModule"]


class OptimizedModule(Module):
    """A compiled module: ``compile`` returns its argument, so nothing is one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise _absent.refused("_dynamo.OptimizedModule", "compiler")
