# SPDX-License-Identifier: BSD-3-Clause
"""The CUDA runtime on a fake driver: devices, memory, copies, streams, failures, forks.

The fake driver runs work as late as its rules allow, so a missing wait gives wrong values.
"""

import fakes
import pytest

pytestmark = pytest.mark.skipif(fakes.why_not() is not None, reason=str(fakes.why_not()))


def test_devices_and_copies():
    fakes.run(
        """
assert torch.cuda.is_available() and torch.cuda.device_count() == 2
x = torch.arange(12.).reshape(3, 4)
for view in (x, x.T, x[:, 1], x[::2], x[0, 0], x[:0], x.expand(2, 3, 4)):
    y = view.to("cuda")
    assert y.device == torch.device("cuda", 0) and y.is_cuda and y.get_device() == 0
    assert not view.is_cuda and view.get_device() == -1
    assert torch.equal(y.cpu(), view), view
    assert torch.equal(view.cuda(1).to("cuda:0").cpu(), view)
for dtype in (torch.bool, torch.uint8, torch.int64, torch.float16, torch.complex128):
    v = torch.arange(5).to(dtype)
    assert torch.equal(v.cuda().cpu(), v)
assert x.cuda().cuda() is not None and (c := x.cuda()).cuda() is c
assert x.cuda(1).device.index == 1
torch.cuda.set_device(1)
assert torch.cuda.current_device() == 1 and x.cuda().device.index == 1
with torch.cuda.device(0):
    assert torch.zeros(1, device="cuda").device.index == 0
with torch.cuda.device_of(x.cuda(0)):
    assert torch.cuda.current_device() == 0
assert torch.cuda.current_device() == 1
assert torch.ones(2, device=0).device.index == 0
assert torch.cuda.get_device_name() == "Fake GPU" and torch.cuda.get_device_capability() == (9, 0)
assert torch.cuda.get_arch_list() == ["sm_90"] and torch.cuda.is_bf16_supported()
""",
        FAKE_CUDA_DEVICES=2,
    )


def test_typed_tensors():
    fakes.run(
        """
here, there = torch.FloatTensor([1, 2]), torch.cuda.FloatTensor([1, 2])
assert there.is_cuda and there.tolist() == [1, 2] and torch.cuda.LongTensor(2, 3).shape == (2, 3)
assert not isinstance(there, torch.FloatTensor) and isinstance(there, torch.cuda.FloatTensor)
assert there.type().endswith(".cuda.FloatTensor") and not here.type().endswith(".cuda.FloatTensor")
for kind in (torch.cuda.LongTensor, "torch.cuda.LongTensor"):
    for t in (here, there):
        assert t.type(kind).is_cuda and t.type(kind).dtype is torch.int64
assert not there.type("torch.DoubleTensor").is_cuda and there.type(torch.float64).is_cuda
assert here.type(there.type()).is_cuda and not there.type(here.type()).is_cuda
raises(TypeError, "on the CPU, got", torch.FloatTensor, there)
"""
    )


def test_errors_of_devices():
    fakes.run(
        """
raises(RuntimeError, "invalid device ordinal", torch.ones, 2, device="cuda:1")
raises(RuntimeError, "invalid device ordinal", torch.cuda.set_device, 1)
raises(RuntimeError, "invalid device ordinal", torch.cuda.Stream, "cuda:3")
raises(ValueError, "expected a cuda device", torch.cuda.current_stream, "cpu")
x, y = torch.ones(3).cuda(), torch.ones(3)
raises(RuntimeError, "two devices", lambda: x + y)
raises(RuntimeError, "two devices", lambda: x.add_(y))
raises(TypeError, "cuda:0", x.numpy)
raises(RuntimeError, "must be cuda device", x.cuda, "cpu")
g = torch.Generator()
raises(RuntimeError, "'cuda' device type for generator", torch.rand, 3, device="cuda", generator=g)
g = torch.Generator("cuda")
assert g.device.type == "cuda"
raises(RuntimeError, "'cpu' device type for generator", torch.rand, 3, generator=g)
assert (x + 1).tolist() == [2.0] * 3 and x[1].item() == 1.0
"""
    )


def test_memory_is_reused_and_counted():
    fakes.run(
        """
stats = torch.cuda.memory_stats
assert torch.cuda.memory_allocated() == 0
x = torch.zeros(1000).cuda()
assert torch.cuda.memory_allocated() == 4096
at = x.data_ptr()
del x
assert torch.cuda.memory_allocated() == 0 and torch.cuda.max_memory_allocated() == 4096
x = torch.zeros(900).cuda()
assert x.data_ptr() == at
small = torch.cuda.memory_reserved()
assert small == 2 << 20
big = torch.zeros(3 << 20).cuda()
assert torch.cuda.memory_reserved() > small
parts = [torch.zeros(1 << 18).cuda() for _ in range(20)]
del parts[::2], parts, big
assert stats()["allocation.all.current"] == 1
torch.cuda.empty_cache()
assert torch.cuda.memory_reserved() == small
torch.cuda.reset_peak_memory_stats()
assert torch.cuda.max_memory_allocated() == torch.cuda.memory_allocated() == 4096
del x
torch.cuda.empty_cache()
assert torch.cuda.memory_reserved() == 0 == fake.fake_cuda_used()
free, total = torch.cuda.mem_get_info()
assert free == total == 1 << 30
assert "tensors" in torch.cuda.memory_summary()
"""
    )


def test_out_of_memory_leaves_everything_usable():
    fakes.run(
        """
torch.cuda.set_fallback("silent")
keep = torch.ones(1 << 20).cuda()
error = raises(torch.cuda.OutOfMemoryError, "CUDA out of memory. Tried to allocate 64.00 MiB",
               lambda: [torch.empty(1 << 24, device="cuda") for _ in range(3)])
assert "16.00 MiB is free" in str(error) and "total capacity of 100.00 MiB" in str(error)
assert torch.cuda.memory_stats()["num_ooms"] == 1
assert torch.equal(keep.cpu(), torch.ones(1 << 20))
# What is cached is given back before the error.
del error
cached = [torch.empty(1 << 22, device="cuda") for _ in range(4)]
del cached
whole = torch.empty(18 << 20, device="cuda")
assert torch.cuda.memory_stats()["num_alloc_retries"] >= 1
del whole, keep
for n in range(1, 4):  # at the n-th allocation of the driver
    torch.cuda.empty_cache()
    fake.fake_cuda_fail(b"cuMemAlloc_v2", 1, 2)
    x = torch.ones(4).cuda()  # it is tried again
    assert x.tolist() == [1.0] * 4
    del x
""",
        FAKE_CUDA_MEMORY=100 << 20,
    )


def test_streams_wait_where_they_must():
    fakes.run(
        """
x = torch.arange(6.).cuda()
s = torch.cuda.Stream()
assert torch.cuda.current_stream() == torch.cuda.default_stream() != s
s.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(s):
    assert torch.cuda.current_stream() == s
    y = x.clone()
    done = s.record_event()
torch.cuda.current_stream().wait_event(done)
assert torch.cuda.current_stream() == torch.cuda.default_stream()
assert y.tolist() == list(range(6))
assert s.query() and done.query() or s.synchronize() is None
a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
a.record(); x.clone(); b.record(); b.synchronize()
assert a.elapsed_time(b) > 0
raises(ValueError, "enable_timing", done.elapsed_time, b)
torch.cuda.synchronize()
with torch.cuda.stream(None):
    pass
assert len({torch.cuda.Stream() for _ in range(40)}) <= 32
"""
    )


def test_memory_of_another_stream_is_not_reused_early():
    fakes.run(
        """
x = torch.ones(1000).cuda()
s = torch.cuda.Stream()
with torch.cuda.stream(s):
    torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
    y = x.clone()  # waits in the queue of s
at = x.data_ptr()
del x
z = torch.zeros(1000).cuda()  # on the default stream, which may run first
assert z.tolist() == [0.0] * 1000
s.synchronize()
assert y.tolist() == [1.0] * 1000
"""
    )


def test_failures_have_names_and_lose_nothing():
    fakes.run(
        """
x = torch.ones(4).cuda()
fake.fake_cuda_fail(b"cuMemcpyDtoHAsync_v2", 1, 700)
error = raises(RuntimeError, "an illegal memory access was encountered", x.cpu)
assert "cuMemcpyDtoHAsync" in str(error) and "CUDA_LAUNCH_BLOCKING" in str(error)
assert x.cpu().tolist() == [1.0] * 4
fake.fake_cuda_fail(b"cuStreamCreateWithPriority", 1, 700)
raises(RuntimeError, "cuStreamCreateWithPriority", torch.cuda.Stream)
before = torch.cuda.memory_allocated()
for n in range(3):
    fake.fake_cuda_fail(b"cuMemcpyHtoDAsync_v2", 1, 700)
    raises(RuntimeError, "cuMemcpyHtoDAsync", torch.ones(100).cuda)
assert torch.cuda.memory_allocated() == before
"""
    )


def test_a_forked_child_says_so():
    fakes.run(
        """
x = torch.ones(4).cuda()
pid = os.fork()
if pid == 0:
    try:
        raises(RuntimeError, "Cannot re-initialize CUDA in forked subprocess", torch.ones(2).cuda)
        raises(RuntimeError, "Cannot re-initialize CUDA in forked subprocess", x.cpu)
        assert torch.ones(2).sum().item() == 2  # the CPU works
        del x
    except BaseException:
        import traceback
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
assert x.sum().item() == 4
"""
    )


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        ({"COGRAD_CUDA_DRIVER": "/nowhere/libcuda.so"}, "no NVIDIA driver was found"),
        ({"FAKE_CUDA_DEVICES": 0}, "the NVIDIA driver finds no GPU"),
    ],
)
def test_no_driver_and_no_device(variables, text):
    fakes.run(
        f"""
assert not torch.cuda.is_available() and torch.cuda.device_count() == 0
error = raises(RuntimeError, {text!r}, torch.ones, 2, device="cuda")
assert "pass device='cpu'" in str(error)
raises(RuntimeError, {text!r}, torch.cuda.current_device)
raises(RuntimeError, {text!r}, torch.cuda.Stream)
torch.cuda.synchronize(); torch.cuda.empty_cache(); torch.cuda.manual_seed_all(3)
assert torch.cuda.memory_allocated() == 0 and torch.cuda.memory_stats() == {{}}
""",
        **variables,
    )


def test_no_compiler():
    fakes.run(
        """
assert torch.cuda.device_count() == 1 and not torch.cuda.is_available()
x = torch.ones(3).cuda()  # copies need no kernel
assert x.cpu().tolist() == [1.0] * 3
raises(RuntimeError, "COGRAD_NVRTC", lambda: x + 1)
""",
        COGRAD_NVRTC="/nowhere/libnvrtc.so",
    )


def test_backward_runs_on_the_streams_of_forward():
    fakes.run(
        """
x = torch.arange(6.).cuda().requires_grad_()
s, t = torch.cuda.Stream(), torch.cuda.Stream()
s.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(s):
    y = x * 2
t.wait_stream(s)
with torch.cuda.stream(t):
    z = (y * y).sum()
torch.cuda.current_stream().wait_stream(t)
z.backward()
assert x.grad.tolist() == [8 * i for i in range(6)]
assert torch.cuda.current_stream() == torch.cuda.default_stream()
"""
    )


def test_idle_streams_cost_no_event_and_waiting_blocks_few_questions():
    fakes.run(
        """
calls = lambda name: fake.fake_cuda_calls(name)
s = torch.cuda.Stream()
with torch.cuda.stream(s):
    torch.ones(10).cuda().exp()
torch.cuda.synchronize()
made = calls(b"cuEventCreate")
for _ in range(20):
    torch.empty(1000, device="cuda")  # s has nothing to do
assert calls(b"cuEventCreate") == made
x = torch.ones(1000).cuda()
kept = [torch.empty(1000, device="cuda") for _ in range(50)]
with torch.cuda.stream(s):
    y = x.clone()  # waits in the queue of s
places = {t.data_ptr() for t in kept}
del kept
assert calls(b"cuEventCreate") == made + 50
live = torch.cuda.memory_allocated()
asked = calls(b"cuEventQuery")
fake.fake_cuda_fail(b"cuEventQuery", -1, 600)  # not ready
z = torch.zeros(1000, device="cuda")
assert calls(b"cuEventQuery") == asked + 1 and z.data_ptr() not in places
torch.cuda.synchronize()
del z
asked = calls(b"cuEventQuery")
again = [torch.empty(1000, device="cuda") for _ in range(50)]
assert calls(b"cuEventQuery") - asked <= 55  # one for each block, and few for the last one
assert len({t.data_ptr() for t in again} & places) >= 49
assert y.tolist() == [1.0] * 1000
"""
    )


def test_a_block_waits_for_each_stream_that_is_busy():
    fakes.run(
        """
x = torch.ones(1000).cuda()
s, t = torch.cuda.Stream(), torch.cuda.Stream()
torch.cuda.synchronize()
with torch.cuda.stream(s):
    y = x.exp()
with torch.cuda.stream(t):
    w = x.sin()
at = x.data_ptr()
del x
s.synchronize()  # t still uses the block
fake.fake_cuda_fail(b"cuEventQuery", 2, 600)
a = torch.zeros(1000).cuda()
b = torch.zeros(1000).cuda()
assert a.tolist() == b.tolist() == [0.0] * 1000
want = torch.ones(1000)
assert torch.allclose(w.cpu(), want.sin()) and torch.allclose(y.cpu(), want.exp())
del a, b
torch.cuda.synchronize()
taken = [torch.empty(1000, device="cuda") for _ in range(8)]
assert at in {v.data_ptr() for v in taken}
torch.cuda.empty_cache()
"""
    )
