# SPDX-License-Identifier: BSD-3-Clause
"""Modes, another thread, a custom Function and a subclass."""

import contextlib
import threading

from pairs.contexts import Context
from pairs.package import T


def inside(manager):
    """Runs the call inside a with statement; the backward runs outside of it."""

    def wrap(case, f):
        def run(*x):
            with manager():
                return f(*x)

        return run

    return wrap


def in_thread(case, f):
    def run(*x):
        found = []

        def work():
            try:
                found.append(f(*x))
            except BaseException as e:
                found.append(e)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        if isinstance(found[0], BaseException):
            raise found[0]
        return found[0]

    return run


class Through(T.autograd.Function):
    """Returns a copy of its input, which it saves."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g + 0 * x

    @staticmethod
    def jvp(ctx, t):
        return t.clone()


def through_function(case, f):
    def run(*x):
        return tuple(Through.apply(o) for o in f(*[Through.apply(t) for t in x]))

    return run


class Marked(T.Tensor):
    """A subclass of Tensor that overrides nothing."""


def as_subclass(case, f):
    def run(*x):
        outs = f(*[t.as_subclass(Marked) for t in x])
        return tuple(o.as_subclass(T.Tensor) for o in outs)

    return run


def autocast(**options):
    return inside(lambda: T.autocast("cpu", **options))


@contextlib.contextmanager
def deterministic():
    T.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        T.use_deterministic_algorithms(False)


CONTEXTS = [
    Context("another thread", in_thread, plain_only=True, ends="autocast"),
    Context("anomaly mode", inside(lambda: T.autograd.detect_anomaly(check_nan=False))),
    Context(
        "anomaly mode, backward too", around=lambda: T.autograd.detect_anomaly(check_nan=False)
    ),
    Context("autocast", autocast(dtype=T.bfloat16), changes_values=True, dtype=T.float32),
    Context("autocast(enabled=False)", autocast(enabled=False), ends="autocast"),
    Context("enable_grad", inside(T.enable_grad)),
    Context("one thread", inside(lambda: T.autograd.set_multithreading_enabled(False))),
    Context(
        "mutation allowed",
        around=T.autograd.graph.allow_mutation_on_saved_tensors,
        plain_only=True,
    ),
    Context("deterministic algorithms", around=deterministic),
    Context("a Function", through_function, uses_results=True),
    Context("a subclass", as_subclass),
]
