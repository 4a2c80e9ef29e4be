# SPDX-License-Identifier: BSD-3-Clause
"""Module.to: the forms of its arguments, and what it refuses."""

import pytest

import cograd as torch
from cograd import nn

F8 = torch.float64


def module():
    return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))


@pytest.mark.parametrize(
    ("args", "kwargs", "dtype"),
    [
        ((), {}, torch.float32),
        ((None,), {}, torch.float32),
        ((F8,), {}, F8),
        ((float,), {}, F8),
        ((F8, True), {}, F8),
        (("cpu",), {}, torch.float32),
        (("cpu", F8), {}, F8),
        ((torch.device("cpu"), F8, True), {}, F8),
        (("cpu",), {"dtype": F8}, F8),
        ((torch.ones(1, dtype=F8),), {}, F8),
        ((torch.ones(1, dtype=F8), False), {"memory_format": torch.channels_last}, F8),
        ((), {"tensor": torch.ones(1, dtype=F8)}, F8),
        ((), {"device": None, "dtype": torch.float16, "non_blocking": True}, torch.float16),
    ],
)
def test_forms(args, kwargs, dtype):
    m = module()
    assert m.to(*args, **kwargs) is m
    assert m[0].weight.dtype == m[1].running_mean.dtype == dtype
    assert m[1].num_batches_tracked.dtype == torch.int64


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((), {"copy": True}),
        ((), {"copy": False}),
        ((F8, False, True), {}),
        (("cpu", F8, False, False), {}),
        ((torch.ones(1), False, True), {}),
        ((torch.ones(1),), {"copy": True}),
    ],
)
def test_copy_is_refused(args, kwargs):
    m = module()
    with pytest.raises(RuntimeError, match=r"^\.to\(\) does not accept copy argument$"):
        m.to(*args, **kwargs)
    assert m[0].weight.dtype == torch.float32


@pytest.mark.parametrize(
    ("args", "kwargs", "text"),
    [
        (("cpu", "cpu"), {}, "dtype is 'cpu'"),
        ((F8, torch.float32), {}, "non_blocking is cograd.float32"),
        ((F8, "cpu"), {}, "non_blocking is 'cpu'"),
        ((F8, 1), {}, "non_blocking is 1"),
        ((F8, False, False, False), {}, "there are 4 positional arguments"),
        ((), {"foo": 1}, "there is no argument 'foo'"),
        ((), {"dtype": "float"}, "dtype is 'float'"),
        (("cpu",), {"device": "cpu"}, "'device' was passed twice"),
        (([1],), {}, r"device is \[1\]"),
        ((), {"memory_format": 3}, "memory_format is 3"),
    ],
)
def test_other_arguments_are_named(args, kwargs, text):
    with pytest.raises(TypeError, match=r"^to\(\) received an invalid combination.*" + text):
        module().to(*args, **kwargs)


def test_integer_dtypes_are_refused():
    with pytest.raises(TypeError, match="only accepts floating point or complex dtypes"):
        module().to(torch.int64)
