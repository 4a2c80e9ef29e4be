# SPDX-License-Identifier: BSD-3-Clause
"""The contexts that a call can run in: checkpoints, pack hooks, other hooks, copies, modes."""

from functools import cache

from pairs.facts import Named, by_name


class Context(Named):
    """Wraps a function into one with the same results and gradients."""

    plain_only = False  # leaves and plain backward, not under a transform
    backward_only = False  # backward(), not gradients of chosen leaves
    whole_only = False  # needs all results at once, not under vmap
    most = 9  # how often it may be differentiated
    forward = True  # forward mode goes through it
    vmap = True
    changes_values = False  # the reference is inside of it too
    ends = None  # the context around it that has no effect inside of it
    dtype = None
    around = None  # makes a context manager for the whole of a cell, backward too
    factor = 1  # what a hook multiplies each pass of reverse mode by
    uses_results = False  # the values of results have a part in its gradients
    new_arguments = False  # a module that is called with one tensor twice gets two tensors
    notes = False  # its hooks see the gradient on its way, before the factors of contexts around

    def __init__(self, name, wrap=None, prepare=None, **facts):
        super().__init__(name, **facts)
        self.wrap = wrap or (lambda case, f: f)
        self.prepare = prepare or (lambda case: None)


@cache
def all_contexts():
    """Returns every Context by its name."""
    from pairs.contexts import checkpoints, copies, hooks, modes, packs

    return by_name(checkpoints, packs, hooks, copies, modes, attribute="CONTEXTS")
