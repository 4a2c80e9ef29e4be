# SPDX-License-Identifier: BSD-3-Clause
"""Ways to take derivatives and other quantities of a call. `all_measures()`: name -> Measure."""

from functools import cache


class Measure:
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
        self.name, self.run, self.want = name, run, want
        for key, value in facts.items():
            assert hasattr(self, key), key
            setattr(self, key, value)

    def refuses(self, case):
        """A reason why it is not for the case, or None."""
        return None


@cache
def all_measures():
    from pairs.measures import batched, chains, direct, numeric, steps

    found = [*direct.MEASURES, *chains.MEASURES, *batched.MEASURES, *numeric.MEASURES]
    found += steps.MEASURES
    return {m.name: m for m in found}
