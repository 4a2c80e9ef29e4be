# SPDX-License-Identifier: BSD-3-Clause
"""DLPack in both directions: always with NumPy, with torch if it is installed."""

import importlib.util

import numpy as np
import pytest

import cograd as torch

needs_torch = [
    pytest.mark.needs_torch,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
]
DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.float32,
    torch.float64,
]
VIEWS = [
    lambda t: t,
    lambda t: t.T,
    lambda t: t[1:, ::2],
    lambda t: t[1],
    lambda t: t[1, 2],
    lambda t: t[:0],
    lambda t: t[:1].repeat(1, 1),
]


def np_name(dtype):
    return {"bool": "bool"}.get(str(dtype).split(".")[-1], str(dtype).split(".")[-1])


def sample(dtype):
    return torch.tensor([[0, 1, 1, 0], [1, 0, 1, 0], [1, 1, 1, 0]], dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_to_numpy(dtype):
    t = sample(dtype)
    a = np.from_dlpack(t)
    assert a.dtype.name == np_name(dtype) and a.ctypes.data == t.data_ptr()
    assert a.tolist() == t.tolist()
    t[0, 0] = 1
    assert a[0, 0] == 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_from_numpy(dtype):
    a = np.array([[0, 1], [1, 1]], dtype=np_name(dtype))
    t = torch.from_dlpack(a)
    assert t.dtype is dtype and t.data_ptr() == a.ctypes.data and t.tolist() == a.tolist()
    t[0, 0] = 1
    assert a[0, 0] == 1


@pytest.mark.parametrize("view", VIEWS)
def test_views(view):
    t = view(torch.arange(12.0).reshape(3, 4))
    a = np.from_dlpack(t)
    assert a.shape == tuple(t.shape) and a.tolist() == t.tolist()
    if a.size > 1:
        assert a.strides == tuple(4 * s for s in t.stride())
    back = torch.from_dlpack(a)
    assert back.tolist() == t.tolist()
    if a.size:
        assert back.data_ptr() == t.data_ptr()


def test_device_and_capsule():
    t = torch.ones(2)
    assert tuple(int(v) for v in t.__dlpack_device__()) == (1, 0)
    capsule = t.__dlpack__()
    assert type(capsule).__name__ == "PyCapsule"
    u = torch.from_dlpack(capsule)
    assert u.data_ptr() == t.data_ptr()
    with pytest.raises((RuntimeError, ValueError)):
        torch.from_dlpack(capsule)


def test_dlpack_module():
    t = torch.ones(2)
    u = torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(t))
    assert u.data_ptr() == t.data_ptr()


def test_versioned_capsule():
    t = torch.ones(2)
    assert "versioned" in repr(t.__dlpack__(max_version=(1, 0)))
    assert "versioned" not in repr(t.__dlpack__(max_version=(0, 8)))
    assert "versioned" not in repr(t.__dlpack__())


def test_copy_argument():
    t = torch.ones(2)
    assert np.from_dlpack(t, copy=True).ctypes.data != t.data_ptr()
    assert torch.from_dlpack(t, copy=True).data_ptr() != t.data_ptr()
    assert torch.from_dlpack(t, copy=False).data_ptr() == t.data_ptr()


def test_requires_grad_is_refused():
    for t in (torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True) * 2):
        with pytest.raises(BufferError, match="require"):
            t.__dlpack__()
    np.from_dlpack(torch.ones(2, requires_grad=True).detach())


def test_unused_capsule_is_freed():
    t = torch.ones(2)
    for _ in range(100):
        t.__dlpack__()
    assert t.tolist() == [1, 1]


def test_lifetimes():
    a = np.from_dlpack(torch.arange(1000.0))
    t = torch.from_dlpack(np.arange(1000.0))
    junk = [torch.full((1000,), -1.0) for _ in range(10)]
    assert a.sum() == 499500 and t.sum().item() == 499500 and junk


def test_bad_input():
    with pytest.raises((TypeError, AttributeError, RuntimeError, BufferError)):
        torch.from_dlpack(3)
    with pytest.raises((TypeError, RuntimeError, BufferError)):
        torch.from_dlpack(np.zeros(2, dtype="datetime64[s]"))


@pytest.mark.parametrize("view", VIEWS)
class TestWithTorch:
    pytestmark = needs_torch

    def test_there_and_back(self, view):
        import torch as reference

        ours = view(torch.arange(12.0).reshape(3, 4))
        theirs = reference.from_dlpack(ours)
        assert theirs.tolist() == ours.tolist() and theirs.stride() == tuple(ours.stride())
        back = torch.from_dlpack(theirs)
        assert isinstance(back, torch.Tensor) and back.tolist() == ours.tolist()
        if ours.numel():
            assert theirs.data_ptr() == ours.data_ptr() == back.data_ptr()
            ours.fill_(7.0)
            assert theirs.reshape(-1)[0].item() == 7


class TestTorchDtypes:
    pytestmark = needs_torch

    @pytest.mark.parametrize("dtype", DTYPES + [torch.bfloat16])
    def test_every_dtype(self, dtype):
        import torch as reference

        ours = sample(dtype)
        theirs = reference.from_dlpack(ours)
        assert str(theirs.dtype).split(".")[-1] == str(dtype).split(".")[-1]
        assert theirs.tolist() == ours.tolist()
        assert torch.from_dlpack(theirs.clone()).tolist() == ours.tolist()
