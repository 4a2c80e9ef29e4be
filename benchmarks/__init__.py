# SPDX-License-Identifier: BSD-3-Clause
"""Benchmarks that compare cograd with torch: `make bench`, or `python -m benchmarks --help`."""
