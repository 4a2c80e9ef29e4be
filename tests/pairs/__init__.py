# SPDX-License-Identifier: BSD-3-Clause
"""Tests features inside features: see docs/hardening.md and `python tests/pairs --help`."""
