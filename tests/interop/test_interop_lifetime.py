# SPDX-License-Identifier: BSD-3-Clause
"""Who keeps shared memory alive, when it is freed, and read-only memory."""

import copy
import ctypes
import gc
import pickle
import subprocess
import sys
import threading
import warnings
import weakref

import numpy as np
import pytest
from conftest import resident_mb

import cograd as torch


class Array(np.ndarray):
    """An ndarray that supports weak references."""


def array(n=8):
    return np.arange(float(n)).view(Array)


def read_only(n=4):
    a = np.arange(float(n))
    a.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return a, torch.from_numpy(a)


# ---------------------------------------------------------------- owners


@pytest.mark.parametrize("make", [torch.from_numpy, torch.as_tensor, torch.from_dlpack])
def test_tensor_releases_its_array(make):
    a = array()
    ref, before = weakref.ref(a), sys.getrefcount(a)
    t = make(a)
    assert sys.getrefcount(a) > before
    view = t[2:]
    del t
    gc.collect()
    assert ref() is not None and view.tolist() == [2, 3, 4, 5, 6, 7]
    del view
    gc.collect()
    assert sys.getrefcount(a) == before
    del a
    assert ref() is None


def test_array_keeps_the_memory_when_the_tensor_is_replaced():
    t = torch.arange(1000.0)
    a, m = t.numpy(), memoryview(t)
    capsule = t.__dlpack__()
    t.data = torch.zeros(3)
    junk = [torch.full((1000,), -1.0) for _ in range(10)]
    assert a[999] == m[999] == 999 and junk
    assert torch.from_dlpack(capsule)[999].item() == 999


def test_array_keeps_the_memory_when_the_tensor_is_resized():
    t = torch.arange(1000.0)
    a = t.numpy()
    with warnings.catch_warnings(), pytest.raises(RuntimeError, match="tensors or arrays"):
        warnings.simplefilter("ignore")
        torch.zeros(5000, out=t)
    with pytest.raises(RuntimeError, match="tensors or arrays"):
        t.resize_(5000)
    assert t.shape == (1000,)
    t.resize_(10)
    junk = [torch.full((1000,), -1.0) for _ in range(10)]
    assert a[999] == 999 and junk


def test_capsule_releases_once():
    a = array()
    before = sys.getrefcount(a)
    unused = torch.from_numpy(a).__dlpack__()
    assert sys.getrefcount(a) == before + 1
    del unused
    assert sys.getrefcount(a) == before
    capsule = torch.from_numpy(a).__dlpack__(max_version=(1, 0))
    t = torch.from_dlpack(capsule)
    del capsule
    assert sys.getrefcount(a) == before + 1 and t.tolist() == a.tolist()
    del t
    assert sys.getrefcount(a) == before


class OfAnotherType:
    """Exports an array by DLPack with the unknown type code 200."""

    def __init__(self, a):
        self.a = a

    def __dlpack_device__(self):
        return self.a.__dlpack_device__()

    def __dlpack__(self, **kwargs):
        capsule = self.a.__dlpack__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        # After the address, the device's two ints and the number of dims.
        ctypes.c_uint8.from_address(pointer(capsule, b"dltensor") + 20).value = 200
        return capsule


def test_refused_capsule_is_still_usable():
    a = np.zeros(3, dtype=np.float32)
    before = sys.getrefcount(a)
    for _ in range(3):
        with pytest.raises((RuntimeError, BufferError), match="dtype|type code"):
            torch.from_dlpack(OfAnotherType(a))
    assert sys.getrefcount(a) == before


def test_frombuffer_locks_and_unlocks_the_buffer():
    b = bytearray(16)
    t = torch.frombuffer(b, dtype=torch.int32)
    t[1] = 5
    assert b[4] == 5
    with pytest.raises(BufferError):
        b.append(1)
    del t
    b.append(1)


def test_last_reference_dropped_on_another_thread():
    a = array()
    before = sys.getrefcount(a)
    box = [torch.from_numpy(a)]
    thread = threading.Thread(target=box.clear)
    thread.start()
    thread.join()
    assert sys.getrefcount(a) == before


def ragged():
    with pytest.raises(ValueError, match="length 2 at dim 1"):
        torch.tensor([[1.0, 2.0]] * 100 + [[1.0]])


CYCLES = {
    "from_numpy": lambda: torch.from_numpy(np.ones(1000)),
    "numpy": lambda: torch.ones(1000).numpy(),
    "memoryview": lambda: memoryview(torch.ones(1000)).release(),
    "dlpack": lambda: torch.from_dlpack(np.ones(1000)),
    "dlpack_export": lambda: np.from_dlpack(torch.ones(1000)),
    "dlpack_unused": lambda: torch.ones(1000).__dlpack__(),
    "frombuffer": lambda: torch.frombuffer(bytearray(8000), dtype=torch.float64),
    "tensor": lambda: torch.tensor([[1.0, 2.0]] * 100),
    "tensor_error": ragged,
    "tolist": lambda: torch.ones(1000).tolist(),
    "deepcopy": lambda: copy.deepcopy(torch.ones(1000)),
    "pickle": lambda: pickle.loads(pickle.dumps(torch.ones(1000))),
    "storage": lambda: torch.ones(1000).untyped_storage(),
    "iterate": lambda: list(torch.ones(20)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CYCLES)
def test_no_growth(name):
    f = CYCLES[name]
    n = 10000
    for _ in range(n // 4):
        f()
    before = resident_mb()
    for _ in range(n):
        f()
    assert resident_mb() - before < 8, "10000 leaked tensors of 1000 doubles would be 76 MiB"


def test_exit_with_shared_memory_alive():
    code = (
        "import numpy as np, cograd, sys\n"
        "keep = sys.modules['keep'] = [cograd.from_numpy(np.ones(9)), cograd.ones(9).numpy(),\n"
        "    cograd.from_dlpack(np.ones(9)), np.from_dlpack(cograd.ones(9)),\n"
        "    memoryview(cograd.ones(9)), cograd.frombuffer(bytearray(8), dtype=cograd.int64),\n"
        "    cograd.ones(2).untyped_storage(), cograd.ones(2).__dlpack__()]\n"
        "keep.append(keep)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0 and run.stderr == ""


# ---------------------------------------------------------------- read-only memory


@pytest.mark.beyond_torch
@pytest.mark.parametrize(
    "write",
    [
        lambda t: t.add_(1),
        lambda t: t.zero_(),
        lambda t: t[1:].fill_(2),
        lambda t: t.__setitem__(0, 5.0),
        lambda t: t.view(2, 2).t().mul_(2),
        lambda t: torch.exp(torch.ones(4, dtype=torch.float64), out=t),
        lambda t: t.detach().copy_(torch.zeros(4)),
        lambda t: t.apply_(lambda v: 0),
    ],
)
def test_read_only_array_cannot_be_written(write):
    a, t = read_only()
    with pytest.raises(RuntimeError, match="read-only"):
        write(t)
    assert a.tolist() == [0, 1, 2, 3]


@pytest.mark.beyond_torch
def test_read_only_is_passed_on():
    a, t = read_only()
    assert not t.numpy().flags.writeable and memoryview(t).readonly
    assert not np.from_dlpack(t).flags.writeable
    with pytest.raises(BufferError, match="max_version"):
        t.__dlpack__()
    back = torch.from_dlpack(t)
    with pytest.raises(RuntimeError, match="read-only"):
        back.zero_()
    t.clone().zero_()
    assert (t + 1).tolist() == [1, 2, 3, 4] and a.tolist() == [0, 1, 2, 3]


@pytest.mark.beyond_torch
def test_bytes_are_read_only():
    with pytest.warns(UserWarning, match="not writable"):
        t = torch.frombuffer(b"abcd", dtype=torch.uint8)
    with pytest.raises(RuntimeError, match="read-only"):
        t.zero_()


# ---------------------------------------------------------------- refusals


@pytest.mark.beyond_torch
def test_dlpack_negative_strides_are_an_error():
    with pytest.raises(ValueError, match="negative stride"):
        torch.from_dlpack(np.arange(3.0)[::-1])
    assert torch.tensor(np.arange(3.0)[::-1]).tolist() == [2, 1, 0]


@pytest.mark.beyond_torch
def test_unaligned_memory_is_refused():
    odd = np.frombuffer(bytearray(17), dtype=np.uint8)[1:].view(np.float64)
    with pytest.raises(ValueError, match="aligned"):
        torch.from_numpy(odd)
    with pytest.raises(ValueError, match="aligned"):
        torch.frombuffer(bytearray(9), dtype=torch.int32, offset=1)
    assert torch.tensor(odd).tolist() == [0, 0]


@pytest.mark.parametrize(
    "arguments,match",
    [
        ({"count": 3}, "must not be greater than actual buffer length"),
        ({"offset": 9}, "offset .9 bytes. must be non-negative"),
        ({"offset": -1}, "offset .-1 bytes. must be non-negative"),
        ({"offset": 8}, "no greater than buffer length"),
        ({"count": 0}, "must not be 0"),
        ({"offset": 3}, "multiple of element size"),
    ],
)
def test_frombuffer_errors(arguments, match):
    with pytest.raises(ValueError, match=match):
        torch.frombuffer(bytearray(b"abcdefgh"), dtype=torch.int32, **arguments)


def test_frombuffer_bad_objects():
    with pytest.raises(ValueError, match="buffer protocol"):
        torch.frombuffer([1], dtype=torch.int32)
    with pytest.raises(ValueError, match="must not be 0"):
        torch.frombuffer(bytearray(), dtype=torch.int32)
    with pytest.raises(TypeError, match="dtype"):
        torch.frombuffer(bytearray(8))
    with pytest.raises(RuntimeError, match="floating point"):
        torch.frombuffer(bytearray(8), dtype=torch.int32, requires_grad=True)


@pytest.mark.parametrize(
    "flags,ok",
    [("SIMPLE", True), ("C_CONTIGUOUS", True), ("F_CONTIGUOUS", False), ("STRIDES", True)],
)
def test_buffer_requests(flags, ok):
    inspect = pytest.importorskip("_testcapi" if sys.version_info >= (3, 13) else "_testbuffer")
    if not hasattr(inspect, "ndarray"):
        pytest.skip("no buffer test helper")
    t = torch.arange(6).reshape(2, 3)
    request = getattr(inspect, "PyBUF_" + flags)
    if ok:
        assert inspect.ndarray(t, getbuf=request).nbytes == 48
    else:
        with pytest.raises(BufferError):
            inspect.ndarray(t, getbuf=request)
    turned = inspect.ndarray(t.t(), getbuf=inspect.PyBUF_F_CONTIGUOUS)
    assert turned.shape == (3, 2)
    with pytest.raises(BufferError):
        inspect.ndarray(t.t(), getbuf=inspect.PyBUF_SIMPLE)


# ---------------------------------------------------------------- asarray and nested data


def test_asarray_shares_where_it_can():
    t, a, b = torch.ones(2), np.ones(2), bytearray(8)
    assert torch.asarray(t) is t
    assert torch.asarray(a).data_ptr() == a.ctypes.data
    assert torch.asarray(b, dtype=torch.int32).shape == (2,)
    assert torch.asarray(t, copy=True).data_ptr() != t.data_ptr()
    assert torch.asarray([1, 2.0]).tolist() == [1, 2] and torch.asarray(np.float32(3)).item() == 3
    for obj, dtype in (([1], None), (t, torch.float64)):
        with pytest.raises(ValueError, match="can't alias"):
            torch.asarray(obj, dtype=dtype, copy=False)
    w = torch.ones(2, requires_grad=True)
    assert torch.asarray(w) is w and not torch.asarray(w, requires_grad=False).requires_grad
    assert torch.asarray([1.0], requires_grad=True).requires_grad
    assert torch.asarray(t, requires_grad=True).requires_grad and not t.requires_grad


def test_tensor_of_arrays_and_sequences():
    rows = [np.arange(2), np.arange(2.0, 4.0)]
    t = torch.tensor(rows)
    assert t.dtype is torch.float64 and t.tolist() == [[0, 1], [2, 3]]
    assert torch.tensor([np.arange(2), [5, 6]]).tolist() == [[0, 1], [5, 6]]
    assert torch.tensor([np.ones((2, 2), np.float32)] * 3, dtype=torch.int8).shape == (3, 2, 2)
    with pytest.raises(ValueError, match="shape"):
        torch.tensor([np.arange(2), np.arange(3)])

    class Rows:
        def __len__(self):
            return 2

        def __getitem__(self, i):
            if i > 1:
                raise IndexError
            return [i, i]

    assert torch.tensor(Rows()).tolist() == [[0, 0], [1, 1]]


@pytest.mark.beyond_torch
def test_objects_with_array_protocol():
    class Foreign:
        def __array__(self, dtype=None, copy=None):
            return np.arange(3, dtype=np.int16)

    assert torch.tensor(Foreign()).dtype is torch.int16
    assert torch.tensor(Foreign(), dtype=torch.float32).tolist() == [0, 1, 2]
    assert torch.as_tensor(Foreign()).tolist() == [0, 1, 2]
    with pytest.raises(RuntimeError, match="infer dtype of type"):
        torch.tensor(Foreign)


def test_list_that_changes_while_it_is_read():
    data = []

    class Shrinks:
        def __index__(self):
            data.clear()
            return 1

    data.extend([1, Shrinks(), 2, 3])
    with pytest.raises(RuntimeError, match="changed its length"):
        torch.tensor(data, dtype=torch.int64)


# ---------------------------------------------------------------- copies


class Tagged(torch.Tensor):
    """A subclass with additional attributes."""


def test_subclass_and_attributes_survive():
    t = torch.Tensor._make_subclass(Tagged, torch.arange(3.0), True)
    t.tag = ["x"]
    for make in (copy.copy, copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))):
        r = make(t)
        assert type(r) is Tagged and r.requires_grad and r.is_leaf and r.tag == ["x"]
        assert r.tolist() == [0, 1, 2] and r is not t
    assert copy.copy(t).data_ptr() == t.data_ptr() and copy.copy(t).tag is t.tag
    assert copy.deepcopy(t).tag is not t.tag


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_views_share_memory_after_pickle(protocol):
    t = torch.arange(6.0)
    r, v = pickle.loads(pickle.dumps((t, t[2:4]), protocol))
    v[0] = 9
    assert r.tolist() == [0, 1, 9, 3, 4, 5] and t[2].item() == 2


def test_pickle_out_of_band():
    buffers = []
    t = torch.arange(1000.0)
    data = pickle.dumps(t, 5, buffer_callback=buffers.append)
    assert len(data) < 1000 and len(buffers) == 1
    assert torch.equal(pickle.loads(data, buffers=buffers), t)


def test_broken_pickle_is_refused():
    storage = torch.arange(4.0).untyped_storage()
    rebuild = torch.ones(1).__reduce_ex__(2)[0]
    assert rebuild(storage, torch.float32, 1, (3,), (1,), False).tolist() == [1, 2, 3]
    for offset, size, stride in [
        (2, (3,), (1,)),
        (0, (2**62, 8), (1, 1)),
        (-1, (1,), (1,)),
        (0, (2,), (2**62,)),
        (0, (2, 2), (1,)),
        (0, (-1,), (1,)),
    ]:
        with pytest.raises(RuntimeError):
            rebuild(storage, torch.float32, offset, size, stride, False)


def test_storage():
    t = torch.arange(4, dtype=torch.int32)
    s = t.untyped_storage()
    assert s is t[1:].untyped_storage() and s.nbytes() == s.size() == len(s) == 16
    assert bytes(s) == t.numpy().tobytes() and s.data_ptr() == t.data_ptr()
    assert not t.is_shared() and not t.is_pinned()
    with pytest.raises(RuntimeError, match="pin_memory"):
        t.pin_memory()


def test_copies_of_results_with_history_are_refused():
    y = torch.ones(2, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.copy(y)
    assert copy.copy(y.detach()).tolist() == [2, 2]


def test_generator_copies():
    g = torch.Generator().manual_seed(3)
    torch.rand(3, generator=g)
    for h in (copy.deepcopy(g), pickle.loads(pickle.dumps(g)), g.clone_state()):
        assert h is not g and torch.equal(h.get_state(), g.get_state())
