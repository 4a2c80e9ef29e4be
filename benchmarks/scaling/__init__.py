# SPDX-License-Identifier: BSD-3-Clause
"""Data-parallel steps: measured on the ranks of this machine, and predicted for thousands."""
