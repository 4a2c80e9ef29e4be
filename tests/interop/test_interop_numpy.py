# SPDX-License-Identifier: BSD-3-Clause
"""Exchange with NumPy without copies, in both directions, and what it refuses."""

import operator
import subprocess
import sys
import warnings

import numpy as np
import pytest

import cograd as torch

PAIRS = [
    (torch.bool, np.bool_),
    (torch.uint8, np.uint8),
    (torch.int8, np.int8),
    (torch.int16, np.int16),
    (torch.int32, np.int32),
    (torch.int64, np.int64),
    (torch.uint16, np.uint16),
    (torch.uint32, np.uint32),
    (torch.uint64, np.uint64),
    (torch.float16, np.float16),
    (torch.float32, np.float32),
    (torch.float64, np.float64),
]


@pytest.mark.parametrize("dtype,np_dtype", PAIRS)
def test_from_numpy_shares(dtype, np_dtype):
    a = np.array([[0, 1, 1], [1, 0, 1]], dtype=np_dtype)
    t = torch.from_numpy(a)
    assert t.dtype is dtype and t.shape == (2, 3) and t.data_ptr() == a.ctypes.data
    a[0, 0] = 1
    assert t[0, 0].item() == 1
    t[1, 1] = 1
    assert a[1, 1] == 1


@pytest.mark.parametrize("dtype,np_dtype", PAIRS)
def test_to_numpy_shares(dtype, np_dtype):
    t = torch.tensor([[0, 1, 1], [1, 0, 1]], dtype=dtype)
    a = t.numpy()
    assert a.dtype == np_dtype and a.shape == (2, 3) and a.ctypes.data == t.data_ptr()
    a[0, 0] = 1
    assert t[0, 0].item() == 1
    t.zero_()
    assert not a.any()


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a.T,
        lambda a: a[1:, ::2],
        lambda a: a[..., 0],
        lambda a: a[:, None],
        lambda a: a.reshape(-1)[3:],
        lambda a: a[:0],
        lambda a: np.broadcast_to(a[:1], (5,) + a.shape[1:]),
        lambda a: np.asfortranarray(a),
        lambda a: a[1, 1, ...],
    ],
)
def test_strided_arrays_are_shared(view):
    a = np.arange(24.0).reshape(2, 3, 4)
    v = view(a)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        t = torch.from_numpy(v)
    assert t.shape == v.shape
    if v.size:
        assert t.data_ptr() == v.ctypes.data
        assert t.stride() == tuple(s // 8 for s in v.strides)
    np.testing.assert_array_equal(t.numpy(), v)


@pytest.mark.parametrize(
    "view",
    [
        lambda t: t.permute(2, 0, 1),
        lambda t: t[:, 1:, ::2],
        lambda t: t[:1].expand(3, 3, 4),
        lambda t: t[1, 2, 3],
        lambda t: t[:, :0],
    ],
)
def test_strided_tensors_are_shared(view):
    t = view(torch.arange(24, dtype=torch.float64).reshape(2, 3, 4))
    a = t.numpy()
    assert a.shape == tuple(t.shape)
    if a.size:
        assert a.ctypes.data == t.data_ptr() and a.strides == tuple(8 * s for s in t.stride())
    assert a.tolist() == t.tolist()


def test_lifetimes():
    t = torch.from_numpy(np.arange(1000.0))
    assert t.sum().item() == 499500, "the array lives as long as the tensor"
    a = torch.arange(1000.0).numpy()
    junk = [torch.full((1000,), -1.0) for _ in range(10)]
    assert a.sum() == 499500 and junk, "the tensor lives as long as the array"


def test_numpy_scalars_and_0d():
    a = np.array(2.5)
    t = torch.from_numpy(a)
    assert t.shape == () and t.item() == 2.5
    assert torch.tensor(3).numpy().shape == ()
    assert isinstance(torch.tensor(3).numpy(), np.ndarray)


def test_from_numpy_errors():
    with pytest.raises(TypeError, match="ndarray"):
        torch.from_numpy([1, 2])
    with pytest.raises(TypeError):
        torch.from_numpy(np.float64(1))
    with pytest.raises(TypeError, match="can't convert np.ndarray of type"):
        torch.from_numpy(np.array(["a"]))
    with pytest.raises(TypeError, match="can't convert np.ndarray of type"):
        torch.from_numpy(np.array([object()]))
    with pytest.raises(ValueError, match="negative"):
        torch.from_numpy(np.arange(3.0)[::-1])
    with pytest.raises(ValueError, match="byte order"):
        torch.from_numpy(np.arange(3.0).astype(">f8"))
    record = np.zeros(2, dtype=[("a", "i1"), ("b", "f8")])
    with pytest.raises(ValueError, match="stride"):
        torch.from_numpy(record["b"])


@pytest.mark.beyond_torch
def test_unsupported_numpy_dtypes_name_the_dtype():
    for dtype in (np.str_, np.datetime64):
        with pytest.raises(TypeError, match=np.dtype(dtype).name.split("[")[0]):
            torch.from_numpy(np.zeros(2, dtype=dtype))


def test_read_only_array_warns():
    # A new interpreter: the warning may be issued only once per process.
    code = (
        "import warnings, numpy as np, cograd\n"
        "a = np.arange(3.0); a.flags.writeable = False\n"
        "with warnings.catch_warnings(record=True) as seen:\n"
        "    warnings.simplefilter('always')\n"
        "    t = cograd.from_numpy(a)\n"
        "assert t.tolist() == [0, 1, 2]\n"
        "print(seen[0].category.__name__, seen[0].message)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("UserWarning") and "not writable" in run.stdout


def test_numpy_of_requires_grad():
    w = torch.ones(2, requires_grad=True)
    with pytest.raises(
        RuntimeError,
        match=r"Can't call numpy\(\) on Tensor that requires grad.*tensor\.detach\(\)\.numpy\(\)",
    ):
        w.numpy()
    with pytest.raises(RuntimeError, match="requires grad"):
        (w * 2).numpy()
    with pytest.raises(RuntimeError, match="requires grad"):
        np.asarray(w)
    assert w.detach().numpy().tolist() == [1, 1]
    assert (w * 2).numpy(force=True).tolist() == [2, 2]


def test_bfloat16_has_no_numpy_dtype():
    with pytest.raises(TypeError, match="BFloat16|bfloat16"):
        torch.ones(2, dtype=torch.bfloat16).numpy()


def test_array_protocol():
    t = torch.arange(3)
    a = np.asarray(t)
    assert a.dtype == np.int64 and a.ctypes.data == t.data_ptr()
    assert np.asarray(t, dtype=np.float32).dtype == np.float32
    assert np.array([torch.tensor(1.0), torch.tensor(2.0)]).tolist() == [1, 2]
    assert np.sum(t.numpy()) == 3
    np.testing.assert_allclose(t, [0, 1, 2])


@pytest.mark.beyond_torch
def test_array_protocol_knows_copy():
    t = torch.arange(3)
    assert np.array(t).ctypes.data != t.data_ptr()
    assert np.asarray(t, copy=False).ctypes.data == t.data_ptr()
    with pytest.raises(ValueError, match="copy"):
        np.asarray(t, dtype=np.float32, copy=False)


def test_as_array_of_list_of_tensors():
    rows = [torch.arange(2.0), torch.arange(2.0)]
    assert np.stack([r.numpy() for r in rows]).shape == (2, 2)


def test_numpy_in_expressions():
    t = torch.ones(2)
    assert (t * np.float64(2)).dtype is torch.float32
    assert (np.float32(2) * t).tolist() == [2, 2]
    assert torch.full((2,), np.float32(1.5)).tolist() == [1.5, 1.5]
    assert torch.sum(t, dim=np.int64(0)).item() == 2
    assert t.reshape(np.int64(2), 1).shape == (2, 1)


def test_memoryview_of_numpy_view():
    t = torch.arange(6, dtype=torch.int32).reshape(2, 3)
    m = memoryview(t.numpy())
    assert m.shape == (2, 3) and m.format == "i"
    m[0, 1] = 9
    assert t[0, 1].item() == 9


@pytest.mark.beyond_torch
@pytest.mark.parametrize("dtype,np_dtype", PAIRS)
def test_memoryview(dtype, np_dtype):
    t = torch.tensor([[0, 1, 1], [1, 0, 1]], dtype=dtype)
    m = memoryview(t)
    assert m.shape == (2, 3) and m.itemsize == t.element_size() and not m.readonly
    assert m.nbytes == t.nbytes
    a = np.asarray(m)
    assert a.dtype == np_dtype and a.ctypes.data == t.data_ptr()
    a[0, 0] = 1
    assert t[0, 0].item() == 1
    tr = memoryview(t.t())
    assert tr.shape == (3, 2) and tr.strides == (t.element_size(), 3 * t.element_size())


@pytest.mark.beyond_torch
def test_memoryview_of_requires_grad_is_refused():
    with pytest.raises((BufferError, RuntimeError), match="grad"):
        memoryview(torch.ones(2, requires_grad=True))


@pytest.mark.beyond_torch
def test_memoryview_keeps_the_tensor_alive():
    m = memoryview(torch.arange(1000.0))
    junk = [torch.full((1000,), -1.0) for _ in range(10)]
    assert m[999] == 999 and junk


def test_frombuffer():
    t = torch.frombuffer(bytearray(np.arange(4, dtype=np.int32).tobytes()), dtype=torch.int32)
    assert t.tolist() == [0, 1, 2, 3]


def test_from_numpy_is_a_leaf_that_can_require_grad():
    a = np.ones(2)
    t = torch.from_numpy(a).requires_grad_()
    (t * 2).sum().backward()
    assert t.grad.tolist() == [2, 2] and t.grad.dtype is torch.float64


def test_optimised_round_trip_is_identity_of_memory():
    a = np.arange(3.0)
    assert np.shares_memory(torch.from_numpy(a).numpy(), a)
    assert torch.from_numpy(torch.arange(3).numpy()).tolist() == [0, 1, 2]


def test_numpy_of_a_tensor_that_requires_grad_while_nothing_is_recorded():
    x = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        assert x.numpy().tolist() == np.asarray(x).tolist() == [1, 1, 1]
    with pytest.raises(RuntimeError, match="requires grad"):
        x.numpy()


@pytest.mark.parametrize("op", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_arrays_are_compared_element_by_element(op):
    compare = getattr(operator, op)
    x, a = torch.tensor([1.0, 2.0, 3.0]), np.array([1.0, 5.0, 0.0], dtype=np.float32)
    expected = compare(x.numpy(), a).tolist()
    for array in (a, a[::-1][::-1]):
        assert compare(x, array).tolist() == expected
        assert compare(array, x).tolist() == compare(a, x.numpy()).tolist()
    read_only = a.copy()
    read_only.flags.writeable = False
    assert compare(x, read_only).tolist() == expected
    with pytest.raises(RuntimeError, match="must match the size"):
        compare(x, np.ones(2))
