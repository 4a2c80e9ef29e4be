# SPDX-License-Identifier: BSD-3-Clause
"""Collectives and messages between GPUs by NCCL."""
