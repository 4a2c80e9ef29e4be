# SPDX-License-Identifier: BSD-3-Clause
"""Modules that every package of cograd may use; they import nothing of other packages but _C."""
