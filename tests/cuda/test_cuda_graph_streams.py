# SPDX-License-Identifier: BSD-3-Clause
"""Captures on several threads and streams, one of which is not captured, and what they may copy."""

import fakes
import pytest

why = None if fakes.REAL else fakes.why_not()
pytestmark = pytest.mark.skipif(why is not None, reason=str(why))

THREADS = (
    fakes.GRAPHS
    + """
import gc, threading, time
def on_thread(f):
    failed = []
    def run():
        try:
            f()
        except BaseException as e:
            failed.append(e)
    t = threading.Thread(target=run)
    t.start()
    t.join()
    if failed:
        raise failed[0]
x = torch.arange(4.).cuda()
s = cuda.Stream()
"""
)


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_another_thread_ends_a_relaxed_capture_only(mode):
    fakes.run(
        THREADS
        + f"""
g = cuda.CUDAGraph()
def end():
    raises(RuntimeError, "the current stream is not the one", g.capture_end) if relaxed else None
    with cuda.stream(s):
        g.capture_end()
relaxed = {mode!r} == "relaxed"
with cuda.stream(s):
    g.capture_begin(capture_error_mode={mode!r})
    y = x + 1
    if relaxed:
        on_thread(end)
    else:
        raises(RuntimeError, "another thread has called capture_begin()", on_thread, end)
        raises(RuntimeError, "has not been captured yet", on_thread, g.replay)
        assert cuda.is_current_stream_capturing()
        y += 1  # the capture goes on
        g.capture_end()
    assert not cuda.is_current_stream_capturing()
raises(RuntimeError, "no capture has begun", g.capture_end)
for k in range(2):
    x.fill_(k)
    g.replay()
    assert y.tolist() == [k + 1. + (not relaxed)] * 4
"""
    )


@pytest.mark.parametrize("drop", ["g.reset()", "g._abort()", "del held[0]; gc.collect()"])
@pytest.mark.parametrize("use", ["x + 1", "x.tolist()", "s.synchronize()", "cuda.empty_cache()"])
def test_a_capture_that_another_thread_drops_is_ended_by_its_own(drop, use):
    """The driver lets no other thread end it, so work must not go on into a lost graph."""
    fakes.run(
        THREADS
        + f"""
held = [cuda.CUDAGraph()]
reserved = cuda.memory_reserved()
def dropped():
    g = held[0] if "held" not in {drop!r} else None
    {drop}
with cuda.stream(s):
    held[0].capture_begin()
    y = x + 1
    p = torch.zeros(4).pin_memory()
    y.copy_(p, non_blocking=True)
    del y
    on_thread(dropped)
    {use}
    z = x + 2
    assert not cuda.is_current_stream_capturing()
    assert z.tolist() == [2., 3., 4., 5.]
    if held:
        raises(RuntimeError, "no capture has begun", held[0].capture_end)
        raises(RuntimeError, "has not been captured", held[0].replay)
        held[0].capture_begin()
        w = x * 2
        held[0].capture_end()
        held[0].replay()
        assert w.tolist() == [0., 2., 4., 6.]
        held.clear()
    x.add_(1)
if os.path.exists(os.environ.get("COGRAD_CUDA_DRIVER", "")):
    assert fake.fake_cuda_graphs() == 0
""",
    )


def test_work_of_a_stream_that_is_not_captured():
    """It runs at once, before the first replay, and cannot use what the capture holds back."""
    fakes.run(
        fakes.GRAPHS
        + """
x = torch.arange(1000.).cuda()
other, kept = cuda.Stream(), torch.zeros(1000).cuda()
cuda.synchronize()
g = cuda.CUDAGraph()
with cuda.graph(g):
    a = x + 1
    captured_stream = cuda.current_stream()
    with cuda.stream(other):
        kept.copy_(x * 3)  # late on the fake driver
        assert not cuda.is_current_stream_capturing()
        late = x * 5
        for f in (lambda: a * 2, lambda: kept.copy_(a), lambda: a.fill_(1.0), lambda: a[2:],
                  a.tolist, a.cpu, lambda: torch.cat([x, a]), lambda: torch.add(x, x, out=a)):
            e = raises(RuntimeError, "a tensor was computed in the capture of a CUDA graph", f)
        kernel = cuda.kernel('extern "C" __global__ void f(float* y) { y[0] = 1; }')
        raises(RuntimeError, "a tensor was computed in the capture", kernel, a, threads=1)
        assert str(e).startswith("add(): "), e
        with cuda.stream(captured_stream):  # and back into it
            a += 1
        assert (x * 2)[2].item() == 4
    b = a + kept + late
g.replay()
assert torch.equal(b.cpu(), torch.arange(1000.) * 9 + 2)
with cuda.stream(other):
    assert torch.equal((a * 2).cpu(), torch.arange(1000.) * 2 + 4)
"""
    )


def test_backward_does_not_enter_or_leave_a_capture():
    fakes.run(
        fakes.GRAPHS
        + """
w = torch.ones(3).cuda().requires_grad_()
s = cuda.Stream()
g = cuda.CUDAGraph()
cuda.synchronize()
with cuda.stream(s):
    g.capture_begin()
    loss = (w * w).sum()
free = torch.ones((), device="cuda")
raises(RuntimeError, "backward(): it runs on a stream that is not part of the capture",
       loss.backward, free)
with cuda.stream(s):
    loss.backward()  # nothing is spoilt
    g.capture_end()
g.replay()
assert w.grad.tolist() == [2.0] * 3
# A node of a captured and one of a free stream: all gradients belong to the capture.
v = torch.ones(3).cuda().requires_grad_()
early = v * 2
g.reset()
with cuda.graph(g):
    (early * w.detach()).sum().backward()
g.replay()
assert v.grad.tolist() == [2.0] * 3
"""
    )


def test_events_from_outside_do_not_spoil_a_capture():
    fakes.run(
        fakes.GRAPHS
        + """
x = torch.ones(3).cuda()
other, event, never = cuda.Stream(), cuda.Event(), cuda.Event()
event.record(other)
g = cuda.CUDAGraph()
with cuda.graph(g):
    main = cuda.current_stream()
    y = x + 1
    raises(RuntimeError, "Stream.wait_event(): a CUDA graph captures the stream, and the event was "
           "recorded outside of a capture", event.wait)
    raises(RuntimeError, "recorded outside of a capture", main.wait_stream, other)
    never.wait()
    inside = main.record_event()
    other.wait_event(inside)
    with cuda.stream(other):
        z = y * 3
    main.wait_stream(other)
    event.record(main)
    event.wait()
    y += 1
g.replay()
assert y.tolist() == [3.0] * 3 and z.tolist() == [6.0] * 3
with cuda.graph(cuda.CUDAGraph()):
    raises(RuntimeError, "recorded in another capture", event.wait)
    event.record()
    event.wait()
event.record(other)
event.synchronize()
"""
    )


def test_copies_to_pinned_memory():
    fakes.run(
        fakes.GRAPHS
        + """
x = torch.arange(12.).reshape(3, 4).cuda()
p = torch.zeros(3, 4).pin_memory()
q = torch.zeros(4, 3, dtype=torch.float64).pin_memory().t()  # converted, in another order
def work():
    p.copy_(x * 2, non_blocking=True)
    q.copy_(x[:1] + 1, non_blocking=True)  # broadcast
def check(k):
    cuda.synchronize()
    want = torch.arange(12.).reshape(3, 4) + k
    assert torch.equal(p, want * 2) and torch.equal(q, (want[:1] + 1).double().expand(3, 4))
waits = lambda: fake.fake_cuda_calls(b"cuStreamSynchronize")
before = waits() if not os.environ.get("COGRAD_CUDA_TESTS") else 0
version = p._version
work()
assert p._version > version
if not os.environ.get("COGRAD_CUDA_TESTS"):
    assert waits() == before and p[0, 1].item() == 0  # late on the fake driver
check(0)
g, _ = captured(work)
for k in range(1, 3):
    x += 1
    g.replay()
    check(k)
# Memory with gaps or that is not pinned is copied at once, which waits.
r = torch.zeros(3, 8).pin_memory()[:, ::2]
for to in (r, torch.zeros(3, 4)):
    to.copy_(x, non_blocking=True)
    assert torch.equal(to, x.cpu())
    raises(RuntimeError, "it waits for the GPU", captured, lambda: to.copy_(x, non_blocking=True))
raises(RuntimeError, "it waits for the GPU", captured, lambda: p.copy_(x))
# The graph keeps the memory that it writes.
at = p.data_ptr()
del p
g.replay()
cuda.synchronize()
assert torch.zeros(3, 4).pin_memory().data_ptr() != at
g.reset()
cuda.synchronize()
assert torch.zeros(3, 4).pin_memory().data_ptr() == at
# So does a copy that still runs.
p = torch.zeros(3, 4).pin_memory()
p.copy_(x, non_blocking=True)
at = p.data_ptr()
del p
p = torch.zeros(3, 4).pin_memory()
assert p.data_ptr() != at and p.sum().item() == 0
# Gradients flow.
w = torch.ones(3).cuda().requires_grad_()
p = torch.zeros(3).pin_memory()
p.copy_(w * 3, non_blocking=True)
p.sum().backward()
assert w.grad.tolist() == [3.0] * 3
torch.zeros(0).pin_memory().copy_(torch.zeros(0).cuda(), non_blocking=True)
"""
    )


def test_permutations_and_draws_in_a_capture():
    fakes.run(
        fakes.GRAPHS
        + """
weights = torch.tensor([[0.1, 0.0, 0.4, 0.5], [0.0, 0.25, 0.25, 0.5]]).cuda()
chances = torch.tensor([0.0, 0.3, 1.0]).cuda()
def draw():
    return (torch.randperm(1000, device="cuda"), torch.randperm(1, device="cuda"),
            torch.randperm(0, device="cuda"), torch.multinomial(weights, 3),
            torch.multinomial(weights, 50, replacement=True), torch.bernoulli(chances),
            torch.randperm(257, device="cuda", dtype=torch.int32), torch.rand(5, device="cuda"))
torch.manual_seed(3)
eager = [[t.cpu() for t in draw()] for _ in range(3)]
torch.manual_seed(3)
draw()
g, out = captured(draw)
for want in eager[1:]:
    g.replay()
    for a, b in zip(out, want, strict=True):
        assert torch.equal(a.cpu(), b), (a, b)
assert sorted(out[0].tolist()) == list(range(1000))

# Values that the ops refuse are errors of the next call that waits.
def refused(tensor, value, text):
    before = tensor.cpu()
    tensor.copy_(value)
    g.replay()
    raises(RuntimeError, text, cuda.synchronize)
    tensor.copy_(before)
refused(chances, torch.tensor([0.0, 0.3, 1.5]), "element 2 of 3 is out of range")
refused(chances, torch.tensor([0.0, float("nan"), 1]), "element 1 of 3 is out of range")
refused(weights, torch.tensor([[0.1, 0.0, -1.0, 0.5], [1.0, 1, 1, 1]]), "2 of 8 is out of range")
refused(weights, torch.tensor([[1.0, 1, 1, 1], [0.0, 0, 1, 1]]),
        "invalid multinomial distribution: row 1 has less than 3 positive weights")
g.replay()
cuda.synchronize()
"""
    )


@pytest.mark.parametrize("drop", ["before", "after", "never"])
def test_the_end_of_a_thread_ends_its_captures(drop):
    """No other thread may end them, and an open one forbids everything that waits."""
    fakes.run(
        THREADS
        + f"""
drop = {drop!r}
held = [cuda.CUDAGraph()]
begun, go = threading.Event(), threading.Event()
def begin():
    with cuda.stream(s):
        held[0].capture_begin()
        held.append(x + 1)
    begun.set()
    go.wait()
t = threading.Thread(target=begin)
t.start()
begun.wait()
if drop == "before":
    held.clear()
    gc.collect()
go.set()
t.join()
while os.path.exists(f"/proc/self/task/{{t.native_id}}"):  # join returns before its last calls
    time.sleep(0.001)
with cuda.stream(s):
    assert not cuda.is_current_stream_capturing()
cuda.synchronize()
cuda.empty_cache()
if drop == "never":
    g = held[0]
    raises(RuntimeError, "no capture has begun", g.capture_end)
    raises(RuntimeError, "has not been captured", g.replay)
    with cuda.stream(s):
        g.capture_begin()
        y = x * 2
        g.capture_end()
        g.replay()
        assert y.tolist() == [0., 2., 4., 6.]
    del g, y
held.clear()
gc.collect()
cuda.synchronize()
z = x + 3
assert z.tolist() == [3., 4., 5., 6.]
if os.path.exists(os.environ.get("COGRAD_CUDA_DRIVER", "")):
    assert fake.fake_cuda_graphs() == 0
"""
    )
