# SPDX-License-Identifier: BSD-3-Clause
# Written by make stubs from the rows of python/surface/faces.toml: change those.
"""torch's higher-order operations: associative_scan, composed of other ops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cograd._base import absent as _absent
from cograd._higher_order_ops.associative_scan import associative_scan

__all__ = [
    "associative_scan",
]

if not TYPE_CHECKING:  # type checkers would accept every name
    __getattr__ = _absent.reporter(__name__)
    del TYPE_CHECKING, annotations
