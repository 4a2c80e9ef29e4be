# SPDX-License-Identifier: BSD-3-Clause
"""Measures data-parallel steps on this machine's ranks, and predicts those of thousands."""
