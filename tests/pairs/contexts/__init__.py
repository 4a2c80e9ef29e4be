# SPDX-License-Identifier: BSD-3-Clause
"""The contexts that a call can run in: checkpoints, pack hooks, other hooks, copies, modes."""

from functools import cache

from pairs.facts import Named, by_name


class Context(Named):
    """Wraps a function into one with the same results and gradients."""

    plain_only = False  # works with leaves and plain backward only, not under a transform
    backward_only = False  # works with backward() only, not with gradients of chosen leaves
    whole_only = False  # needs all results at once, so it does not work under vmap
    most = 9  # how often the function may be differentiated
    forward = True  # works in forward mode
    vmap = True  # works under vmap
    changes_values = False  # the reference runs in this context, too
    dtype = None  # the dtype of the inputs; None for float64
    around = None  # returns a context manager for the whole cell, including its backward
    factor = 1  # the number by which hooks multiply the gradient in each pass of reverse mode

    def __init__(self, name, wrap=None, prepare=None, **facts):
        super().__init__(name, **facts)
        self.wrap = wrap or (lambda case, f: f)
        self.prepare = prepare or (lambda case: None)


@cache
def all_contexts():
    """Returns every Context by its name."""
    from pairs.contexts import checkpoints, copies, hooks, modes, packs

    return by_name(checkpoints, packs, hooks, copies, modes, attribute="CONTEXTS")
