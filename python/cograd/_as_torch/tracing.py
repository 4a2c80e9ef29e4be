# SPDX-License-Identifier: BSD-3-Clause
# Written by make stubs from the rows of python/surface/faces.toml: change those.
"""torch's tracer queries, which packages call before they trace: no tracer is ever active."""

from __future__ import annotations

from typing import Any

__all__ = [
    "FakeTensor",
    "get_proxy_mode",
    "is_fake",
]


class FakeTensor:
    """torch's tensor without data. It has no instances."""


def is_fake(x: Any) -> bool:
    """Returns False: no tensor is a FakeTensor."""
    return False


def get_proxy_mode() -> None:
    """Returns None: no tracer is recording."""
