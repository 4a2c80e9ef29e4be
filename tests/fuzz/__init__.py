# SPDX-License-Identifier: BSD-3-Clause
"""Searches for crashes, hangs and leaks: see docs/hardening.md and `python tests/fuzz --help`."""
