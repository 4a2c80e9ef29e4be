# SPDX-License-Identifier: BSD-3-Clause
"""Benchmarks of cograd beside torch: `make bench`, or `python -m benchmarks --help`."""
