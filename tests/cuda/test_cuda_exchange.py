# SPDX-License-Identifier: BSD-3-Clause
"""DLPack and __cuda_array_interface__ of tensors on a GPU, on the fake driver."""

import fakes
import pytest

pytestmark = pytest.mark.skipif(fakes.why_not() is not None, reason=str(fakes.why_not()))


def test_dlpack_both_ways():
    fakes.run(
        """
x = torch.arange(6.).reshape(2, 3).cuda()
assert x.__dlpack_device__() == (2, 0) and x.cuda(1).__dlpack_device__() == (2, 1)
y = torch.from_dlpack(x)
assert y.device == x.device and y.data_ptr() == x.data_ptr() and y.tolist() == x.tolist()
y = torch.from_dlpack(x.T.__dlpack__(max_version=(1, 0)))
assert y.stride() == (1, 3) and y.is_cuda
y += 1
assert x[0, 0].item() == 1
host = torch.from_dlpack(x.__dlpack__(dl_device=(1, 0)))
assert host.device.type == "cpu" and host.tolist() == x.tolist()
raises(BufferError, "copy=False", x.__dlpack__, dl_device=(1, 0), copy=False)
raises(BufferError, "dl_device must be", x.__dlpack__, dl_device=(2, 1))
copy = torch.from_dlpack(x, copy=True)
assert copy.is_cuda and copy.data_ptr() != x.data_ptr() and copy.tolist() == x.tolist()
moved = torch.from_dlpack(x, device="cpu")
assert moved.device.type == "cpu" and moved.tolist() == x.tolist()
raises(BufferError, "copied to cpu", torch.from_dlpack, x, device="cpu", copy=False)
raises(BufferError, "require grad", x.clone().requires_grad_().__dlpack__)
raises(AssertionError, "None on cpu", torch.ones(1).__dlpack__, stream=1)
del x, moved, copy, host
assert y.sum().item() == 21  # it keeps the memory
""",
        FAKE_CUDA_DEVICES=2,
    )


def test_streams_of_dlpack():
    fakes.run(
        """
x = torch.ones(4).cuda()
waits = lambda: fake.fake_cuda_calls(b"cuStreamWaitEvent")
s = torch.cuda.Stream()
for stream, expected in ((None, 0), (1, 0), (-1, 0), (2, 1), (s.cuda_stream, 1)):
    before = waits()
    x.__dlpack__(stream=stream)
    assert waits() - before == expected, stream
with torch.cuda.stream(s):
    s.wait_stream(torch.cuda.default_stream())
    y = x * 2
    before = waits()
    y.__dlpack__(stream=-1)
    assert waits() == before
    y.__dlpack__(stream=1)  # the default stream waits for this one
    assert waits() == before + 1
raises(ValueError, "stream must be", x.__dlpack__, stream=0)
raises(ValueError, "stream must be", x.__dlpack__, stream=-2)
raises(TypeError, "int or None", x.__dlpack__, stream="1")

class Producer:
    def __init__(self, tensor): self.tensor, self.asked = tensor, []
    def __dlpack_device__(self): return self.tensor.__dlpack_device__()
    def __dlpack__(self, **asked):
        self.asked.append(asked)
        return self.tensor.__dlpack__(**asked)
p = Producer(x)
assert torch.from_dlpack(p).tolist() == [1] * 4 and p.asked[0]["stream"] == 1
with torch.cuda.stream(s):
    torch.from_dlpack(p)
assert p.asked[1]["stream"] == s.cuda_stream

class Elsewhere:
    def __dlpack_device__(self): return (2, 5)
    def __dlpack__(self, **asked): raise AssertionError
raises(BufferError, "no such cuda device", torch.from_dlpack, Elsewhere())
class Other(Elsewhere):
    def __dlpack_device__(self): return (10, 0)
raises(BufferError, "unsupported device type 10", torch.from_dlpack, Other())
"""
    )


def test_the_cuda_array_interface():
    fakes.run(
        """
x = torch.arange(6.).reshape(2, 3).cuda()
d = x.__cuda_array_interface__
assert d == {"typestr": "<f4", "shape": (2, 3), "strides": None, "data": (x.data_ptr(), False),
             "version": 3, "stream": 1}, d
assert x.T.__cuda_array_interface__["strides"] == (4, 12)
names = {torch.bool: "|b1", torch.uint8: "|u1", torch.int64: "<i8", torch.float16: "<f2",
         torch.complex64: "<c8", torch.uint16: "<u2"}
for dtype, name in names.items():
    t = torch.ones(2).to(dtype).cuda()
    assert t.__cuda_array_interface__["typestr"] == name
    class Array:
        __cuda_array_interface__ = t.__cuda_array_interface__
    back = torch.as_tensor(Array())
    assert back.dtype == dtype and back.data_ptr() == t.data_ptr()
    assert torch.equal(back.cpu(), t.cpu())
assert not hasattr(torch.ones(1), "__cuda_array_interface__")
raises(RuntimeError, "requires grad", lambda: x.clone().requires_grad_().__cuda_array_interface__)

class Owner:
    freed = False
    def __init__(self, t, **more):
        self.t = t
        self.__cuda_array_interface__ = {**t.__cuda_array_interface__, **more}
    def __del__(self): Owner.freed = True
y = torch.as_tensor(Owner(x.T))
assert y.stride() == (1, 3) and y.device == x.device and not Owner.freed
y += 1
assert x[0, 0].item() == 1
z = torch.tensor(Owner(x))
assert z.data_ptr() != x.data_ptr() and z.is_cuda and z.tolist() == x.tolist()
assert torch.as_tensor(Owner(x), device="cpu").device.type == "cpu"
assert torch.as_tensor(Owner(x), dtype=torch.float64).dtype == torch.float64
del y
assert Owner.freed
s = torch.cuda.Stream()
before = fake.fake_cuda_calls(b"cuStreamWaitEvent")
torch.as_tensor(Owner(x, stream=s.cuda_stream))
assert fake.fake_cuda_calls(b"cuStreamWaitEvent") == before + 1
raises(ValueError, "ambiguous", torch.as_tensor, Owner(x, stream=0))
raises(NotImplementedError, "mask", torch.as_tensor, Owner(x, mask=Owner(x)))
raises(TypeError, "<V3", torch.as_tensor, Owner(x, typestr="<V3"))
raises(ValueError, "strides", torch.as_tensor, Owner(x, strides=(-12, 4)))
"""
    )
