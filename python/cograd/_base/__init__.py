# SPDX-License-Identifier: BSD-3-Clause
"""What every package of cograd may use; nothing here imports more of cograd than _C."""
