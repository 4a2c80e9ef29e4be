# SPDX-License-Identifier: BSD-3-Clause
"""Checkpoints: reentrant and non-reentrant, nested, of closures, with further results."""

from pairs.contexts import Context
from pairs.package import T

checkpoint = T.utils.checkpoint.checkpoint


def without_reentry(case, f):
    return lambda *x: checkpoint(f, *x, use_reentrant=False)


def with_reentry(case, f):
    return lambda *x: checkpoint(f, *x, use_reentrant=True)


def nested(case, f):
    def inner(*x):
        return checkpoint(f, *[t * 1 for t in x], use_reentrant=False)

    return lambda *x: checkpoint(inner, *x, use_reentrant=False)


def mixed(case, f):
    def inner(*x):
        return checkpoint(f, *[t * 1 for t in x], use_reentrant=False)

    return lambda *x: checkpoint(inner, *x, use_reentrant=True)


def whole_recomputed(case, f):
    def run(*x):
        with T.utils.checkpoint.set_checkpoint_early_stop(False):
            return checkpoint(f, *x, use_reentrant=False)

    return run


def by_keyword(case, f):
    """Checkpoints a function that closes over the inputs instead of taking them as arguments."""
    return lambda *x: checkpoint(lambda: f(*x), use_reentrant=False)


def detached_result(case, f):
    """Checkpoints a function with one more result, which is not part of the loss."""

    def run(*x):
        return checkpoint(lambda *y: (f(*y), y[0].exp() if y else None), *x, use_reentrant=False)[0]

    return run


class Reentrant(Context):
    """A reentrant checkpoint, which has a backward only if one of its inputs requires grad."""

    def refuses(self, case):
        return None if case.inputs else "no inputs"


CONTEXTS = [
    Context("checkpoint", without_reentry),
    Reentrant("reentrant checkpoint", with_reentry, plain_only=True, backward_only=True, most=1),
    Context("nested checkpoint", nested),
    Reentrant("checkpoint in a reentrant one", mixed, plain_only=True, backward_only=True, most=1),
    Context("checkpoint without early stop", whole_recomputed),
    Context("checkpoint of a closure", by_keyword),
    Context("checkpoint with one more result", detached_result),
]
