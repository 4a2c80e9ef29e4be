# SPDX-License-Identifier: BSD-3-Clause
"""Modules, optimizers, pinned memory and mixed precision on a GPU, on the fake driver."""

import fakes
import pytest

pytestmark = pytest.mark.skipif(fakes.why_not() is not None, reason=str(fakes.why_not()))


def test_modules_move_in_place():
    fakes.run(
        """
m = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
parameters = list(m.parameters())
m(torch.ones(4, 2)).sum().backward()
assert m.cuda() is m
assert all(p is q for p, q in zip(parameters, m.parameters()))  # optimizers hold them
assert all(t.is_cuda for t in (*m.parameters(), *m.buffers())) and parameters[0].grad.is_cuda
assert m.to("cuda:0") is m and m.cpu() is m
assert not any(t.is_cuda for t in (*m.parameters(), *m.buffers(), parameters[0].grad))
m.to(torch.device("cuda", 0), torch.float64)
assert parameters[0].is_cuda and parameters[0].dtype == torch.float64
assert m[1].num_batches_tracked.is_cuda and m[1].num_batches_tracked.dtype == torch.int64
m.to(torch.ones(1))
assert not parameters[0].is_cuda and parameters[0].dtype == torch.float32
# A state_dict of one device is loaded into a module on another one.
there = torch.nn.Linear(2, 3).cuda()
there.load_state_dict(m[0].state_dict())
assert there.weight.is_cuda and torch.equal(there.weight.cpu(), m[0].weight)
m[0].load_state_dict({k: v + 1 for k, v in there.state_dict().items()})
assert not m[0].weight.is_cuda and torch.equal(m[0].weight, there.weight.cpu() + 1)
vector = torch.nn.utils.parameters_to_vector(there.parameters())
assert vector.is_cuda and vector.numel() == 9
torch.nn.utils.vector_to_parameters(vector * 0, there.parameters())
assert there.weight.abs().sum().item() == 0
with torch.device("cuda"):
    assert torch.nn.Linear(2, 2).weight.is_cuda
lazy = torch.nn.LazyLinear(2).cuda()
assert lazy(torch.ones(3, 4).cuda()).is_cuda
"""
    )


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop"])
def test_training_gives_the_cpus_numbers(name):
    fakes.run(
        f"""
def train(device):
    torch.manual_seed(1)
    m = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    m.to(device)
    x = torch.arange(12.).reshape(4, 3).to(device) / 10
    options = {{"momentum": 0.9}} if {name!r} == "SGD" else {{}}
    o = torch.optim.{name}(m.parameters(), lr=0.05, **options)
    norms = []
    for _ in range(3):
        o.zero_grad()
        torch.nn.functional.mse_loss(m(x), x.sum(1, keepdim=True)).backward()
        norms.append(torch.nn.utils.clip_grad_norm_(m.parameters(), 0.5).cpu())
        o.step()
    return m, o, norms
a, _, n = train("cpu")
b, o, k = train("cuda")
for p, q in zip(a.parameters(), b.parameters()):
    torch.testing.assert_close(q.cpu(), p)
torch.testing.assert_close(n, k)
for state in o.state.values():
    for key, value in state.items():
        assert key == "step" or value is None or value.is_cuda, key
# The state follows the parameters when it is loaded.
saved = o.state_dict()
o.load_state_dict({{**saved, "state": {{i: {{k: v.cpu() if isinstance(v, torch.Tensor) else v
                   for k, v in s.items()}} for i, s in saved["state"].items()}}}})
for state in o.state.values():
    for key, value in state.items():
        assert key == "step" or value is None or value.is_cuda, key
b(torch.ones(2, 3).cuda()).sum().backward()
o.step()
"""
    )


def test_pinned_memory():
    fakes.run(
        """
x = torch.arange(12.).reshape(3, 4)
assert not x.is_pinned()
p = x.pin_memory()
assert p.is_pinned() and p.pin_memory() is p and torch.equal(p, x) and p.device.type == "cpu"
assert x.T.pin_memory().stride() == (1, 4) and torch.equal(x[:, ::2].pin_memory(), x[:, ::2])
assert p[1:].is_pinned() and not p.clone().is_pinned() and torch.ones(0).pin_memory().numel() == 0
for made in (torch.ones(3, pin_memory=True), torch.tensor([1., 1, 1], pin_memory=True),
             torch.full((3,), 1., pin_memory=True, requires_grad=True)):
    assert made.is_pinned() and made.tolist() == [1, 1, 1] and made.is_leaf
assert made.requires_grad
raises(RuntimeError, "cannot pin", x.cuda().pin_memory)
y = x.clone().requires_grad_().pin_memory()
assert y.is_pinned() and y.grad_fn is not None
at = p.data_ptr()
del p
again = x.pin_memory()
assert again.data_ptr() == at  # it came from the cache
"""
    )


def test_copies_from_pinned_memory_do_not_wait():
    fakes.run(
        """
waits = lambda: fake.fake_cuda_calls(b"cuStreamSynchronize")
p = torch.arange(1000.).pin_memory()
before = waits()
y = p.to("cuda", non_blocking=True)
z = torch.empty(1000, device="cuda").copy_(p, non_blocking=True)
w = p.cuda(non_blocking=True)
assert waits() == before
at = p.data_ptr()
del p
q = torch.zeros(1000).pin_memory()  # the fake driver has not copied yet: not the same memory
assert q.data_ptr() != at
assert y.tolist() == z.tolist() == w.tolist() == list(range(1000))
torch.cuda.synchronize()
del q
# Pageable memory is copied before the call returns.
x = torch.ones(4)
before = waits()
y = x.to("cuda", non_blocking=True)
assert waits() > before
x.zero_()
assert y.tolist() == [1.0] * 4
pinned = torch.ones(4).pin_memory()
y = pinned.to("cuda")  # non_blocking is False
pinned.zero_()
assert y.tolist() == [1.0] * 4
"""
    )


def test_failures_of_pinned_memory():
    fakes.run(
        """
fake.fake_cuda_fail(b"cuMemHostAlloc", 1, 2)
x = torch.ones(4).pin_memory()  # it is tried again
assert x.is_pinned()
fake.fake_cuda_fail(b"cuMemcpyHtoDAsync_v2", 1, 700)
raises(RuntimeError, "cuMemcpyHtoDAsync", x.to, "cuda", non_blocking=True)
fake.fake_cuda_fail(b"cuEventRecord", 1, 700)
raises(RuntimeError, "cuEventRecord", x.to, "cuda", non_blocking=True)
assert x.to("cuda", non_blocking=True).tolist() == [1.0] * 4
torch.cuda.synchronize()
del x
torch.cuda.empty_cache()
assert fake.fake_cuda_calls(b"cuMemFreeHost") >= 1
"""
    )


def test_the_loader_pins_its_batches():
    fakes.run(
        """
from collections import namedtuple
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.arange(6.), torch.arange(6))
for workers in (0, 1):
    for a, b in DataLoader(data, batch_size=3, pin_memory=True, num_workers=workers):
        assert a.is_pinned() and b.is_pinned() and not DataLoader(data).pin_memory
Pair = namedtuple("Pair", "x y")
class Mine:
    def __init__(self, x): self.x = x
    def pin_memory(self): return Mine(self.x.pin_memory())
from torch.utils.data._utils.pin_memory import pin_memory
got = pin_memory({"p": Pair(torch.ones(1), 3), "l": [torch.ones(2), "text"],
                  "m": Mine(torch.ones(1))})
assert type(got["p"]) is Pair and got["p"].x.is_pinned() and got["p"].y == 3
assert got["l"][0].is_pinned() and got["l"][1] == "text" and got["m"].x.is_pinned()
there = torch.ones(1).cuda()
assert pin_memory(there) is there
""".replace("from torch.", "from cograd.")
    )


def test_autocast_casts_on_the_gpu():
    fakes.run(
        """
import warnings
warnings.simplefilter("error")
F = torch.nn.functional
a, b = torch.ones(2, 2).cuda(), torch.ones(2, 2)
with torch.autocast("cuda"):
    assert (a @ a).dtype == torch.float16 and (b @ b).dtype == torch.float32
    assert torch.is_autocast_enabled() and torch.get_autocast_gpu_dtype() == torch.float16
    half = a @ a
    for op in (torch.exp, torch.log, torch.rsqrt, lambda x: x.pow(2), lambda x: x.softmax(0),
               lambda x: x.sum(), lambda x: x.cumsum(0), lambda x: F.layer_norm(x, (2,)),
               lambda x: F.mse_loss(x, x),
               lambda x: F.cross_entropy(x, torch.tensor([0, 1]).cuda())):
        assert op(half).dtype == torch.float32, op
    assert torch.relu(half).dtype == torch.float16 and (half + a).dtype == torch.float32
    assert half.sum(dtype=torch.float16).dtype == torch.float16
    assert torch.dot(half[0], a[0]).dtype == torch.float32
    assert torch.dot(half[0], half[0]).dtype == torch.float16
    assert (a.double() @ a.double()).dtype == torch.float64
    with torch.autocast("cuda", enabled=False):
        assert (a @ a).dtype == torch.float32
    with torch.autocast("cuda", torch.bfloat16):
        assert (a @ a).dtype == torch.bfloat16
    with torch.autocast("cpu"):
        assert (b @ b).dtype == torch.bfloat16 and (a @ a).dtype == torch.float16
    assert (a @ a).dtype == torch.float16 and (b @ b).dtype == torch.float32
assert (a @ a).dtype == torch.float32 and not torch.is_autocast_enabled()
with torch.autocast("cpu"):
    assert (a @ a).dtype == torch.float32 and (b @ b).dtype == torch.bfloat16
with torch.cuda.amp.autocast():
    assert (a @ a).dtype == torch.float16
w = torch.nn.Parameter(a.clone())
with torch.autocast("cuda"):
    y = (w @ a).sum()
y.backward()
assert w.grad.dtype == torch.float32 and w.grad.is_cuda
assert torch.amp.is_autocast_available("cuda")
warnings.simplefilter("default")
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    with torch.autocast("cuda", torch.float32):
        assert (a @ a).dtype == torch.float32
assert "In CUDA autocast" in str(seen[0].message)
"""
    )


def test_a_grad_scaler_skips_steps_that_overflow():
    fakes.run(
        """
p = torch.nn.Parameter(torch.ones(2).cuda())
o = torch.optim.SGD([p], lr=0.5)
scaler = torch.amp.GradScaler("cuda", init_scale=8.0, growth_interval=1)
assert scaler.is_enabled()
scaler.scale(p.sum()).backward()
assert p.grad.tolist() == [8, 8]
scaler.step(o); scaler.update()
assert p.tolist() == [0.5, 0.5] and scaler.get_scale() == 16
p.grad = torch.tensor([1.0, float("inf")]).cuda()
scaler.step(o); scaler.update()
assert p.tolist() == [0.5, 0.5] and scaler.get_scale() == 8
assert torch.cuda.amp.GradScaler().is_enabled()
other = torch.amp.GradScaler("cuda")
other.load_state_dict(scaler.state_dict())
assert other.get_scale() == 8
"""
    )


def test_checkpoints_repeat_the_gpus_random_numbers():
    fakes.run(
        """
from cograd.utils.checkpoint import checkpoint, get_device_states, set_device_states
x = torch.ones(50).cuda().requires_grad_()
for reentrant in (False, True):
    masks = []
    def run(x):
        y = torch.nn.functional.dropout(x, 0.5)
        masks.append(y.detach().tolist())
        return y * y
    torch.manual_seed(3)
    checkpoint(run, x, use_reentrant=reentrant).sum().backward()
    assert masks[0] == masks[1] and 0 in masks[0]
    assert x.grad.tolist() == [2 * 2 * m for m in masks[0]]
    x.grad = None
indices, states = get_device_states(x, {"a": [x]})
assert indices == [0]
torch.cuda.manual_seed(9)
changed = torch.cuda.get_rng_state()
assert not torch.equal(changed, states[0])
with torch.random.fork_rng():
    set_device_states(indices, states)
    assert torch.equal(torch.cuda.get_rng_state(), states[0])
assert torch.equal(torch.cuda.get_rng_state(), changed)
with torch.autograd.graph.save_on_cpu(pin_memory=True):
    y = (x * x).sum()
y.backward()
assert x.grad.tolist() == [2.0] * 50
with torch.autocast("cuda"):
    dtypes = []
    z = checkpoint(lambda t: (dtypes.append((t @ t.T).dtype), t @ t.T)[1],
                   torch.ones(2, 2).cuda().requires_grad_(), use_reentrant=False)
z.sum().backward()
assert dtypes == [torch.float16] * 2
"""
    )


def test_names_of_torch():
    fakes.run(
        """
assert torch.accelerator.is_available() and torch.accelerator.device_count() == 1
assert torch.accelerator.current_accelerator() == torch.device("cuda")
assert torch.accelerator.current_device_index() == 0
with torch.accelerator.device_index(0):
    torch.accelerator.synchronize()
assert torch.get_device_module() is torch.cuda or torch.get_device_module("cuda") is torch.cuda
assert torch.cuda.nvtx.range_push("a") is not None and torch.cuda.nvtx.range_pop() is not None
torch.cuda.nvtx.mark("b")
with torch.cuda.nvtx.range("step {}", 3):
    pass
torch.cuda.nvtx.range_end(torch.cuda.nvtx.range_start("c"))
assert torch.cuda.graphs.CUDAGraph is torch.cuda.CUDAGraph
assert not torch.cuda.is_current_stream_capturing()
"""
    )


def test_doctor_names_the_libraries():
    import json
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-m", "cograd", "doctor", "--json"],
        env=fakes.environment(),
        capture_output=True,
        text=True,
    )
    found = {f["what"]: (f["status"], f["text"]) for f in json.loads(done.stdout)}
    assert "for CUDA 13.0" in found["NVIDIA driver"][1] and "driver.so" in found["NVIDIA driver"][1]
    assert found["NVRTC"][0] == "ok" and "nvrtc.so" in found["NVRTC"][1]
    assert found["cuBLASLt"][0] == "note" and "cograd[cuda]" in found["cuBLASLt"][1]
    assert found["cuda:0"] == ("ok", "Fake GPU, capability 9.0, 1.0 GiB")
    assert "GPU" in found
    none = fakes.environment(COGRAD_NVRTC="/nowhere/libnvrtc.so")
    done = subprocess.run(
        [sys.executable, "-m", "cograd", "doctor", "--json"],
        env=none,
        capture_output=True,
        text=True,
    )
    found = {f["what"]: (f["status"], f["text"]) for f in json.loads(done.stdout)}
    assert found["NVRTC"][0] == "FAIL" and "pip install 'cograd[cuda]'" in found["NVRTC"][1]


DATA_PARALLEL = """
def model():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2), torch.nn.Tanh())

x = torch.arange(15.0).reshape(5, 3) / 10
alone = model().eval()
want = alone(x)
(want**2).sum().backward()
"""


def test_data_parallel_divides_batches_among_gpus():
    fakes.run(
        DATA_PARALLEL
        + """
m = model().eval().cuda()
for both, first in ((torch.nn.DataParallel(m), 0), (torch.nn.DataParallel(m, [0, 1], 1), 1)):
    assert both.device_ids == [0, 1] and both.output_device.index == first
    seen = []
    handle = m[0].register_forward_hook(lambda m, i, o: seen.append((o.device.index, len(o))))
    y = both(x.cuda())
    handle.remove()
    assert seen == [(0, 3), (1, 2)] and y.device.index == first
    assert torch.allclose(y.cpu(), want)
    m.zero_grad()
    (y**2).sum().backward()
    for p, q in zip(m.parameters(), alone.parameters()):
        assert p.grad.device.index == 0 and torch.allclose(p.grad.cpu(), q.grad)
assert torch.nn.DataParallel(m, [0])(x.cuda()).device.index == 0
one = torch.nn.parallel.data_parallel(m, x[:1].cuda(), [0, 1])
assert torch.allclose(one.cpu(), want[:1])
assert torch.nn.DataParallel(alone).device_ids == []
raises(RuntimeError, "'0.weight'); call module.to('cuda:1')", torch.nn.DataParallel(m, [1, 0]), x)
raises(RuntimeError, "cannot use the device 5", torch.nn.DataParallel, m, [5])
raises(RuntimeError, "names the CPU beside GPUs", torch.nn.DataParallel, m, ["cpu", 0])
""",
        FAKE_CUDA_DEVICES=2,
    )


def test_futures_take_gpus():
    fakes.run(
        """
f = torch.futures.Future(devices=[0, "cuda:0", "cpu"])
twice = f.then(lambda f: f.value() * 2)
f.set_result(torch.ones(2).cuda())
assert twice.wait().cpu().tolist() == [2, 2] and torch.futures.collect_all([f]).wait() == [f]
raises(ValueError, "devices names 'cuda:7', which cannot be used", torch.futures.Future,
       devices=["cuda:7"])
"""
    )
