# SPDX-License-Identifier: BSD-3-Clause
"""Compares plain calls with recorded results of torch 2.13; record.py says how to record them."""

import json
import re

import pytest

from pairs import record
from pairs.subjects import all_subjects

CHUNKS = 8
# Subject, what differs, and why: torch is wrong or accepts more than it should.
EXPECTED = [
    (r"^GRU|nn\.GRU(Cell)?\(", "autocast", "the lower precision: docs/differences.md"),
    (r"nn\.Transformer", "autocast: float32", "torch's fused path: docs/differences.md"),
    (r"as_strided_scatter", "plain: gradients", "docs/differences.md: what src replaced"),
    (r"take_along_dim", "one: raises", "an index is out of range: torch reads past the end"),
    (r"Multi\w*MarginLoss", "empty: results", "docs/differences.md: the mean of no losses"),
    (r"conv_tbc", "(one|empty): raises", "docs/differences.md: a kernel longer than the input"),
    (
        r"^cum(max|min)|index_reduce.*prod",
        "empty: the gradient does not require grad",
        "torch returns zeros_like(input); nothing depends on whether they require grad",
    ),
    (r"FractionalMaxPool2d", "(one|empty): raises", "the random samples given are for two images"),
    (r"sparse", "autocast: float32", "products of sparse tensors stay in float32 (docs: autocast)"),
    (r"to_sparse", "empty: the gradient does not require grad", "it has no elements"),
    (r"block_diag", "empty: gradients", "the noise has another place in torch's result"),
]


@pytest.fixture(scope="module")
def recorded():
    return json.loads(record.RECORD.read_text())


def is_expected(name, text):
    return any(re.search(s, name) and re.match(what, text) for s, what, _ in EXPECTED)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_same_as_torch(chunk, recorded):
    found, compared = [], 0
    for subject in list(record.chosen())[chunk::CHUNKS]:
        if (want := recorded.get(subject.name)) is None:
            continue  # newer than the record; test_pairs compares it with finite differences
        compared += 1
        for text in record.differences(record.entry(subject), want):
            if not is_expected(subject.name, text):
                found.append(f"{subject.name} :: {text}")
    assert compared > 40
    assert not found, f"{len(found)} quantities are not torch's\n" + "\n".join(found[:30])


def test_expected_differences_are_of_subjects_that_there_are():
    for pattern, _, reason in EXPECTED:
        assert any(re.search(pattern, name) for name in all_subjects()), reason


def test_differences_are_found():
    want = {"plain": [[1.0], [2.0, None], 1], "empty": "raises", "autocast": "bfloat16"}
    assert not list(record.differences(want, want))
    for got in (
        {"plain": [[1.1], [2.0, None], 1], "autocast": "bfloat16"},
        {"plain": [[1.0], [2.0, 3.0], 1], "autocast": "bfloat16"},
        {"plain": [[1.0], [2.0, None], 0], "autocast": "bfloat16"},
        {"plain": [[1.0]], "autocast": "bfloat16"},
        {"plain": "raises", "autocast": "bfloat16"},
        {"plain": [[1.0], [2.0, None], 1], "autocast": "float32"},
    ):
        assert len(list(record.differences(got, want))) == 1
