# SPDX-License-Identifier: BSD-3-Clause
"""Answers for programs that ask whether there is a GPU: there is none."""


def is_available() -> bool:
    """Always False: cograd runs on the CPU."""
    return False


def device_count() -> int:
    """Always 0."""
    return 0
