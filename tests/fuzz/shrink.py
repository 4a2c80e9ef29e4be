# SPDX-License-Identifier: BSD-3-Clause
"""Runs a case by itself and removes from it what its fault does not need."""

from fuzz.execute import run_and_check
from fuzz.hunt import outcome_of


def repeat(case, seconds=None):
    return outcome_of(lambda: run_and_check(case), seconds)


def shrink(case, kind, steps=150):
    """Returns the smallest case found with a fault of this kind; None if `case` alone has none."""
    if repeat(case)[0] != kind:
        return None
    progress = True
    while progress and steps > 0:
        progress = False
        for smaller in case.smaller():
            steps -= 1
            if repeat(smaller)[0] == kind:
                case, progress = smaller, True
                break
            if steps <= 0:
                break
    return case
