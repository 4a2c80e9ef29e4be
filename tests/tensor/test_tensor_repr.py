# SPDX-License-Identifier: BSD-3-Clause
"""Printing: torch's layout, precision, summarising and options."""

import math

import pytest

import cograd as torch


def dtype_name(dtype):
    return repr(dtype)


@pytest.fixture(autouse=True)
def restore_options():
    yield
    torch.set_printoptions(profile="default")


@pytest.mark.parametrize(
    "make,text",
    [
        (lambda: torch.tensor(1.0), "tensor(1.)"),
        (lambda: torch.tensor(1.5), "tensor(1.5000)"),
        (lambda: torch.tensor(3), "tensor(3)"),
        (lambda: torch.tensor(True), "tensor(True)"),
        (lambda: torch.tensor([]), "tensor([])"),
        (lambda: torch.tensor([1.0, 2.0]), "tensor([1., 2.])"),
        (lambda: torch.tensor([1.5, 2]), "tensor([1.5000, 2.0000])"),
        (lambda: torch.tensor([1e10, 1.0]), "tensor([1.0000e+10, 1.0000e+00])"),
        (lambda: torch.tensor([1e-5, 1.0]), "tensor([1.0000e-05, 1.0000e+00])"),
        (lambda: torch.tensor([100000.0, 1.0]), "tensor([1.0000e+05, 1.0000e+00])"),
        (lambda: torch.tensor([math.nan, math.inf, -1.0]), "tensor([nan, inf, -1.])"),
        (lambda: torch.tensor([math.nan, 0.5]), "tensor([   nan, 0.5000])"),
        (lambda: torch.tensor([1, 100, -3]), "tensor([  1, 100,  -3])"),
        (lambda: torch.tensor([True, False]), "tensor([ True, False])"),
        (lambda: torch.tensor([[1, 2], [3, 4]]), "tensor([[1, 2],\n        [3, 4]])"),
        (lambda: torch.tensor([[0.1, -2.0]]), "tensor([[ 0.1000, -2.0000]])"),
        (
            lambda: torch.zeros(2, 2, 1),
            "tensor([[[0.],\n         [0.]],\n\n        [[0.],\n         [0.]]])",
        ),
        (lambda: torch.zeros(2, 0), "tensor([], size=(2, 0))"),
        (lambda: torch.arange(3.0), "tensor([0., 1., 2.])"),
    ],
)
def test_values(make, text):
    assert repr(make()) == str(make()) == text


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.int32,
        torch.uint8,
        torch.int16,
        torch.int8,
    ],
)
def test_non_default_dtypes_are_named(dtype):
    body = "[1., 2.]" if dtype.is_floating_point else "[1, 2]"
    assert repr(torch.tensor([1, 2], dtype=dtype)) == f"tensor({body}, dtype={dtype_name(dtype)})"
    assert repr(torch.zeros(0, dtype=dtype)) == f"tensor([], dtype={dtype_name(dtype)})"


def test_empty_of_known_dtype():
    assert repr(torch.zeros(0, dtype=torch.int64)) == f"tensor([], dtype={dtype_name(torch.int64)})"
    assert (
        repr(torch.zeros(2, 0, dtype=torch.int64))
        == f"tensor([], size=(2, 0), dtype={dtype_name(torch.int64)})"
    )


def test_grad_suffixes():
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    assert repr(w) == "tensor([1., 2.], requires_grad=True)"
    assert repr(w * 2) == "tensor([2., 4.], grad_fn=<MulBackward0>)"
    assert repr(w.sum()) == "tensor(3., grad_fn=<SumBackward0>)"
    assert repr(w.detach()) == "tensor([1., 2.])"
    d = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    assert repr(d) == f"tensor(1., dtype={dtype_name(torch.float64)}, requires_grad=True)"


def test_parameter_repr():
    p = torch.nn.Parameter(torch.zeros(2))
    assert repr(p) == "Parameter containing:\ntensor([0., 0.], requires_grad=True)"


def test_summarised():
    assert repr(torch.arange(2000)) == "tensor([   0,    1,    2,  ..., 1997, 1998, 1999])"
    row = "        [0., 0., 0.,  ..., 0., 0., 0.]"
    assert repr(torch.zeros(50, 50)) == "\n".join(
        [
            "tensor([[0., 0., 0.,  ..., 0., 0., 0.],",
            row + ",",
            row + ",",
            "        ...,",
            row + ",",
            row + ",",
            row + "])",
        ]
    )


def test_long_rows_wrap():
    assert repr(torch.arange(30)) == (
        "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
        "        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29])"
    )


def test_printoptions():
    t = torch.tensor([1 / 3, 2.0])
    torch.set_printoptions(precision=2)
    assert repr(t) == "tensor([0.33, 2.00])"
    torch.set_printoptions(profile="default")
    assert repr(t) == "tensor([0.3333, 2.0000])"
    torch.set_printoptions(sci_mode=True)
    assert repr(t) == "tensor([3.3333e-01, 2.0000e+00])"
    torch.set_printoptions(profile="default")
    torch.set_printoptions(threshold=4, edgeitems=1)
    assert repr(torch.arange(6)) == "tensor([0,  ..., 5])"
    torch.set_printoptions(profile="default")
    torch.set_printoptions(linewidth=20)
    assert repr(torch.arange(6)) == "tensor([0, 1, 2, 3,\n        4, 5])"
    torch.set_printoptions(profile="full")
    assert "..." not in repr(torch.arange(2000))
    torch.set_printoptions(profile="short")
    assert repr(t) == "tensor([0.33, 2.00])"


def test_printing_does_not_touch_the_tensor():
    w = torch.ones(3, requires_grad=True)
    y = w * 2
    version = y._version
    repr(y)
    assert y._version == version and y.requires_grad
