# SPDX-License-Identifier: BSD-3-Clause
"""How much of the grid runs: `whole` in `make pairs`, `ordinary` in `make test`."""

from pairs.grid import Cell, cells_of

# Part of the grid -> the fractions that run of measures of first and of second order, of which
# there are about 200.
WHOLE_SHARES = {
    "none": (1.0, 1.0),
    "single": (1.0, 0.1),
    "pair": (0.004, 0.0004),
    "form none": (1.0, 0.1),
    "form single": (0.02, 0.002),
}
ORDINARY_SHARES = {
    "none": (0.06, 0.01),
    "single": (0.01, 0.0005),
    "pair": (0.0001, 0.0),
    "form none": (0.02, 0.001),
    "form single": (0.0003, 0.0),
}
# Backward in these contexts is the most common use: it always runs, for every module and op.
EVERY = ("checkpoint", "save_on_cpu", "pack with other strides", "copying pack")


def share_of(table, part, subject, order):
    """Returns the fraction that runs. Further samples of an op run less often: many are alike."""
    share = table[part][order > 1]
    return share * 0.2 if part != "none" and is_further(subject) else share


def is_further(subject):
    return subject.kind == "op" and subject.row["number"] > 0


def whole(part, subject, order):
    return share_of(WHOLE_SHARES, part, subject, order)


def ordinary(part, subject, order):
    return share_of(ORDINARY_SHARES, part, subject, order)


def ordinary_cells(subject):
    """Yields the cells of a subject that `make test` runs; they are the same each time."""
    if not is_further(subject):
        for context in EVERY:
            yield Cell(subject.name, "plain", (context,), "backward")
    yield from cells_of(subject, 0, ordinary)
