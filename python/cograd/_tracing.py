# SPDX-License-Identifier: BSD-3-Clause
"""What packages ask of torch's tracers before they take a path for them: nothing is traced."""

from __future__ import annotations

from typing import Any

__all__ = ["FakeTensor", "get_proxy_mode", "is_fake"]


class FakeTensor:
    """A tensor without numbers; no tensor is one."""


def is_fake(x: Any) -> bool:
    """Whether ``x`` is a FakeTensor: always False."""
    return False


def get_proxy_mode() -> None:
    """The tracer that records now: None."""
