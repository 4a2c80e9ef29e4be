# SPDX-License-Identifier: BSD-3-Clause
"""Features inside features: `python tests/pairs --help`, docs/hardening.md."""
