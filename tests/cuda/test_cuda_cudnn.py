# SPDX-License-Identifier: BSD-3-Clause
"""Convolutions on a GPU by cuDNN: on the fake driver, by a fake that computes plain sums."""

import os
import sys
from pathlib import Path

import fakes
import pytest

needs_fake = pytest.mark.skipif(fakes.why_not() is not None, reason=str(fakes.why_not()))
why = None if fakes.REAL else fakes.why_not()
pytestmark = pytest.mark.skipif(why is not None, reason=str(why))

START = """
import functools
F = torch.nn.functional
cudnn = torch.backends.cudnn
torch.cuda.set_fallback("error")
torch.manual_seed(1)
PASSES = (b"cudnnConvolutionForward", b"cudnnConvolutionBackwardData",
          b"cudnnConvolutionBackwardFilter")
FAKED = "fake" in globals()
if FAKED and os.path.exists(os.environ["COGRAD_CUDNN"]):
    lib = ctypes.CDLL(os.environ["COGRAD_CUDNN"])

def passes():
    return [fake.fake_cuda_launches(p) for p in PASSES] if FAKED else [0, 0, 0]

def columns():
    return fake.fake_cuda_launches(b"im2col") + fake.fake_cuda_launches(b"col2im") if FAKED else 0

def there(x):
    # A copy on the GPU with the same strides and offset.
    flat = x.detach().as_strided((x.untyped_storage().nbytes() // x.itemsize,), (1,), 0)
    return torch.as_strided(flat.cuda(), x.shape, x.stride(), x.storage_offset())

ROUGH = {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 3e-3, torch.bfloat16: 3e-2}

def close(found, expected):
    assert found.is_cuda and found.dtype == expected.dtype and found.shape == expected.shape
    assert found.is_contiguous() or not expected.is_contiguous()
    rough = ROUGH[expected.dtype]
    scale = max(1.0, expected.detach().double().abs().max().item()) if expected.numel() else 1.0
    torch.testing.assert_close(found.detach().cpu(), expected.detach(), rtol=rough,
                               atol=rough * scale)

def results(f, tensors):
    # The value, gradients, and gradients of a function of these.
    given = [t.requires_grad_() for t in tensors]
    y = f(*given)
    weights = torch.arange(y.numel(), dtype=torch.float64).cos().reshape(y.shape)
    weights = weights.to(y.dtype).to(y.device)
    first = torch.autograd.grad(y, given, weights, create_graph=True)
    curved = [g for g in first if g.requires_grad]  # not the bias's
    second = torch.autograd.grad(curved, given[:2], [g.detach().cos() for g in curved])
    return y, *first, *second

def same(f, *tensors, by_cudnn=True):
    mine, before = [there(t) for t in tensors], (passes(), columns())
    found = results(f, mine)
    if FAKED and by_cudnn is not None:
        added = [b - a for a, b in zip(before[0], passes())]
        assert all(n > 0 for n in added) if by_cudnn else added == [0, 0, 0], added
        assert (columns() == before[1]) == by_cudnn
    for a, b in zip(found, results(f, [t.detach() for t in tensors])):
        close(a, b)
    for a, b in zip(mine, tensors):
        assert torch.equal(a.detach().cpu(), b.detach()), "an operand was written"

def conv(n, x, w, b=None, **options):
    return getattr(F, f"conv{n}d")(x, w, b, **options)
cudnn.allow_tf32 = False
"""


def run(program, **variables):
    if not fakes.REAL:
        variables.setdefault("COGRAD_CUDNN", fakes.folder() / "cudnn.so")
    return fakes.run(START + program, **variables)


VALUES = {
    "one dim": """
for dtype in (torch.float32, torch.float64):
    for options in ({}, {"stride": 2}, {"padding": 3}, {"dilation": 2}, {"groups": 2},
                    {"stride": 3, "padding": 2, "dilation": 2, "groups": 4}, {"padding": "same"}):
        groups = options.get("groups", 1)
        x, w = torch.randn(3, 4, 11, dtype=dtype), torch.randn(8, 4 // groups, 3, dtype=dtype)
        same(lambda *t: conv(1, *t, **options), x, w, torch.randn(8, dtype=dtype))
        same(lambda *t: conv(1, *t, **options), x, w)
same(lambda *t: conv(1, *t), torch.randn(4, 7), torch.randn(2, 4, 1), torch.randn(2))
same(lambda *t: F.conv1d(*t, dilation=1 << 40), torch.randn(1, 4, 7), torch.randn(2, 4, 1))
""",
    "two dims": """
for dtype in (torch.float32, torch.float64):
    for options in ({}, {"stride": (2, 1)}, {"padding": (0, 2)}, {"dilation": (1, 2)},
                    {"groups": 2}, {"groups": 4}, {"padding": "same"},
                    {"stride": 2, "padding": 2, "dilation": (2, 1), "groups": 2}):
        groups = options.get("groups", 1)
        x, w = torch.randn(2, 4, 7, 6, dtype=dtype), torch.randn(4, 4 // groups, 3, 2, dtype=dtype)
        same(lambda *t: conv(2, *t, **options), x, w, torch.randn(4, dtype=dtype))
same(lambda *t: conv(2, *t, padding=5), torch.randn(1, 1, 1, 1), torch.randn(1, 1, 3, 3))
same(lambda *t: conv(2, *t), torch.randn(2, 3, 5, 5), torch.randn(4, 3, 5, 5))
""",
    "three dims": """
for options in ({}, {"stride": (2, 1, 2)}, {"padding": (1, 0, 2)}, {"dilation": (2, 1, 1)},
                {"groups": 2}, {"stride": 2, "padding": 1, "groups": 4}):
    groups = options.get("groups", 1)
    x, w = torch.randn(2, 4, 4, 5, 3), torch.randn(4, 4 // groups, 2, 3, 2)
    same(lambda *t: conv(3, *t, **options), x, w, torch.randn(4))
flat = torch.randn(2, 3, 1, 5, 4, dtype=torch.float64)  # has two dims for cuDNN
same(lambda *t: conv(3, *t), flat, torch.randn(2, 3, 1, 2, 3, dtype=torch.float64))
same(lambda *t: conv(3, *t, padding=(1, 0, 0)), flat, torch.randn(2, 3, 1, 2, 3).double())
""",
    "transposed": """
for options in ({}, {"stride": 2}, {"stride": 3, "output_padding": 2}, {"padding": 1},
                {"dilation": 2, "stride": 2}, {"groups": 2, "stride": 2, "output_padding": 1}):
    groups = options.get("groups", 1)
    for n, sizes in ((1, (5,)), (2, (4, 3)), (3, (2, 3, 2))):
        f = getattr(F, f"conv_transpose{n}d")
        x = torch.randn(2, 4, *sizes, dtype=torch.float64)
        w = torch.randn(4, 3, *(3 for _ in sizes), dtype=torch.float64)
        same(lambda *t: f(*t, **options), x, w, torch.randn(3 * groups, dtype=torch.float64))
# The output has positions that no convolution of it reaches.
odd = functools.partial(F.conv_transpose1d, output_padding=1, dilation=2)
x, w, before = torch.randn(1, 2, 3), torch.randn(2, 2, 2), passes()
close(odd(x.cuda(), w.cuda()), odd(x, w))
assert passes() == before
same(odd, x, w, by_cudnn=None)
""",
    "16 bits": """
for dtype in (torch.float16, torch.bfloat16):
    x, w, b = (torch.randn(s).to(dtype) for s in ((2, 4, 6, 5), (6, 2, 3, 3), (6,)))
    same(lambda *t: conv(2, *t, groups=2, padding=1), x, w, b)
    same(lambda *t: conv(1, *t), x[0], w[:, :2, 0].repeat(1, 3, 1), b)
    same(lambda *t: F.conv_transpose2d(*t, stride=2), x, torch.randn(4, 3, 2, 2).to(dtype), b[:3])
    # The fake does not support these.
    x, w = torch.randn(2, 4, 3, 3, 3).to(dtype), torch.randn(6, 2, 2, 2, 2).to(dtype)
    same(lambda *t: conv(3, *t, groups=2), x, w, b, by_cudnn=False)
""",
    "strides": """
for dtype in (torch.float32, torch.float64, torch.float16):
    x, w = torch.randn(4, 6, 5, 7).to(dtype), torch.randn(6, 6, 3, 3).to(dtype)
    views = (x.to(memory_format=torch.channels_last), x.transpose(2, 3),
             x.transpose(0, 1)[:, :, :3], x[1:], x[:, :, 1:, ::2], x[:1].expand(3, 6, 5, 7),
             x[..., :1].expand(4, 6, 5, 4), x[2])
    for v in views:
        kernel = w[:, :v.size(-3)]
        same(lambda *t: conv(2, *t, padding=1), v, kernel)
        same(lambda *t: conv(2, *t, padding=1), v, kernel.transpose(2, 3), w[0, 0, 0, :1].expand(6))
    odd = torch.randn(3, 1, 5, 5).to(dtype)  # its second image is not aligned
    same(lambda *t: conv(2, *t), odd[1:], torch.randn(3, 1, 3, 3).to(dtype)[1:])
    same(lambda *t: F.conv_transpose2d(*t), odd[1:], torch.randn(3, 1, 3, 3).to(dtype)[2:])
""",
    "no elements": """
def empty(f, x, w, b=None):
    mine = [t.cuda().requires_grad_() for t in (x, w, b) if t is not None]
    given = [t.clone().requires_grad_() for t in (x, w, b) if t is not None]
    y, expected = f(*mine), f(*given)
    close(y, expected)
    grads = [torch.autograd.grad(r.sum(), t) for r, t in ((y, mine), (expected, given))]
    for a, b in zip(*grads):
        close(a, b)
before = passes()
empty(lambda *t: conv(2, *t), torch.randn(0, 3, 5, 5), torch.randn(2, 3, 3, 3), torch.randn(2))
empty(lambda *t: conv(1, *t), torch.randn(2, 0, 5), torch.randn(2, 0, 3), torch.randn(2))
empty(lambda *t: conv(1, *t), torch.randn(0, 2, 5).half(), torch.randn(2, 2, 3).half())
empty(lambda *t: conv(1, *t, padding=2), torch.randn(2, 2, 0), torch.randn(2, 2, 3))
empty(lambda *t: F.conv_transpose1d(*t), torch.randn(0, 2, 5), torch.randn(2, 3, 3))
assert passes() == before
""",
    "other dtypes": """
for dtype in (torch.int32, torch.int64, torch.complex64, torch.complex128):
    x, w = (torch.randn(s).mul(5).to(dtype) for s in ((2, 3, 5, 5), (2, 3, 3, 3)))
    before = passes()
    torch.testing.assert_close(conv(2, x.cuda(), w.cuda()).cpu(), conv(2, x, w), rtol=1e-5,
                               atol=1e-4)
    assert passes() == before
""",
    "transforms": """
x, w, b = torch.randn(2, 4, 6, 6), torch.randn(4, 4, 3, 3), torch.randn(4)
def all_of(f, *t):
    before = passes()
    close(f(*(v.cuda() for v in t)), f(*t))
    assert not FAKED or passes() != before
all_of(torch.vmap(lambda v: conv(2, v, w.to(v.device))), torch.stack([x, x + 1]))
all_of(torch.vmap(lambda k: conv(2, x.to(k.device), k)), torch.stack([w, w + 1, w - 1]))
all_of(torch.vmap(lambda v, k: conv(2, v, k)), torch.stack([x, x + 1]), torch.stack([w, -w]))
def tangent(*t):
    return torch.func.jvp(lambda *u: conv(2, *u), t, tuple(v.cos() for v in t))[1]
all_of(tangent, x, w, b)
all_of(torch.func.grad(lambda k, v: conv(2, v, k).cos().sum()), w, x)
all_of(torch.vmap(torch.func.grad(lambda k, v: conv(2, v, k).cos().sum()), (None, 0)), w, x)
from cograd.utils.checkpoint import checkpoint
def kept(v, k):
    v = v.detach().requires_grad_()
    y = checkpoint(lambda u: conv(2, conv(2, u, k), k), v, use_reentrant=False)
    return torch.autograd.grad(y.square().sum(), v)[0]
all_of(kept, x, w)
with torch.no_grad():
    all_of(lambda v, k: conv(2, v, k), x, w)
v, k = x.cuda().requires_grad_(), w.cuda().requires_grad_()
with torch.autocast("cuda", dtype=torch.bfloat16):
    y = conv(2, v, k)
assert y.dtype == torch.bfloat16
y.float().sum().backward()
assert v.grad.dtype == torch.float32
torch.testing.assert_close(y.float().cpu(), conv(2, x, w), rtol=5e-2, atol=0.2)
same(lambda t, k: conv(2, conv(2, t, k) + t[:, :, 1:-1, 1:-1], k), x.double(), w.double())
""",
    "modules": """
net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8),
                          torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3, stride=2, groups=4),
                          torch.nn.ConvTranspose2d(8, 2, 2, stride=2)).double()
x = torch.randn(4, 3, 9, 9, dtype=torch.float64)
import copy
twin = copy.deepcopy(net).cuda()
before = passes()
for model, at in ((net, "cpu"), (twin, "cuda")):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(x.to(at)).square().mean().backward()
        optimizer.step()
assert not FAKED or all(b > a for a, b in zip(before, passes()))
for a, b in zip(net.parameters(), twin.parameters()):
    torch.testing.assert_close(b.detach().cpu(), a.detach(), rtol=1e-10, atol=1e-10)
""",
}


@pytest.mark.parametrize("case", VALUES)
def test_values_and_gradients_are_the_cpus(case):
    run(VALUES[case])


@needs_fake
def test_without_cudnn_values_are_the_same():
    for case in ("two dims", "16 bits", "transposed"):
        text = VALUES[case].replace(", by_cudnn=False", "").replace(", by_cudnn=None", "")
        text = text.replace("same(", "same_by_columns(")
        run(
            "def same_by_columns(*args):\n    same(*args, by_cudnn=False)\n" + text,
            COGRAD_CUDNN="none",
        )


# The fake's algorithms, in the order of its choices: 5 needs too much memory, 4 takes kernels of 3
# points, 1 is slow, 3 is better, 2 is the best but does not repeat, 0 needs no workspace.
ALGORITHMS = """
def runs(which=0):
    return [lib.fake_cudnn_runs(which, i) for i in range(6)]
def added(f, which=0):
    before = runs(which)
    f()
    return {i: b - a for i, (a, b) in enumerate(zip(before, runs(which))) if a != b}
x = torch.randn(2, 4, 12, 12, device="cuda")
def conv_of(k, x=x):
    w = torch.randn(4, 4, k, k, device="cuda")
    return lambda: conv(2, x, w)
"""


@needs_fake
def test_the_first_algorithm_that_works_is_used():
    run(
        ALGORITHMS
        + """
three, five = conv_of(3), conv_of(5)
assert added(three) == {4: 1} and added(five) == {1: 1}
calls = fake.fake_cuda_calls(PASSES[0])
five()
assert fake.fake_cuda_calls(PASSES[0]) == calls + 1  # number 4 is not tried again
w = torch.randn(4, 4, 5, 5, device="cuda", requires_grad=True)
for which in (1, 2):
    v = x.clone().requires_grad_()
    assert added(lambda: conv(2, v, w).sum().backward(), which) == {1: 1}
# Kernels of more than 7 points have no algorithm.
before, others = passes(), columns()
found = conv_of(9)()
assert passes() == before and columns() > others
"""
    )


@needs_fake
def test_deterministic_algorithms():
    run(
        ALGORITHMS
        + """
cudnn.benchmark = True
assert added(conv_of(5)) == {0: 4, 1: 4, 2: 5, 3: 4}
with cudnn.flags(enabled=True, benchmark=True, deterministic=True, allow_tf32=False):
    assert added(conv_of(5)) == {0: 4, 1: 4, 3: 5}
assert added(conv_of(5)) == {2: 1}
torch.use_deterministic_algorithms(True)
assert added(conv_of(5)) == {3: 1}
torch.set_deterministic_debug_mode("warn")
assert added(conv_of(5)) == {3: 1}
torch.set_deterministic_debug_mode(0)
assert added(conv_of(5)) == {2: 1}
cudnn.deterministic = True
assert added(conv_of(5)) == {3: 1}
"""
    )


@needs_fake
def test_benchmark_measures_once():
    run(
        ALGORITHMS
        + """
five = conv_of(5)
assert added(five) == {1: 1}
expected = five()
cudnn.benchmark = True
found = []
assert added(lambda: found.append(five())) == {0: 4, 1: 4, 2: 5, 3: 4}
torch.testing.assert_close(found[0].cpu(), expected.cpu())
assert added(five) == {2: 1}
cudnn.benchmark = False
assert added(five) == {2: 1}  # what is known is used
with cudnn.flags(enabled=True, benchmark=True, benchmark_limit=2, allow_tf32=False):
    assert added(conv_of(5, x[:1])) == {1: 4, 3: 5}
    assert added(conv_of(5, x[:1])) == {3: 1}
with cudnn.flags(enabled=True, benchmark=True, benchmark_limit=0, allow_tf32=False):
    assert added(conv_of(3, x[:1])) == {0: 4, 1: 4, 2: 5, 3: 4, 4: 4}
with cudnn.flags(enabled=True, benchmark=True, allow_tf32=False):
    w = torch.randn(4, 4, 5, 5, device="cuda", requires_grad=True)
    v = x.clone().requires_grad_()
    for which in (1, 2):
        assert added(lambda: conv(2, v, w).sum().backward(), which)[2] == (5 if which == 1 else 1)
# It waits for the GPU, as cuda.set_sync_debug_mode tells.
cudnn.benchmark = True
torch.cuda.set_sync_debug_mode("error")
raises(RuntimeError, "conv2d(): it waits for the GPU", conv_of(4))
torch.cuda.set_sync_debug_mode("default")
assert added(conv_of(4))[2] == 5
# Events and workspaces are gone.
torch.cuda.synchronize()
memory = torch.cuda.memory_allocated()
y = conv_of(6)()
del y
assert torch.cuda.memory_allocated() == memory
"""
    )


@needs_fake
def test_tf32():
    run(
        ALGORITHMS
        + """
x, w = torch.randn(2, 4, 9, 9), torch.randn(4, 4, 5, 5)
exact = conv(2, x, w)
def distance(dtype=torch.float32):
    found = conv(2, x.cuda().to(dtype), w.cuda().to(dtype)).cpu()
    return ((found - exact).abs().max() / exact.abs().max()).item()
def is_tf32():
    d = distance()
    assert d < 1e-6 or 1e-5 < d < 1e-2, d
    return d > 1e-5
assert not is_tf32() and lib.fake_cudnn_math(0, 1) == 3
cudnn.allow_tf32 = True
assert is_tf32() and lib.fake_cudnn_math(0, 1) == 1
assert distance(torch.float64) < 1e-6
assert cudnn.conv.fp32_precision == "tf32"
cudnn.conv.fp32_precision = "ieee"
assert not is_tf32() and not cudnn.allow_tf32
cudnn.fp32_precision = "tf32"
assert not is_tf32()
cudnn.conv.fp32_precision = "none"
assert is_tf32()
cudnn.fp32_precision = "none"
assert not is_tf32()
with cudnn.flags(enabled=True):  # allow_tf32=True
    assert is_tf32()
assert not is_tf32()
"""
    )


def test_torchs_defaults():
    run(
        """
names = ("enabled", "benchmark", "benchmark_limit", "deterministic", "fp32_precision",
         "depthwise_kernel")
assert [getattr(cudnn, n) for n in names] == [True, False, 10, False, "none", "auto"]
cudnn.allow_tf32 = True
assert cudnn.set_flags(_benchmark=True) == (True, False, 10, False, True, "none", "auto")
assert cudnn.benchmark
with cudnn.flags(benchmark_limit=3):
    assert not cudnn.enabled and cudnn.benchmark_limit == 3 and not cudnn.benchmark
    before = passes()
    torch.conv2d(torch.ones(1, 1, 3, 3, device="cuda"), torch.ones(1, 1, 2, 2, device="cuda"))
    assert passes() == before
assert cudnn.enabled and cudnn.benchmark_limit == 10 and cudnn.benchmark
try:
    with cudnn.flags(enabled=True):
        1 / 0
except ZeroDivisionError:
    pass
assert cudnn.benchmark
raises(RuntimeError, "enabled: expected bool, but got int", setattr, cudnn, "enabled", 1)
raises(RuntimeError, "allow_tf32: expected bool", setattr, cudnn, "allow_tf32", "yes")
raises(RuntimeError, "benchmark_limit: expected int", setattr, cudnn, "benchmark_limit", True)
raises(RuntimeError, "must be from 0", setattr, cudnn, "benchmark_limit", -1)
raises(RuntimeError, "but got 'half'", setattr, cudnn.conv, "fp32_precision", "half")
raises(RuntimeError, "but got 'half'", setattr, cudnn, "fp32_precision", "half")
raises(RuntimeError, "but got 'best'", setattr, cudnn, "depthwise_kernel", "best")
assert cudnn.enabled is True and cudnn.benchmark_limit == 10 and cudnn.allow_tf32
x = torch.ones(2, device="cuda")
assert cudnn.is_available() and cudnn.version() >= 90000
assert cudnn.is_acceptable(x) and not cudnn.is_acceptable(x.int())
assert not cudnn.is_acceptable(x.cpu())
cudnn.enabled = False
assert not cudnn.is_acceptable(x)
"""
    )


@needs_fake
def test_plans_are_kept():
    run(
        """
plans, choose = cudnn.plan_cache, b"cudnnGetConvolutionForwardAlgorithm_v7"
x, w = torch.randn(2, 4, 9, 9, device="cuda"), torch.randn(4, 4, 3, 3, device="cuda")
def made(f):
    before = fake.fake_cuda_calls(choose)
    f()
    return fake.fake_cuda_calls(choose) - before
f = [lambda: conv(2, x, w), lambda: conv(2, x[:1], w), lambda: conv(2, x, w, stride=2),
     lambda: conv(2, x.double(), w.double())]
assert plans.size == 0 and plans.max_size == 4096
assert [made(g) for g in f + f] == [1, 1, 1, 1, 0, 0, 0, 0]
assert plans.size == 4 and lib.fake_cudnn_descriptors() == 16
plans.max_size = 2
assert plans.size == 2 and lib.fake_cudnn_descriptors() == 8
assert made(f[2]) == 0 and made(f[0]) == 1  # frees the plan of doubles
assert made(f[2]) == 0 and made(f[3]) == 1 and plans.size == 2
plans.max_size = 0
assert made(f[2]) == 1 == made(f[2]) and plans.size == 0 == lib.fake_cudnn_descriptors()
plans.max_size = 5
assert made(f[2]) == 1 and made(f[2]) == 0
cudnn.allow_tf32 = True
assert made(f[2]) == 1 and made(f[3]) == 1
cudnn.deterministic = True
assert made(f[2]) == 1 and plans.size == 4
plans.clear()
assert plans.size == 0 == lib.fake_cudnn_descriptors() and plans.max_size == 5
far = x.to("cuda:1"), w.to("cuda:1")
f[0](); conv(2, *far); conv(2, *far, padding=1)
assert plans.size == 1 and plans["cuda:1"].size == 2 and lib.fake_cudnn_handles() == 2
raises(RuntimeError, "plan_cache.size is read-only", setattr, plans, "size", 3)
raises(RuntimeError, "plan_cache: expected 0 <= device index < 2", lambda: plans[2])
assert torch.backends.cuda.cufft_plan_cache.size == 0
""",
        FAKE_CUDA_DEVICES=2,
    )


@needs_fake
def test_memory_comes_from_the_allocator_and_may_be_short():
    # Each tensor is one allocation of the driver. The result has 16 MiB, and so has the workspace.
    run(
        ALGORITHMS
        + """
x, w = torch.randn(4, 1, 512, 516, device="cuda"), torch.randn(4, 1, 1, 5, device="cuda")
torch.cuda.synchronize()
before = torch.cuda.memory_allocated()
torch.cuda.reset_peak_memory_stats()
y = conv(2, x, w)
assert torch.cuda.memory_allocated() == before + y.nbytes
assert torch.cuda.max_memory_allocated() >= before + 2 * y.nbytes + 64
expected = y.cpu()
assert added(lambda: conv(2, x, w)) == {1: 1}
size = y.nbytes
del y
torch.cuda.empty_cache()
free = torch.cuda.mem_get_info()[0]
keep = torch.empty(free - size - (8 << 20), dtype=torch.uint8, device="cuda")
found = []
assert added(lambda: found.append(conv(2, x, w))) == {0: 1}
torch.testing.assert_close(found.pop().cpu(), expected, rtol=1e-6, atol=1e-6)
cudnn.benchmark = True
assert added(lambda: found.append(conv(2, x, w))) == {0: 5}
torch.testing.assert_close(found.pop().cpu(), expected, rtol=1e-6, atol=1e-6)
del keep
assert added(lambda: conv(2, x, w)) == {0: 1}
""",
        COGRAD_CUDA_ALLOC="plain",
        FAKE_CUDA_MEMORY=96 << 20,
    )


@needs_fake
def test_convolutions_run_on_the_current_stream():
    run(
        """
x, w = torch.randn(2, 4, 9, 9), torch.randn(4, 4, 3, 3)
there, weight = x.cuda(), w.cuda()
conv(2, there, weight)
torch.cuda.synchronize()
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    y = conv(2, there, weight)
torch.cuda.current_stream().synchronize()
assert not side.query()
side.synchronize()
close(y, conv(2, x, w))
close(conv(2, there, weight), conv(2, x, w))
"""
    )


@needs_fake
def test_threads_have_handles_of_their_own():
    run(
        """
import threading
x, w = torch.randn(2, 4, 9, 9), torch.randn(4, 4, 3, 3)
there, weight, expected = x.cuda(), w.cuda(), conv(2, x, w)
conv(2, there, weight)
assert lib.fake_cudnn_handles() == 1
barrier, wrong = threading.Barrier(4), []
def work():
    try:
        barrier.wait()
        with torch.cuda.stream(torch.cuda.Stream()):
            for padding in range(10):
                y = conv(2, there, weight, padding=padding % 3)
                close(y, conv(2, x, w, padding=padding % 3))
    except BaseException as e:
        wrong.append(e)
for _ in range(3):
    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads: t.start()
    for t in threads: t.join()
    assert not wrong, wrong
    assert lib.fake_cudnn_handles() == 5, lib.fake_cudnn_handles()
assert cudnn.plan_cache.size == 3
"""
    )


@needs_fake
def test_graphs_capture_convolutions():
    run(
        ALGORITHMS
        + """
cudnn.benchmark = True
x, w = torch.randn(2, 4, 9, 9), torch.randn(4, 4, 5, 5)
there, weight = x.cuda(), w.cuda().requires_grad_()
def step():
    weight.grad = None
    y = conv(2, there, weight, padding=1)
    y.square().sum().backward()
    return y
stream = torch.cuda.Stream()
conv(2, there[:1], weight.detach()[:1])  # the library has started
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
before = runs()
waits = fake.fake_cuda_calls(b"cuEventSynchronize")
with torch.cuda.graph(graph, stream=stream):
    y = step()
assert fake.fake_cuda_calls(b"cuEventSynchronize") == waits
assert runs()[1] == before[1] + 1  # the first choice, not a measured one
for shift in (0.0, 1.0, 2.0):
    there.copy_(x + shift)
    graph.replay()
    given = w.clone().requires_grad_()
    expected = conv(2, x + shift, given, padding=1)
    expected.square().sum().backward()
    close(y, expected)
    close(weight.grad, given.grad)
    conv(2, there[:1], weight.detach())  # workspaces of others do not disturb it
# A later call measures.
assert added(lambda: conv(2, there, weight.detach(), padding=1)) == {0: 4, 1: 4, 2: 5, 3: 4}
assert added(lambda: conv(2, there, weight.detach(), padding=1)) == {2: 1}
cudnn.plan_cache.clear()
there.copy_(x)
graph.replay()
close(y, conv(2, x, w, padding=1))
"""
    )


MESSAGE = """
BAD = "the fake's reason. backends.cudnn.enabled = False computes without cuDNN"
SHAPE = "input (2, 4, 1, 9, 9), weight (4, 4, 1, 5, 5) of float32"
x, w = torch.randn(2, 4, 9, 9), torch.randn(4, 4, 5, 5)
there, weight = x.cuda(), w.cuda()
expected = conv(2, x, w)
PLANNING = (b"cudnnCreateTensorDescriptor", b"cudnnSetTensorNdDescriptor",
            b"cudnnCreateFilterDescriptor", b"cudnnSetFilterNdDescriptor",
            b"cudnnCreateConvolutionDescriptor", b"cudnnSetConvolutionNdDescriptor",
            b"cudnnSetConvolutionGroupCount", b"cudnnSetConvolutionMathType")
"""


@needs_fake
def test_errors_name_the_convolution_and_the_status():
    run(
        MESSAGE
        + """
def good():
    close(conv(2, there, weight), expected)
good()
cudnn.plan_cache.clear()
memory = torch.cuda.memory_allocated()
for symbol in PLANNING:
    for n in (1, 2) if b"Tensor" in symbol else (1,):
        fake.fake_cuda_fail(symbol, n, 4000)
        raises(RuntimeError, f"convolution({SHAPE}): cuDNN's {symbol.decode()} failed with "
               f"CUDNN_STATUS_INTERNAL_ERROR (4000): {BAD}", conv, 2, there, weight)
        assert cudnn.plan_cache.size == 0 == lib.fake_cudnn_descriptors()
        assert torch.cuda.memory_allocated() == memory
    good()
    cudnn.plan_cache.clear()
fake.fake_cuda_fail(b"cudnnGetConvolutionForwardAlgorithm_v7", 1, 4000)
raises(RuntimeError, f"convolution({SHAPE}): cuDNN's search for algorithms failed with "
       "CUDNN_STATUS_INTERNAL_ERROR (4000)", conv, 2, there, weight)
assert cudnn.plan_cache.size == 0 == lib.fake_cudnn_descriptors()
good()
# A wrong call is an error, not a shape that cuDNN does not support.
for symbol in PLANNING:
    cudnn.plan_cache.clear()
    fake.fake_cuda_fail(symbol, 1, 2007)
    raises(RuntimeError, f"cuDNN's {symbol.decode()} failed with CUDNN_STATUS_BAD_PARAM_STREAM_"
           "MISMATCH (2007)", conv, 2, there, weight)
for code in (2001, 2007):
    cudnn.plan_cache.clear()
    fake.fake_cuda_fail(b"cudnnGetConvolutionForwardAlgorithm_v7", 1, code)
    raises(RuntimeError, f"({code}): {BAD}", conv, 2, there, weight)
    assert cudnn.plan_cache.size == 0 == lib.fake_cudnn_descriptors()
    before = passes()[0]
    good()
    assert passes()[0] == before + 1  # the next call is cuDNN's
for n in (1, 3):
    for _ in range(n - 1):
        good()
    fake.fake_cuda_fail(PASSES[0], n, 5000)
    for _ in range(n - 1):
        good()
    raises(RuntimeError, f"convolution({SHAPE}): cuDNN's cudnnConvolutionForward failed with "
           f"CUDNN_STATUS_EXECUTION_FAILED (5000): {BAD}", conv, 2, there, weight)
    assert torch.cuda.memory_allocated() == memory
    good()
for symbol, which in ((PASSES[1], 0), (PASSES[2], 1)):
    both = there.clone().requires_grad_(), weight.clone().requires_grad_()
    y = conv(2, *both).sum()
    torch.autograd.grad(y, both[which], retain_graph=True)
    fake.fake_cuda_fail(symbol, 1, 2007)
    raises(RuntimeError, f"convolution({SHAPE}): cuDNN's {symbol.decode()} failed with "
           "CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH (2007)", torch.autograd.grad, y, both[which],
           retain_graph=True)
    torch.autograd.grad(y, both[which])
fake.fake_cuda_fail(b"cudnnSetStream", 1, 2007)
raises(RuntimeError, "convolution(): cuDNN's cudnnSetStream failed with "
       "CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH (2007)", conv, 2, there, weight)
good()
"""
    )


@needs_fake
def test_what_cudnn_refuses_is_computed_without_it():
    run(
        MESSAGE
        + ALGORITHMS.replace('x = torch.randn(2, 4, 12, 12, device="cuda")', "")
        + """
choose = b"cudnnGetConvolutionForwardAlgorithm_v7"
for symbol in PLANNING + (choose,):
    for code in (2000, 3002) if symbol == choose else (2000, 2001, 3002):
        cudnn.plan_cache.clear()
        fake.fake_cuda_fail(symbol, 1, code)
        before, others = passes(), columns()
        close(conv(2, there, weight), expected)
        assert passes() == before and columns() > others, (symbol, code)
        close(conv(2, there, weight), expected)  # that is known now
        assert passes() == before
# Algorithms without a workspace size are skipped: 5, 4, and 1, which is listed twice.
cudnn.plan_cache.clear()
fake.fake_cuda_fail(b"cudnnGetConvolutionForwardWorkspaceSize", -4, 3000)
assert added(lambda: close(conv(2, there, weight), expected)) == {3: 1}
# Number 4 and those that follow find out when they run; then cuDNN has none.
cudnn.plan_cache.clear()
fake.fake_cuda_fail(PASSES[0], -4, 3000)
assert added(lambda: close(conv(2, there, weight), expected)) == {0: 1}
cudnn.plan_cache.clear()
fake.fake_cuda_fail(PASSES[0], -5, 3000)
for _ in range(2):
    before, others = passes(), columns()
    close(conv(2, there, weight), expected)
    assert passes() == before and columns() > others
# An algorithm that finds no memory is used again later.
cudnn.plan_cache.clear()
conv(2, there, weight)
fake.fake_cuda_fail(PASSES[0], 1, 4004)
assert added(lambda: close(conv(2, there, weight), expected)) == {3: 1}
assert added(lambda: close(conv(2, there, weight), expected)) == {1: 1}
# The last one, without a workspace, runs again after the cache has given its memory back.
def reserve():
    torch.empty(1 << 25, dtype=torch.uint8, device="cuda")
    return torch.cuda.memory_reserved()
reserved = reserve()
fake.fake_cuda_fail(PASSES[0], -4, 4004)
assert added(lambda: close(conv(2, there, weight), expected)) == {0: 1}
assert torch.cuda.memory_reserved() <= reserved - (1 << 25)
allocated, reserved, before = torch.cuda.memory_allocated(), reserve(), columns()
fake.fake_cuda_fail(PASSES[0], -5, 4004)
raises(torch.cuda.OutOfMemoryError, "DEVICE_ALLOCATION_FAILED (4004)", conv, 2, there, weight)
assert torch.cuda.memory_reserved() <= reserved - (1 << 25) and columns() == before
assert torch.cuda.memory_allocated() == allocated
cudnn.benchmark = True  # a measurement does so, too, and begins with number 4
cudnn.plan_cache.clear()
reserved = reserve()
fake.fake_cuda_fail(PASSES[0], -5, 4004)
assert added(lambda: close(conv(2, there, weight), expected)) == {0: 5}
assert torch.cuda.memory_reserved() <= reserved - (1 << 25)
cudnn.benchmark = False
# The host's memory is another matter.
fake.fake_cuda_fail(PASSES[0], 1, 4003)
e = raises(RuntimeError, "HOST_ALLOCATION_FAILED (4003)", conv, 2, there, weight)
assert not isinstance(e, torch.cuda.OutOfMemoryError)
"""
    )


@needs_fake
def test_a_handle_that_cannot_be_made():
    run(
        MESSAGE
        + """
spare = torch.zeros(1 << 22, device="cuda")
del spare
reserved = torch.cuda.memory_reserved()
fake.fake_cuda_fail(b"cudnnCreate", -2, 1001)
raises(RuntimeError, "convolution(): cuDNN's cudnnCreate failed with CUDNN_STATUS_NOT_INITIALIZED "
       f"(1001): {BAD}", conv, 2, there, weight)
assert torch.cuda.memory_reserved() < reserved
fake.fake_cuda_fail(b"cudnnCreate", 1, 4004)
close(conv(2, there, weight), expected)
assert lib.fake_cudnn_handles() == 1 and passes()[0] == 1
"""
    )
    run(
        MESSAGE
        + """
fake.fake_cuda_fail(b"cudnnCreate", 1, 3007)  # the GPU is too old for it
for _ in range(2):
    close(conv(2, there, weight), expected)
assert fake.fake_cuda_calls(b"cudnnCreate") == 1 and passes()[0] == 0
"""
    )


@needs_fake
def test_a_missing_library_is_named():
    program = """
x, w = torch.randn(2, 4, 9, 9), torch.randn(4, 4, 5, 5)
close(conv(2, x.cuda(), w.cuda()), conv(2, x, w))
missing = {name: (path, missing) for name, path, _, missing in _C._cuda_libraries()}["cuDNN"]
assert missing[0] == "" and TEXT in missing[1], missing
assert cudnn.version() is None and not cudnn.is_available()
assert not cudnn.is_acceptable(x.cuda()) and passes() == [0, 0, 0]
assert cudnn.plan_cache.size == 0
"""
    run('TEXT = "cograd[cuda-full]"\n' + program, COGRAD_CUDNN="none")
    nvrtc = fakes.folder() / "nvrtc.so"
    run(f'TEXT = "{nvrtc} lacks the function cudnnGetVersion"\n' + program, COGRAD_CUDNN=nvrtc)
    run('TEXT = "is version 8.9.7, but 9 is needed"\n' + program, FAKE_CUDNN_VERSION=8907)
    run(
        'TEXT = "is made for CUDA 13, but the driver is for CUDA 12"\n' + program,
        FAKE_CUDA_VERSION=12040,
    )


@needs_fake
def test_the_library_is_found_and_told():
    run(
        """
found = {name: rest for name, *rest in _C._cuda_libraries()}["cuDNN"]
assert found == [os.environ["COGRAD_CUDNN"], "9.28.1", ""]
assert cudnn.version() == 92801
from cograd.commands import doctor
lines = [line for line in doctor.check_gpu() if line[1] == "cuDNN"]
assert lines == [("ok", "cuDNN", "9.28.1, " + os.environ["COGRAD_CUDNN"])], lines
""",
        FAKE_CUDNN_VERSION=92801,
    )


def test_switches_work_without_a_gpu():
    program = """
import cograd as torch
cudnn = torch.backends.cudnn
assert cudnn.enabled and cudnn.version() is None and not cudnn.is_available()
assert not cudnn.is_acceptable(torch.zeros(2))
with cudnn.flags(enabled=False, benchmark=True):
    assert cudnn.benchmark and not cudnn.enabled
assert cudnn.plan_cache.size == 0 == cudnn.plan_cache.max_size
cudnn.plan_cache.clear()
torch.use_deterministic_algorithms(True)
assert torch.conv1d(torch.ones(1, 1, 3), torch.ones(1, 1, 2)).tolist() == [[[2.0, 2.0]]]
"""
    fakes.run(program, COGRAD_CUDA_DRIVER="none", CUDA_VISIBLE_DEVICES="")


def real_library():
    own = os.environ.get("COGRAD_CUDNN_FOR_TESTS")
    places = [Path(folder) / "nvidia/cudnn/lib/libcudnn.so.9" for folder in sys.path]
    return own or next((str(p) for p in places if p.exists()), None)


@needs_fake
@pytest.mark.skipif(real_library() is None, reason="cuDNN is not installed")
def test_nvidias_library_is_loaded_and_has_the_functions():
    """It starts without a GPU, and makes descriptors; its handles need a GPU."""
    out = fakes.run(
        """
cudnn, F = torch.backends.cudnn, torch.nn.functional
found = {name: rest for name, *rest in _C._cuda_libraries()}["cuDNN"]
assert found[0] == os.environ["COGRAD_CUDNN"] and found[2] == "", found
assert cudnn.version() >= 90000 and cudnn.is_available()
# It has our numbers of dtypes, kinds of products and modes, and the same sizes of results.
lib = ctypes.CDLL(os.environ["COGRAD_CUDNN"])
lib.cudnnGetErrorString.restype = ctypes.c_char_p
for status, name in ((2000, "BAD_PARAM"), (2001, "INVALID_VALUE"), (3000, "NOT_SUPPORTED"),
                     (3007, "NOT_SUPPORTED_ARCH_MISMATCH"),
                     (4003, "INTERNAL_ERROR_HOST_ALLOCATION_FAILED"),
                     (4004, "INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED")):
    assert lib.cudnnGetErrorString(status).decode() == "CUDNN_STATUS_" + name
def ints(*values):
    return (ctypes.c_int * len(values))(*values)
x, w, options = (ctypes.c_void_p() for _ in range(3))
assert lib.cudnnCreateTensorDescriptor(ctypes.byref(x)) == 0
assert lib.cudnnCreateFilterDescriptor(ctypes.byref(w)) == 0
assert lib.cudnnCreateConvolutionDescriptor(ctypes.byref(options)) == 0
for dtype in (0, 1, 2, 9):
    assert lib.cudnnSetTensorNdDescriptor(x, dtype, 4, ints(2, 4, 9, 9), ints(324, 81, 9, 1)) == 0
    assert lib.cudnnSetFilterNdDescriptor(w, dtype, 0, 4, ints(6, 2, 3, 3)) == 0
    assert lib.cudnnSetConvolutionNdDescriptor(options, 2, ints(1, 0), ints(2, 1), ints(1, 2), 1,
                                               1 if dtype == 1 else 0) == 0
    assert lib.cudnnSetConvolutionGroupCount(options, 2) == 0
    assert [lib.cudnnSetConvolutionMathType(options, math) for math in range(5)] == [0] * 4 + [2000]
    sizes = ints(0, 0, 0, 0)
    assert lib.cudnnGetConvolutionNdForwardOutputDim(options, x, w, 4, sizes) == 0
    given = torch.zeros(2, 4, 9, 9), torch.zeros(6, 2, 3, 3)
    assert tuple(sizes) == F.conv2d(*given, None, (2, 1), (1, 0), (1, 2), 2).shape
assert lib.cudnnSetTensorNdDescriptor(x, 0, 4, ints(0, 4, 9, 9), ints(324, 81, 9, 1)) == 2000
raises(RuntimeError, "convolution(): cuDNN's cudnnCreate failed with CUDNN_STATUS_",
       torch.conv1d, torch.ones(1, 1, 3, device="cuda"), torch.ones(1, 1, 2, device="cuda"))
""",
        COGRAD_CUDNN=real_library(),
    )
    assert out == ""
