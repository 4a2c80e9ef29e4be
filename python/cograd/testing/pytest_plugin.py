# SPDX-License-Identifier: BSD-3-Clause
"""The pytest plugin with the fixture ``cograd_check``; an installed cograd registers it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

__all__ = ["cograd_check"]


@pytest.fixture
def cograd_check(record_property: Callable[[str, object], None]) -> Callable[..., Any]:
    """Returns ``cograd.testing.check``; tables of passed audits become test properties."""
    from cograd.testing import check

    def run(fn: Any, args: Any = (), kwargs: dict[str, Any] | None = None, **options: Any) -> Any:
        __tracebackhide__ = True
        report = check(fn, args, kwargs, **options)
        record_property(f"cograd_check of {report.name}", str(report))
        return report

    return run
