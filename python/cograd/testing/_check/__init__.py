# SPDX-License-Identifier: BSD-3-Clause
"""check, the audit of a differentiable operation, and the checks it runs."""

from __future__ import annotations

from .report import CheckError, CheckReport, CheckResult
from .run import CHECKS, check

__all__ = ["CHECKS", "CheckError", "CheckReport", "CheckResult", "check"]
