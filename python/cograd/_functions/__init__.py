# SPDX-License-Identifier: BSD-3-Clause
"""Functions of the top-level namespace that are written in Python, by subject."""
