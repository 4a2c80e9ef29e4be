# SPDX-License-Identifier: BSD-3-Clause
"""Profiles of a GPU: what is measured, whose it is, and what it costs."""

import json

import fakes
import pytest

pytestmark = pytest.mark.skipif(fakes.why_not() is not None, reason=str(fakes.why_not()))

# Each piece of work takes 0.001 ms on the fake driver, and a mark as well: a kernel between two
# events lasts 2 us.
ABOUT = """
from cograd.autograd import profiler
from cograd.profiler import ProfilerActivity, profile

def about(value, expected):
    assert abs(value - expected) < 0.05, (value, expected)

def kernels(events):
    return [e for e in events if e.kind == "kernel"]
"""


def test_kernels_belong_to_ops_nodes_and_blocks():
    fakes.run(
        ABOUT
        + """
class Triple(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 3
    @staticmethod
    def backward(ctx, g):
        return g * 3 + 0

x = torch.rand(100).cuda().requires_grad_()
with profiler.profile(use_device="cuda") as p:
    with profiler.record_function("part"):
        y = (x * 2).exp()
    y = Triple.apply(y).sum()
    y.backward()
events = p.function_events
by = {}
for e in events:
    by.setdefault((e.kind, e.name), []).append(e)
part, = by["user", "part"]
about(part.device_time_total, 4)  # mul and exp
about(part.self_device_time_total, 0)
exp, = by["op", "exp"]
assert [k.name for k in exp.kernels] == ["exp"] and exp.kernels[0].device == 0
about(exp.self_device_time_total, 2)
node, = by["node", "TripleBackward"]
about(node.self_device_time_total, 0)
about(node.device_time_total, 4)  # mul and add in its backward
assert by["node", "ExpBackward0"][0].self_device_time_total > 1
own = kernels(events)
assert all(e.device_index == 0 and e.thread == 0 and e.cpu_time_total == 0 for e in own)
assert sorted(e.start for e in events) == [e.start for e in events]
# What streams did has an owner, but for the gradient of y, and is not counted twice.
assert [e.name for e in own if not e.place] == ["fill"], own
total = sum(e.end - e.start for e in own)
about(total, 2 * len(own))
about(sum(e.self_device_time_total for e in events if e.kind != "kernel"), total - 2)
about(events.self_device_time_total, total)
averages = p.key_averages()
mul = next(a for a in averages if a.key == "mul" and a.kind == "op")
assert mul.count >= 3
about(mul.device_time, 2)
about(mul.cuda_time_total, 2 * mul.count)
text = averages.table(sort_by="cuda_time_total")
assert all(w in text for w in ("Self CUDA", "Self CUDA %", "CUDA total", "CUDA time avg")), text
assert f"Self CUDA time total: {total:.3f}us" in text, text
about(p.total_average().self_device_time_total, total)
assert p.summary().total > 0 and all(g.kind for g in events.gaps())
p.export_html(os.devnull)
# Without being asked, nothing is measured.
with profiler.profile() as q:
    x.exp()
assert not kernels(q.function_events) and "CUDA" not in q.table()
"""
    )


def test_copies_fills_streams_threads_and_the_trace(tmp_path):
    path = tmp_path / "trace.json"
    fakes.run(
        ABOUT
        + f"""
import threading
x = torch.rand(100).cuda()
s = torch.cuda.Stream()
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:
    y = torch.ones(50).cuda()
    with torch.cuda.stream(s):
        z = x.exp()
    s.synchronize()
    t = threading.Thread(target=lambda: x.cos())
    t.start(); t.join()
    y.cpu()
    x.clone()
events = p.events()
names = [(e.name, e.thread) for e in kernels(events)]
assert ("Memcpy HtoD", 0) in names and ("Memcpy DtoH", 0) in names, names
assert ("exp", 1) in names and ("cos", 0) in names and ("Memcpy DtoD", 0) in names, names
cos = next(e for e in events if e.kind == "op" and e.name == "cos")
about(cos.self_device_time_total, 2)
p.export_chrome_trace({str(path)!r})
only = profile(activities=[ProfilerActivity.CUDA])
with only:
    x.exp()
assert [e.kind for e in only.events()] == ["kernel"]
p.export_stacks(os.devnull, "self_cuda_time_total")
raises(ValueError, "self_cuda_time_total", p.export_stacks, os.devnull, "colour")
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    with profiler.profile(use_cuda=True) as old, profiler.record_function("r"):
        x.exp()
    assert profile(use_cuda=False).activities == {{ProfilerActivity.CPU}}
assert [w.category for w in caught] == [FutureWarning, FutureWarning]
assert kernels(old.function_events)
"""
    )
    trace = json.loads(path.read_text())["traceEvents"]
    tracks = {e["args"]["name"]: (e["pid"], e["tid"]) for e in trace if e["ph"] == "M"}
    assert tracks["GPU 0"] == (0, 0) and tracks["stream 1"] == (0, 1)
    by = {e["name"]: e for e in trace if e.get("cat", "").startswith(("kernel", "gpu_"))}
    assert by["exp"]["cat"] == "kernel" and (by["exp"]["pid"], by["exp"]["tid"]) == (0, 1)
    assert by["Memcpy HtoD"]["cat"] == "gpu_memcpy" and by["exp"]["args"]["started by"] == "exp"
    assert abs(by["exp"]["dur"] - 2) < 0.05


def test_graphs_are_one_launch():
    fakes.run(
        ABOUT
        + """
x = torch.rand(10).cuda()
x.exp().cos()
g = torch.cuda.CUDAGraph()
with profile() as p:
    with torch.cuda.graph(g):
        y = x.exp().cos()
    with profiler.record_function("replays"):
        g.replay()
        g.replay()
events = p.events()
names = [e.name for e in kernels(events)]
assert names.count("CUDA graph") == 2, names
assert "exp" not in names and "cos" not in names, names
block = next(e for e in events if e.name == "replays")
assert [k.name for k in block.kernels].count("CUDA graph") == 2
assert torch.allclose(y.cpu(), x.cpu().exp().cos(), atol=1e-6)
"""
    )


def test_events_are_used_again():
    fakes.run(
        ABOUT
        + """
x = torch.rand(10).cuda()
def run(n):
    with profile() as p:
        for i in range(n):
            x.exp()
            if i % 100 == 99:
                torch.cuda.synchronize()
    return len(kernels(p.events()))
x.exp()
before = fake.fake_cuda_calls(b"cuEventCreate")
assert run(3000) == 3000
made = fake.fake_cuda_calls(b"cuEventCreate") - before
assert made < 2 * 1300, made
assert run(500) == 500
assert fake.fake_cuda_calls(b"cuEventCreate") - before == made  # the first profile's are there
records = fake.fake_cuda_calls(b"cuEventRecord")
for _ in range(100):
    x.exp()
assert fake.fake_cuda_calls(b"cuEventRecord") == records
"""
    )


def test_failures_of_events_lose_no_kernel():
    fakes.run(
        ABOUT
        + """
x = torch.rand(10).cuda()
with profile() as p:
    x.exp()
    fake.fake_cuda_fail(b"cuEventRecord", 2, 700)  # the mark behind the kernel
    y = x.cos()
    fake.fake_cuda_fail(b"cuEventRecord", 1, 700)  # the mark before it
    raises(RuntimeError, "cuEventRecord of sin", x.sin)
    z = x.sin()
assert torch.allclose(y.cpu(), x.cpu().cos()) and torch.allclose(z.cpu(), x.cpu().sin())
names = [e.name for e in kernels(p.events())]
assert names.count("sin") == 1 and "cos" not in names and "exp" in names, names
pid = os.fork()
if pid == 0:
    with profile(activities=[ProfilerActivity.CPU]) as q:
        torch.ones(2).exp()
    os._exit(0 if any(e.name == "exp" for e in q.events()) else 1)
assert os.waitpid(pid, 0)[1] == 0
"""
    )


def test_a_graph_is_measured_on_its_own_gpu():
    fakes.run(
        ABOUT
        + """
with torch.cuda.device(1):
    x = torch.rand(10).cuda()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        y = x.exp()
with profile() as p:
    g.replay()  # while GPU 0 is the current one
    torch.ones(3).cuda().exp()
found, = [e for e in kernels(p.events()) if e.name == "CUDA graph"]
assert found.device_index == 1, found.device_index
about(found.end - found.start, 2)
assert torch.allclose(y.cpu(), x.cpu().exp())
""",
        FAKE_CUDA_DEVICES=2,
    )


def test_times_of_several_gpus_are_read_in_their_contexts():
    fakes.run(
        ABOUT
        + """
x = [torch.rand(10).to(f"cuda:{i}") for i in range(2)]
with profile() as p:
    for _ in range(3):
        for t in x:
            t.exp()
found = [e for e in kernels(p.events()) if e.name == "exp"]
assert sorted(e.device_index for e in found) == [0, 0, 0, 1, 1, 1]
""",
        FAKE_CUDA_DEVICES=2,
    )


def test_a_failed_gpu_keeps_the_cpus_events():
    fakes.run(
        ABOUT
        + """
x, c = torch.rand(10).cuda(), torch.rand(10)
def run(p):
    with p:
        x.exp()
        c.sin()
        fake.fake_cuda_fail(b"cuCtxGetCurrent", -2, 700)
p = profiler.profile(use_device="cuda")
raises(RuntimeError, "cuCtxGetCurrent", run, p)
fake.fake_cuda_fail(b"cuCtxGetCurrent", 1 << 40, 0)
names = [e.name for e in p.function_events]
assert "exp" in names and "sin" in names, names
with profiler.profile(use_device="cuda") as q:
    x.cos()
assert any(e.name == "cos" for e in kernels(q.function_events))
""",
        FAKE_CUDA_DEVICES=2,
    )


def test_a_failure_between_two_events_loses_none():
    fakes.run(
        ABOUT
        + """
x = torch.rand(10).cuda()
x.exp(), x.sin()
with profile() as p:
    x.exp()
    made = fake.fake_cuda_calls(b"cuEventCreate")
    fake.fake_cuda_fail(b"cuEventCreate", 2, 700)
    raises(RuntimeError, "cuEventCreate", x.sin)
    y = x.sin()
    # The first event of the failed measurement was used again.
    assert fake.fake_cuda_calls(b"cuEventCreate") == made + 3
assert [e.name for e in kernels(p.events())].count("sin") == 1
"""
    )
