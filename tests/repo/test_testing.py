# SPDX-License-Identifier: BSD-3-Clause
"""assert_close with torch's messages, and make_tensor."""

import math

import numpy as np
import pytest

import cograd as torch
from cograd.testing import assert_close, make_tensor

T = torch.tensor
ALLOWED = "(up to 1e-05 allowed)", "(up to 1.3e-06 allowed)"

MISMATCHES = [
    (
        lambda: (T([1.0, 2, 3]), T([1.0, 2, 4])),
        (
            "Tensor-likes are not close!\n\nMismatched elements: 1 / 3 (33.3%)\n"
            f"Greatest absolute difference: 1.0 at index (2,) {ALLOWED[0]}\n"
            f"Greatest relative difference: 0.25 at index (2,) {ALLOWED[1]}"
        ),
    ),
    (
        lambda: (T(1.0), T(2.0)),
        (
            "Scalars are not close!\n\nExpected 2.0 but got 1.0.\n"
            f"Absolute difference: 1.0 {ALLOWED[0]}\nRelative difference: 0.5 {ALLOWED[1]}"
        ),
    ),
    (
        lambda: (1, 2),
        (
            "Scalars are not equal!\n\nExpected 2 but got 1.\n"
            "Absolute difference: 1\nRelative difference: 0.5"
        ),
    ),
    (
        lambda: (T([1, 2]), T([1, 4])),
        (
            "Tensor-likes are not equal!\n\nMismatched elements: 1 / 2 (50.0%)\n"
            "Greatest absolute difference: 2 at index (1,)\n"
            "Greatest relative difference: 0.5 at index (1,)"
        ),
    ),
    (
        lambda: ([T([1.0]), {"a": T([2.0])}], [T([1.0]), {"a": T([4.0])}]),
        (
            "Tensor-likes are not close!\n\nMismatched elements: 1 / 1 (100.0%)\n"
            f"Greatest absolute difference: 2.0 at index (0,) {ALLOWED[0]}\n"
            f"Greatest relative difference: 0.5 at index (0,) {ALLOWED[1]}\n\n"
            "The failure occurred for item [1]['a']"
        ),
    ),
    (
        lambda: (T([math.nan]), T([math.nan])),
        (
            "Tensor-likes are not close!\n\nMismatched elements: 1 / 1 (100.0%)\n"
            f"Greatest absolute difference: nan at index (0,) {ALLOWED[0]}\n"
            f"Greatest relative difference: nan at index (0,) {ALLOWED[1]}"
        ),
    ),
    (lambda: (True, False), "Booleans mismatch: True is not False"),
    (lambda: (None, 1), "None mismatch: None is not 1"),
    (lambda: ([1.0], [1.0, 2.0]), "The length of the sequences mismatch: 1 != 2"),
    (
        lambda: ({"a": 1}, {"b": 1}),
        (
            "The keys of the mappings do not match:\nMissing keys in the actual mapping: ['b']\n"
            "Additional keys in the actual mapping: ['a']"
        ),
    ),
    (lambda: (3, 3.0), "The (d)types do not match: <class 'int'> != <class 'float'>."),
]


@pytest.mark.parametrize("pair, text", MISMATCHES)
def test_messages(pair, text):
    with pytest.raises(AssertionError) as info:
        assert_close(*pair())
    assert str(info.value) == text


def test_attributes():
    with pytest.raises(AssertionError, match="attribute 'shape' do not match"):
        assert_close(T([1.0]), T([1.0, 2.0]))
    with pytest.raises(AssertionError, match="attribute 'dtype' do not match"):
        assert_close(T([1.0]), T([1.0]).double())
    with pytest.raises(AssertionError, match=r"attribute 'stride\(\)' do not match: \(3, 1\)"):
        assert_close(torch.ones(2, 3), torch.ones(3, 2).t(), check_stride=True)
    assert_close(T([1.0]), T([1]), check_dtype=False)


def test_what_is_close():
    assert_close(T([1.0]), T([1.0 + 1e-6]))
    assert_close(T([0.0]), T([1e-9]))
    assert_close(T([math.nan, math.inf]), T([math.nan, math.inf]), equal_nan=True)
    assert_close((1, [None, "a"[:0] or None]), (1, [None, None]))
    assert_close(np.ones(2), np.ones(2))
    assert_close(torch.empty(0), torch.empty(0))
    assert_close(1.0, 1.05, rtol=0.1, atol=0)
    assert_close(T([1.0]), torch.ones(1, requires_grad=True))
    for bad in (T([math.inf]), T([1.1])):
        with pytest.raises(AssertionError):
            assert_close(T([1.0]), bad)
    with pytest.raises(AssertionError):
        assert_close(T([math.inf]), T([-math.inf]))


def test_arguments():
    with pytest.raises(ValueError, match="got no atol"):
        assert_close(1.0, 1.0, rtol=0.1)
    for other in (1.0, [1.0], "a"):
        with pytest.raises(TypeError, match="No comparison pair was able to handle"):
            assert_close(T([1.0]), other)
    with pytest.raises(AssertionError, match="^mine$"):
        assert_close(1, 2, msg="mine")
    with pytest.raises(AssertionError, match="^more: Scalars"):
        assert_close(1, 2, msg=lambda text: "more: " + text)


@pytest.mark.parametrize(
    "name",
    [
        "bool",
        "uint8",
        "int8",
        "int16",
        "int32",
        "int64",
        "float16",
        "bfloat16",
        "float32",
        "float64",
    ],
)
def test_make_tensor(name):
    dtype = getattr(torch, name)
    t = make_tensor(3, 40, dtype=dtype, device="cpu")
    assert t.shape == (3, 40) and t.dtype == dtype
    assert t.to(torch.float64).min().item() >= -9 and t.to(torch.float64).max().item() <= 9
    t = make_tensor((4, 5), dtype=dtype, device="cpu", noncontiguous=True)
    assert t.shape == (4, 5) and not t.is_contiguous() and t.storage_offset() == 1
    if name != "bool":
        t = make_tensor((500,), dtype=dtype, device="cpu", low=0, high=3, exclude_zero=True)
        assert bool((t != 0).all()) and t.to(torch.float64).max().item() <= 3
    if dtype.is_floating_point:
        assert make_tensor((), dtype=dtype, device="cpu", requires_grad=True).is_leaf
    else:
        with pytest.raises(ValueError, match="not supported for boolean and integral"):
            make_tensor((), dtype=dtype, device="cpu", requires_grad=True)


def test_make_tensor_errors():
    with pytest.raises(ValueError, match="must be less than"):
        make_tensor(2, dtype=torch.float32, device="cpu", low=3, high=1)
    with pytest.raises(ValueError, match="cannot be NaN"):
        make_tensor(2, dtype=torch.float32, device="cpu", low=math.nan)
    with pytest.raises(ValueError, match="only supports"):
        make_tensor(2, dtype=torch.uint8, device="cpu", low=300, high=400)


@pytest.mark.parametrize(
    ("actual", "expected"),
    [(T(1.0), T(2.0)), (T([1.0]), T([1])), ([{"a": 1}], [{"a": 2}]), ([1], []), ({}, {"a": 1})],
)
def test_pytest_shows_the_tests_own_line(actual, expected):
    with pytest.raises(AssertionError) as caught:
        assert_close(actual, expected)
    shown = caught.traceback.filter(caught)
    assert [str(entry.path) for entry in shown] == [__file__]
    assert len(caught.traceback) > 2
