# SPDX-License-Identifier: BSD-3-Clause
"""Another thread writes to index tensors and masks while an op reads them: results may be anything
and errors may be raised, but no memory outside of the tensors is accessed.
"""

import threading
import time

import pytest
from children import outcome

import cograd as cg
import cograd.nn.functional as F

N = 100_000  # ops of this size release the interpreter's lock
SECONDS = 0.15
FAR = 10**12


def rows(*shape, dtype=cg.float32):
    return cg.ones(*shape, dtype=dtype)


def grads(y, *inputs):
    """Returns a step that computes the gradients of y while its saved indices are written to."""
    g = cg.ones_like(y)
    return lambda: cg.autograd.grad(y, inputs, g, retain_graph=True)


def leaf(*shape):
    return cg.ones(*shape, requires_grad=True)


def reduced(op, include_self, dtype=cg.float32):
    x, s = rows(10, dtype=dtype), rows(N, dtype=dtype)
    return lambda i: lambda: x.scatter_reduce_(0, i, s, op, include_self=include_self)


def ctc(i, backward=False):
    logits = cg.zeros(2, 10, 5, requires_grad=True)
    lengths = cg.full((10,), 2), cg.full((10,), N // 10)
    labels = i.view(10, -1)

    def loss():
        return F.ctc_loss(logits.log_softmax(2), labels, *lengths, reduction="none")

    return grads(loss(), logits) if backward else loss


def bag(i, mode="sum"):
    table, starts = leaf(10, 3), cg.arange(0, N, 10)
    return lambda: F.embedding_bag(i, table, starts, mode=mode).sum().backward()


def unpool(i):
    x = leaf(10, N // 10)
    return lambda: F.max_unpool1d(x, i.view(10, -1), 1, output_size=(N // 10,))


def unpool_backward(i):
    x = leaf(10, N // 10)
    return grads(F.max_unpool1d(x, i.view(10, -1), 1, output_size=(N // 10,)), x)


def sorter(i):
    sequence, values = cg.zeros(N), cg.zeros(N)
    return lambda: cg.searchsorted(sequence, values, sorter=i)


def advanced_put(i, accumulate=False):
    x, v = rows(10, 10), rows(N)
    return lambda: x.index_put_((i, i), v, accumulate)


# Ops on N int64 indices that are 0, 10**12 or -10**12.
INDEX = {
    "gather": lambda i: lambda: rows(10).gather(0, i),
    "gather of rows": lambda i: lambda: rows(10, 4).gather(0, i.view(-1, 4)),
    "gather strided": lambda i: lambda: rows(4, 10).gather(1, i.view(-1, 4).T),
    "gather backward": lambda i: (lambda x: grads(x.gather(0, i), x))(leaf(10)),
    "take_along_dim": lambda i: lambda: rows(10).take_along_dim(i, 0),
    "scatter": lambda i: (lambda x, s: lambda: x.scatter_(0, i, s))(rows(10), rows(N)),
    "scatter of rows": lambda i: (lambda x: lambda: x.scatter_(0, i.view(-1, 4), 2.0))(rows(9, 4)),
    "scatter_add": lambda i: (lambda x, s: lambda: x.scatter_add_(0, i, s))(rows(10), rows(N)),
    "scatter_reduce prod": reduced("prod", False),
    "scatter_reduce mean": reduced("mean", True),
    "scatter_reduce amax": reduced("amax", False, cg.float16),
    "scatter_reduce complex": reduced("mean", False, cg.complex64),
    "index_select": lambda i: lambda: rows(10).index_select(0, i),
    "index_select of rows": lambda i: lambda: rows(10, 33).index_select(0, i),
    "index_select backward": lambda i: (lambda x: grads(x.index_select(0, i), x))(leaf(10)),
    "index_add": lambda i: (lambda x, s: lambda: x.index_add_(0, i, s))(rows(10), rows(N)),
    "index_add of halves": lambda i: (lambda x, s: lambda: x.index_add_(0, i, s))(
        rows(10, dtype=cg.bfloat16), rows(N, dtype=cg.bfloat16)
    ),
    "index_copy": lambda i: (lambda x, s: lambda: x.index_copy_(0, i, s))(rows(10), rows(N)),
    "index_fill": lambda i: (lambda x: lambda: x.index_fill_(0, i, 2.0))(rows(10)),
    "index_reduce": lambda i: (lambda x, s: lambda: x.index_reduce_(0, i, s, "mean"))(
        rows(10), rows(N)
    ),
    "take": lambda i: lambda: rows(10).take(i),
    "put": lambda i: (lambda x, s: lambda: x.put_(i, s))(rows(10), rows(N)),
    "put adding": lambda i: (lambda x, s: lambda: x.put_(i, s, True))(rows(10), rows(N)),
    "get": lambda i: lambda: rows(10, 10)[i, i],
    "set": advanced_put,
    "set adding": lambda i: advanced_put(i, True),
    "embedding": lambda i: lambda: F.embedding(i, rows(10, 3)),
    "embedding backward": lambda i: (lambda w: grads(F.embedding(i, w), w))(leaf(10, 3)),
    "embedding of a norm": lambda i: lambda: F.embedding(i, rows(10, 3), max_norm=1.0),
    "embedding_bag": bag,
    "embedding_bag max": lambda i: bag(i, "max"),
    "one_hot": lambda i: lambda: F.one_hot(i, 4),
    "nll_loss": lambda i: lambda: F.nll_loss(rows(N, 3), i),
    "nll_loss backward": lambda i: (lambda x: grads(F.nll_loss(x, i), x))(leaf(N, 3)),
    "cross_entropy": lambda i: lambda: F.cross_entropy(rows(N, 3), i, rows(3)),
    "cross_entropy backward": lambda i: (lambda x: grads(F.cross_entropy(x, i), x))(leaf(N, 3)),
    "multi_margin_loss": lambda i: lambda: F.multi_margin_loss(rows(N, 3), i, weight=rows(3)),
    "ctc_loss": ctc,
    "ctc_loss backward": lambda i: ctc(i, backward=True),
    "bincount": lambda i: lambda: cg.bincount(i),
    "bincount with weights": lambda i: (lambda w: lambda: cg.bincount(i, w))(rows(N)),
    "repeat_interleave": lambda i: lambda: cg.repeat_interleave(i),
    "searchsorted": sorter,
    "max_unpool": unpool,
    "max_unpool backward": unpool_backward,
    "unique rows": lambda i: lambda: cg.unique(i.view(-1, 2), dim=0),
}

# Ops on N int32 pivots of matrices of one row, which are 1, 10**9 or -10**9.
PIVOTS = {
    "lu_solve": lambda p: lambda: cg.linalg.lu_solve(rows(N, 1, 1), p, rows(N, 1, 1)),
    "lu_unpack": lambda p: lambda: cg.lu_unpack(rows(N, 1, 1), p),
    "ldl_solve": lambda p: lambda: cg.linalg.ldl_solve(rows(N, 1, 1), p, rows(N, 1, 1)),
}


def masked_scatter(m):
    x, s = rows(N), rows(N)
    return lambda: x.masked_scatter_(m, s)


def masked_put(m, value):
    x = rows(N)

    def step():
        x[m] = value

    return step


# Ops on N bools that are all false or all true.
MASK = {
    "masked_select": lambda m: (lambda x: lambda: x.masked_select(m))(rows(N)),
    "masked_select backward": lambda m: (lambda x: grads(x.masked_select(m), x))(leaf(N)),
    "masked get": lambda m: (lambda x: lambda: x[m])(rows(N)),
    "masked get of rows": lambda m: (lambda x: lambda: x[m])(rows(N, 2)),
    "masked set": lambda m: masked_put(m, rows(1)),
    "masked set to a number": lambda m: masked_put(m, 2.0),
    "masked_scatter": masked_scatter,
    "masked_fill": lambda m: (lambda x: lambda: x.masked_fill_(m, 2.0))(rows(N)),
    "nonzero": lambda m: lambda: cg.nonzero(m),
    "nonzero of rows": lambda m: lambda: cg.nonzero(m.view(100, -1)),
    "where": lambda m: lambda: cg.where(m),
}

CASES = {
    **{name: (make, cg.int64, (0, FAR, 0, -FAR)) for name, make in INDEX.items()},
    **{name: (make, cg.int32, (1, 10**9, 1, -(10**9))) for name, make in PIVOTS.items()},
    **{name: (make, cg.bool, (True, False)) for name, make in MASK.items()},
}


def race(make, dtype, values):
    """Runs steps with a tensor that a thread fills with one value after the other."""
    shared = cg.full((N, 1) if dtype == cg.int32 else (N,), values[0], dtype=dtype)
    step = make(shared)
    step()  # is right while nobody writes

    def write():
        same = shared.data  # writes through it do not change the version
        while True:
            for v in values:
                same.fill_(v)

    threading.Thread(target=write, daemon=True).start()
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        try:
            step()
        except (RuntimeError, IndexError, ValueError, MemoryError):
            pass
        time.sleep(0)


@pytest.mark.parametrize("name", CASES)
def test_indices_that_are_written_to_reach_no_other_memory(name):
    assert outcome(lambda: race(*CASES[name])) == "ok None"
