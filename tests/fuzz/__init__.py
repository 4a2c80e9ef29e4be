# SPDX-License-Identifier: BSD-3-Clause
"""Programs that look for crashes, hangs and leaks: `python tests/fuzz --help`, docs/hardening.md."""
