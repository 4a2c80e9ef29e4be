# SPDX-License-Identifier: BSD-3-Clause
"""Sizes, strides, offsets and counts near 2**63 raise at once and never access other memory."""

import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from children import outcome
from op_items import each_cell

import cograd as torch
from cograd.nn import functional

BIG = 2**62
TOP = 2**63 - 1
LOW = -(2**63)
F = functional
one = torch.ones(1)
index = torch.zeros(1, dtype=torch.int64)


def huge(*sizes):
    return one.expand(*sizes or (BIG,))


def wide(*sizes):
    return index.expand(*sizes or (BIG,))


# It raises, with a message that contains the pattern.
OVERFLOW = "Storage size calculation overflowed"
NUMEL = "integer multiplication overflow"
RAISES = {
    "zeros(4).as_strided((2, 2), (BIG, 1))": OVERFLOW,
    "zeros(4).as_strided((2, 2), (BIG, BIG))": OVERFLOW,
    "zeros(4).as_strided((BIG, 4), (4, 1))": OVERFLOW,
    "zeros(4).as_strided((3,), (1,), TOP)": OVERFLOW,
    "zeros(4).as_strided((2,), (9,))": "out of bounds for storage of size 16",
    "zeros(4).as_strided((3, 3), (2**61 + 1, 1))": OVERFLOW,
    "zeros(4).as_strided((), (), 2**61)": OVERFLOW,
    "zeros(4).as_strided((), (), 4)": "out of bounds",
    "zeros(4).as_strided_((2, 2), (BIG, 1))": OVERFLOW,
    "as_strided_scatter(zeros(4), ones(2, 2), (2, 2), (BIG, 1))": OVERFLOW,
    "_C._ops._scatter_region(zeros(4), ones(2, 2), (2, 2), (BIG, 1), 0)": "",
    "_C._ops._scatter_region(zeros(4), ones(2), (2,), (1,), 3)": "not inside",
    "_C._ops._scatter_region(zeros(4), ones(2), (2,), (1,), -1)": "not inside",
    "_C._ops._relayout(zeros(4), (BIG,))": OVERFLOW,
    "_C._ops._relayout(zeros(4, 4), (1,))": "length",
    "_C._ops._as_strided_grad(ones(2), (4,), (1,), (2,), (BIG,), 0)": OVERFLOW,
    "_C._ops._as_strided_grad(ones(2), (4,), (1,), (2,), (1,), LOW)": "offset",
    "empty_strided((2, 2), (BIG, BIG))": OVERFLOW,
    "bincount(tensor([TOP]))": "maximum value of input overflowed",
    "bincount(tensor([2**61]))": OVERFLOW,
    "bincount(tensor([1]), minlength=2**61)": OVERFLOW,
    "bincount(tensor([1]), minlength=TOP)": OVERFLOW,
    "diag_embed(ones(2), BIG)": OVERFLOW,
    "diag_embed(ones(2), TOP)": "overflow",
    "diag_embed(ones(2), LOW)": "offset",
    "diagflat(ones(2), BIG)": OVERFLOW,
    "diag(ones(2), BIG)": OVERFLOW,
    "diag(ones(2), LOW)": "offset",
    "one.expand(BIG, BIG)": NUMEL,
    "broadcast_to(one, (BIG, BIG))": NUMEL,
    "huge(2**40).outer(huge(2**40))": OVERFLOW,
    "kron(huge(2**40), huge(2**40))": "overflow",
    "cat([huge()] * 4)": "overflow",
    "cat([huge()] * 2)": "overflow",
    "stack([huge()] * 4)": "overflow",
    "hstack([huge()] * 2)": "overflow",
    "ones(2).repeat_interleave(TOP)": NUMEL,
    "ones(2).repeat_interleave(tensor([BIG, BIG]))": "overflow",
    "repeat_interleave(tensor([BIG] * 4))": "overflow",
    "ones(2).repeat(BIG, BIG)": "overflow",
    "ones(2).tile(TOP)": "overflow",
    "ones(2).repeat(-1)": "negative dimension",
    "zeros(BIG)": OVERFLOW,
    "zeros(2**32, 2**32)": OVERFLOW,
    "empty(BIG, BIG, 0)": OVERFLOW,
    "empty(0, BIG, BIG)": "Stride calculation overflowed",
    "ones(0).view(0, BIG, BIG)": "overflow",
    "full((BIG,), 1)": OVERFLOW,
    "arange(BIG)": OVERFLOW,
    "linspace(0, 1, TOP)": OVERFLOW,
    "logspace(0, 1, BIG)": OVERFLOW,
    "eye(2**32)": OVERFLOW,
    "randperm(BIG)": OVERFLOW,
    "randn(BIG)": OVERFLOW,
    "Tensor(BIG, 4)": OVERFLOW,
    "ones(4).resize_(BIG)": OVERFLOW,
    "ones(4).resize_(BIG, 4)": OVERFLOW,
    "ones(4).chunk(2**40)[4]": "range",
    "huge().clone()": OVERFLOW,
    "huge() + 1": OVERFLOW,
    "huge(2**40, 1) * huge(1, 2**40)": OVERFLOW,
    "huge().cumsum(0)": OVERFLOW,
    "huge().to(float64)": OVERFLOW,
    "huge().sort()": OVERFLOW,
    "huge().topk(3)": "",
    "huge().unique()": OVERFLOW,
    "huge().flip(0)": OVERFLOW,
    "huge().roll(1)": OVERFLOW,
    "huge().softmax(0)": OVERFLOW,
    "bernoulli(huge())": OVERFLOW,
    "F.dropout(huge())": "",
    "where(tensor([True]).expand(BIG), 1.0, 2.0)": OVERFLOW,
    "argwhere(huge())": "",
    "huge().nonzero()": "",
    "zeros(4).index_select(0, wide())": OVERFLOW,
    "zeros(4).take(wide())": OVERFLOW,
    "zeros(4).gather(0, wide())": OVERFLOW,
    "zeros(4)[wide()]": "",
    "zeros(4, 4)[wide()]": "",
    "F.embedding(wide(), zeros(4, 4))": "overflow",
    "F.one_hot(tensor([1]), BIG)": OVERFLOW,
    "F.layer_norm(huge(), (BIG,))": "",
    "searchsorted(ones(3), huge())": OVERFLOW,
    "isin(huge(), ones(3))": OVERFLOW,
    "ones(3).index_fill(0, wide(), 1.0)": OVERFLOW,
    "ones(3).index_add(0, wide(), huge())": OVERFLOW,
    "ones(3).put_(wide(), huge())": OVERFLOW,
    "einsum('i,j->ij', huge(2**40), huge(2**40))": "",
    "tensordot(huge(2**40), huge(2**40), 0)": "",
    "huge(2**31, 2**31).mm(huge(2**31, 2**31))": "",
    "cdist(huge(2**31, 3), huge(2**31, 3))": "",
    "block_diag(*[huge(2**31, 2**31)] * 8)": "overflow",
    "meshgrid(*[ones(1000)] * 8)": NUMEL,
    "cartesian_prod(*[ones(1000)] * 8)": NUMEL,
    "huge(BIG, 1).view(uint8).clone()": "",
    "Size([BIG, BIG]).numel()": NUMEL,
    "from_dlpack(np.broadcast_to(np.ones(1, np.float32), (2**59,))).clone()": "",
    "from_dlpack(np.broadcast_to(np.ones(1, np.float32), (2**30, 2**30))).clone()": "",
    "from_numpy(np.broadcast_to(np.ones(1, np.float32), (2**59,))) + 1": "",
    "ones([1] * 300)": "at most 64 dimensions",
    "ones(1).view([1] * 300)": "at most 64 dimensions",
    "ones(1).expand([1] * 300)": "at most 64 dimensions",
    "ones(1)[(None,) * 300]": "at most 64 dimensions",
    "meshgrid(*[ones(1)] * 300)": "at most 64 dimensions",
    "tensordot(ones([1] * 40), ones([1] * 40), 0)": "at most 64 dimensions",
    "frombuffer(bytearray(4), dtype=uint8, count=-2)": "count must be positive",
    "frombuffer(bytearray(4), dtype=uint8, count=LOW)": "count must be positive",
    "frombuffer(bytearray(4), dtype=int32, count=2**61)": "must not be greater",
    "frombuffer(bytearray(4), dtype=int32, offset=TOP)": "offset",
    "frombuffer(bytearray(4), dtype=int32, offset=-4)": "offset",
}

# Counts that would make endless loops without a limit; here they end at once.
QUICK = {
    "triu_indices(BIG, 4, 1).shape": "[2, 6]",
    "triu_indices(4, BIG, TOP).shape": "",
    "triu_indices(4, 4, TOP).shape": "[2, 0]",
    "triu_indices(4, 4, LOW).shape": "[2, 16]",
    "triu_indices(BIG, BIG, 1)": "overflow",
    "tril_indices(BIG, 4, 1)": "overflow",
    "tril_indices(2**40, 4, 1)": "Memory",
    "tril_indices(BIG, BIG, LOW).shape": "[2, 0]",
    "tril_indices(BIG, 4, -BIG).shape": "[2, 0]",
    "tril_indices(BIG, 4, 3 - BIG).shape": "[2, 6]",
    "tensor_split(ones(4), 2**40)": "Memory",
    "tensor_split(ones(4), TOP)": "Memory",
    "ones(0).chunk(2**40)": "Memory",
    "ones(0).chunk(TOP)": "Memory",
    "len(ones(4).chunk(TOP))": "4",
    "ones(4).split(TOP)[0].shape": "[4]",
    "ones(4).split([BIG, BIG, BIG, BIG + 4])": "sum exactly",
    "polygamma(2**40, ones(2)).shape": "[2]",
    "polygamma(TOP, tensor([0.5, 3.0, 1e30])).shape": "[3]",
    "combinations(ones(3), BIG, True)": "overflow",
    "combinations(ones(3), BIG)": "",
    "combinations(ones(1000), 500)": "overflow",
    "combinations(ones(64), 20)": "Memory",
    "histc(ones(3), 2**40)": "Memory",
    "histc(ones(3), BIG)": "overflow",
    "multinomial(ones(3), 2**40, True)": "Memory",
    "cartesian_prod(*[ones(100)] * 8)": "Memory",
    "F.one_hot(tensor([1]), 2**50)": "Memory",
    "linspace(0, 1, 2**50)": "Memory",
    "ones(4).unfold(0, 2, TOP).shape": "[1, 2]",
    "ones(4, 4)[:: 2**62].shape": "[1, 4]",
    "ones(4).roll(TOP)": "ok",
    "rot90(ones(2, 2), TOP)": "ok",
    "rot90(ones(2, 2, requires_grad=True), LOW).shape": "[2, 2]",
    "matrix_power(ones(2, 2), TOP)": "ok",
}


# Computed here, as each child would import the lazy modules again.
NAMES = {n: getattr(torch, n) for n in dir(torch) if not n.startswith("__")}


def evaluate(text):
    here = {"F": F, "np": np, "BIG": BIG, "TOP": TOP, "LOW": LOW, "huge": huge, "wide": wide}
    return eval(text, NAMES | here | {"one": one, "_C": torch._C, "len": len})


@each_cell("text", RAISES)
def test_overflow_is_an_exception(text):
    seen = outcome(lambda: evaluate(text))
    assert "Error" in seen.split(":")[0], (text, seen)
    assert RAISES[text] in seen, (text, seen)


@pytest.mark.parametrize("text", QUICK)
def test_huge_counts_end_at_once(text):
    began = time.monotonic()
    seen = outcome(lambda: evaluate(text), seconds=60)
    assert not seen.startswith(("signal", "exit", "still")), (text, seen)
    assert QUICK[text] in seen, (text, seen)
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("name", ["sum", "logsumexp", "max"])
def test_reductions_of_the_most_terms_begin(name):
    """They would take years; the number of their pieces overflowed."""
    x = torch.ones(1).expand(TOP)
    assert outcome(lambda: getattr(x, name)(0), seconds=1) == "still running"


def test_what_torch_allows_stays_allowed():
    assert torch.ones(1).as_strided((1,), (BIG,)).stride() == (BIG,)
    assert torch.ones(1).as_strided((1,), (BIG,))[0] == 1
    assert torch.zeros(4).as_strided((0, 3), (1, 1), 2).shape == (0, 3)
    assert huge().shape == (BIG,)
    assert torch.ones(4)[2**62 :].shape == (0,)
    assert torch.empty(0, BIG).shape == (0, BIG)


def test_a_view_of_one_element_cannot_lead_outside_its_storage():
    """An empty slice of it may point anywhere; resizing must not use that address."""
    for stride in (2**60, 2**61 - 1, 2**61, 2**61 + 2, BIG, BIG + 5, TOP):

        def walk(stride=stride):
            view = torch.ones(1).as_strided((1, 1), (stride, stride))
            rest = view[1:, 1:]
            rest.resize_(4, 4).fill_(1)
            return rest.sum()

        seen = outcome(walk)
        assert "Error" in seen.split(":")[0], (stride, seen)


def test_combinations_and_triangles_count_right():
    import itertools

    for n, r in itertools.product(range(6), range(1, 5)):
        values = list(range(n))
        for repeat in (False, True):
            choose = itertools.combinations_with_replacement if repeat else itertools.combinations
            want = [list(c) for c in choose(values, r)]
            got = torch.combinations(torch.tensor(values, dtype=torch.int64), r, repeat)
            assert got.tolist() == want and got.shape[1] == r, (n, r, repeat)
    x = torch.arange(4.0, requires_grad=True)
    torch.combinations(x, 3).sum().backward()
    assert x.grad.tolist() == [3.0] * 4
    for rows, cols, offset in itertools.product(range(5), range(5), range(-6, 7)):
        up = np.stack(np.triu_indices(rows, offset, cols))
        low = np.stack(np.tril_indices(rows, offset, cols))
        assert torch.triu_indices(rows, cols, offset).tolist() == up.tolist()
        assert torch.tril_indices(rows, cols, offset).tolist() == low.tolist()


def test_polygamma_of_large_order_is_the_first_term():
    import math

    for n in (30, 60, 100, 150):
        got = torch.polygamma(n, torch.tensor([1.5, 2.0, 7.25], dtype=torch.float64))
        for value, x in zip(got.tolist(), (1.5, 2.0, 7.25)):
            terms = sum((x + k) ** -(n + 1.0) for k in range(4000))
            want = (-1) ** (n + 1) * math.gamma(n + 1.0) * terms
            assert math.isclose(value, want, rel_tol=1e-12), (n, x)


def test_ctrl_c_ends_a_long_loop():
    """The loop below would run for minutes and use gigabytes."""
    code = (
        "import signal\n"
        "import cograd as torch\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it\n"
        "x = torch.ones(4)\n"
        "print('ready', flush=True)\n"
        "try:\n"
        "    torch.tensor_split(x, 60_000_000)\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert out == "interrupted\n"


SOURCES = os.path.join(os.path.dirname(__file__), "..", "..", "csrc")
# A product of sizes, or of a size and an item size, that could overflow.
RAW = [
    re.compile(r"\*=\s*[\w.>\-]*(size|sizes|sizes_|itemsize|shape|dims)\b[\w()\[\].]*"),
    re.compile(r"\bproduct\([^;]*\)\s*\*\s"),
    re.compile(r"int64_t n = 1;\s*for \([^)]*(sizes|shape)[^)]*\) n \*="),
]


def test_no_raw_product_of_sizes_is_left():
    """Sizes are multiplied by checked_mul, product or storage_bytes; strides by scaled_stride."""
    found = []
    for folder in ("tensor", "ops", "autograd", "python", "api"):
        for place, _, names in os.walk(os.path.join(SOURCES, folder)):
            for name in names:
                if not name.endswith((".cpp", ".h")):
                    continue
                with open(os.path.join(place, name), encoding="utf-8") as file:
                    text = file.read()
                found += [f"{name}: {m[0]}" for rule in RAW for m in rule.finditer(text)]
    # storage_bytes() has checked these sizes; the loop is on the path of every small op.
    allowed = ["tensor.h: *= sizes[i]"]
    assert found == allowed, found


@pytest.mark.parametrize("op", ["_slice_backward", "_select_backward"])
def test_gradients_of_slices_of_nothing(op):
    with pytest.raises(RuntimeError, match="0-dim"):
        getattr(torch._C._ops, op)(torch.ones(()), [], 0, 5)
