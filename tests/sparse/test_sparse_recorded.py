# SPDX-License-Identifier: BSD-3-Clause
"""Compares results, gradients and errors of sparse tensors with those that torch had."""

import json
import math

import programs
import pytest

import cograd as torch

RECORDED = json.loads(programs.RECORDED.read_text())
# torch computes these and cograd raises, by the expression and the kind of tensor.
NOT_HERE = {
    ("torch.cat([s, s], 1)", "hybrid"),  # along a dense dim
    ("s.to_sparse_csr()", "hybrid_matrix"),  # with dense dims
    ("s.coalesce().to_sparse_csr().to_sparse()", "hybrid_matrix"),
}
# Fractions of integers, which torch truncates before it multiplies.
FRACTIONS = {"torch.sparse.addmm(b, s, y, beta=0.5, alpha=2.0)"}


def close(a, b):
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(close, a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(close(a[k], b[k]) for k in a)
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b)) or abs(a - b) <= 1e-5 * abs(b) + 1e-6
    return a == b


def agrees(kind, dtype, text, got, want):
    if dtype == "bool" and "sum(" in text and text != "torch.sparse.sum(s)":
        return "result" in got or "error" in want  # torch counts repeated bools here, and not there
    if "error" in want:  # cograd computes some of these
        return "error" not in got or got["error"] in (
            want["error"],
            "NotImplementedError",
            "RuntimeError",
        )
    if (text, kind) in NOT_HERE or (text in FRACTIONS and dtype in ("int64", "bool")):
        return got.get("error") in ("NotImplementedError", "RuntimeError")
    return close(got, want)


@pytest.mark.parametrize("kind", programs.KINDS)
def test_sparse_as_in_torch(kind):
    compared, wrong = 0, []
    for case in programs.cases():
        if case[0] != kind:
            continue
        got = json.loads(json.dumps(programs.run(torch, *case)))
        want = RECORDED[kind][case[2]][case[1]]
        compared += "result" in want
        if not agrees(*case[:3], got, want):
            wrong.append((case, got, want))
    assert not wrong
    assert compared > 90
