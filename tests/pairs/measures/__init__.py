# SPDX-License-Identifier: BSD-3-Clause
"""Ways to take derivatives and other quantities of a call. `all_measures()`: name -> Measure."""

from functools import cache

from pairs.facts import Named, by_name


class Measure(Named):
    """A way to a quantity; `direct` ones use the case's own leaves, others are pure functions."""

    kind = ""  # "optimizer": for optimizers alone
    direct = True
    order = 1  # how often the function is differentiated
    forward = False  # forward mode is used
    batched = False  # vmap is used
    inputs_only = False  # takes gradients of chosen leaves, which reentrant checkpoints refuse
    runs_again = False  # the function is evaluated more than once: a state would go on
    exact = True  # not by finite differences
    reverse = 1  # how often a tensor hook inside of the function is run on its way

    def __init__(self, name, run, want, **facts):
        super().__init__(name, **facts)
        self.run, self.want = run, want


@cache
def all_measures():
    from pairs.measures import batched, chains, direct, numeric, steps

    return by_name(direct, chains, batched, numeric, steps, attribute="MEASURES")
