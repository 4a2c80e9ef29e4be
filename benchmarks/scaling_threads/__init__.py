# SPDX-License-Identifier: BSD-3-Clause
"""Measures how operations and whole steps scale with the number of threads."""
