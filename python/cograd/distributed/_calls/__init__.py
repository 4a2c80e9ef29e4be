# SPDX-License-Identifier: BSD-3-Clause
"""The public calls of cograd.distributed, by kind."""
