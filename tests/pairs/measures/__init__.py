# SPDX-License-Identifier: BSD-3-Clause
"""The measures: ways to compute derivatives and other quantities of a call."""

from functools import cache

from pairs.facts import Named, by_name


class Measure(Named):
    """A way to compute quantities of a call.

    A `direct` measure uses the leaves of the case; others call a pure function of all its tensors.
    """

    kind = ""  # "optimizer" if the measure is for optimizers only
    direct = True
    order = 1  # how often the function is differentiated
    forward = False  # forward mode is used
    batched = False  # vmap is used
    inputs_only = False  # takes gradients of chosen leaves, which reentrant checkpoints refuse
    runs_again = False  # the function is evaluated more than once: a state would go on
    exact = True  # not by finite differences
    number = False  # gives a derivative in a direction
    reverse = 1  # how often a tensor hook inside of the function is run on its way

    def __init__(self, name, run, want, **facts):
        super().__init__(name, **facts)
        self.run, self.want = run, want


@cache
def all_measures():
    """Returns every Measure by its name."""
    from pairs.measures import batched, chains, direct, numeric, steps

    return by_name(direct, chains, batched, numeric, steps, attribute="MEASURES")
