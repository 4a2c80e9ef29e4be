# SPDX-License-Identifier: BSD-3-Clause
"""torch's higher-order operations: associative_scan, composed of other ops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cograd import _absent
from cograd._higher_order_ops.associative_scan import associative_scan

__all__ = ["associative_scan"]

if not TYPE_CHECKING:
    __getattr__ = _absent.reporter(__name__)
