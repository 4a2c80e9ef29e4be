# SPDX-License-Identifier: BSD-3-Clause
# Written by make stubs from the rows of python/surface/faces.toml: change those.
"""torch's type of compiled modules."""

from __future__ import annotations

from typing import Any

from cograd._base import absent as _absent
from cograd.nn import Module

__all__ = [
    "OptimizedModule",
]


class OptimizedModule(Module):
    """torch's type of compiled modules. It has no instances: ``compile`` returns its argument."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise _absent.refused("_dynamo.OptimizedModule", "compiler")
