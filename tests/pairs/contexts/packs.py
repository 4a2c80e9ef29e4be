# SPDX-License-Identifier: BSD-3-Clause
"""Pack and unpack hooks that return the saved numbers in other memory."""

import io

from pairs.contexts import Context
from pairs.package import T

graph = T.autograd.graph


def packing(pack, unpack):
    def wrap(case, f):
        def run(*x):
            with graph.saved_tensors_hooks(pack, unpack):
                return f(*x)

        return run

    return wrap


def same(t):
    return t


def copied(t):
    return t.clone()


def detached(t):
    return t.detach().clone()


def to_numpy(t):
    return t.detach().numpy().copy()


def from_numpy(a):
    return T.from_numpy(a)


def other_strides(t):
    """Returns a copy whose dims lie in memory in reverse order, with gaps between the elements."""
    dims = tuple(range(t.dim()))[::-1]
    gaps = T.stack([t.permute(dims), t.permute(dims)], -1)[..., 0]
    return gaps.permute(dims)


def contiguous(t):
    return t.contiguous() if not t.is_contiguous() else t.clone()


def to_bytes(t):
    stream = io.BytesIO()
    T.save(t.detach().clone(), stream)
    return stream.getvalue()


def from_bytes(data):
    return T.load(io.BytesIO(data))


def on_cpu(case, f):
    def run(*x):
        with graph.save_on_cpu():
            return f(*x)

    return run


def twice(case, f):
    """Nests two pairs of hooks, of which only the inner one is called."""

    def run(*x):
        with graph.saved_tensors_hooks(to_numpy, from_numpy), graph.saved_tensors_hooks(same, same):
            return f(*x)

    return run


CONTEXTS = [
    Context("identity pack", packing(same, same)),
    Context("copying pack", packing(copied, same)),
    Context("copying unpack", packing(same, copied)),
    Context("save_on_cpu", on_cpu),
    Context("detaching pack", packing(detached, same), forward=False),
    Context("pack to NumPy", packing(to_numpy, from_numpy), plain_only=True),
    Context("pack to a file", packing(to_bytes, from_bytes), plain_only=True),
    Context("pack with other strides", packing(other_strides, same)),
    Context("unpack with other strides", packing(same, other_strides)),
    Context("contiguous pack", packing(contiguous, same)),
    Context("nested packs", twice),
]
