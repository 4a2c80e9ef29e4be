# SPDX-License-Identifier: BSD-3-Clause
"""Attention's own kernels for GPUs, compiled by g++ and run by the fake driver, beside the CPU's.

The products of 16-bit numbers run on an emulation of the tensor cores' instructions (host.h), which
is compared here with the tables of the PTX manual. NVRTC compiles the kernels in the nightly part,
as does the test of a launch with many matrices, which takes 40 s.
"""

import ctypes
import itertools
import random
import subprocess
from pathlib import Path

import fakes
import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = ROOT / "csrc" / "cuda"

why = fakes.why_not()
if not (TEXT / "nn_text").is_dir():
    why = "not run from a source checkout"
pytestmark = pytest.mark.skipif(why is not None, reason=str(why))

START = """
torch.cuda.set_fallback("error")
F, nn = torch.nn.functional, torch.nn
attend = F.scaled_dot_product_attention
fake.fake_cuda_launches.restype = ctypes.c_int64
fake.fake_cuda_launches.argtypes = [ctypes.c_char_p]
torch.manual_seed(0)

def rand(*sizes, dtype=torch.float64):
    return torch.randn(*sizes, dtype=torch.float64).to(dtype)

def launches():
    names = (b"attention_forward", b"attention_query_gradient", b"attention_key_gradients")
    return [fake.fake_cuda_launches(name) for name in names]

def results(device, dtype, f, q, k, v, seed):
    leaves = [x.detach().to(device=device, dtype=dtype).requires_grad_() for x in (q, k, v)]
    out = f(*leaves)
    assert out.device.type == device and out.dtype == dtype
    if seed is None:
        seed = torch.randn(out.shape, dtype=torch.float64)
    grads = torch.autograd.grad(out, leaves, seed.to(out))
    return [x.double().cpu() for x in (out, *grads)], seed

TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}

# Compares value and gradients with those of the CPU in float64, which get the same operands.
def check(f, q, k, v, dtype=torch.float64, kernels=True):
    q, k, v = (x.to(dtype).double() for x in (q, k, v))
    want, seed = results("cpu", torch.float64, f, q, k, v, None)
    seed = seed.to(dtype).double()
    want, _ = results("cpu", torch.float64, f, q, k, v, seed)
    before = launches()
    got, _ = results("cuda", dtype, f, q, k, v, seed)
    assert all((new > old) == kernels for new, old in zip(launches(), before, strict=True))
    again, _ = results("cuda", dtype, f, q, k, v, seed)
    tol = TOLERANCE[dtype]
    for a, b, c in zip(got, want, again, strict=True):
        assert torch.equal(a, c)
        size = max(1.0, b.abs().max().item())
        assert (a - b).abs().max().item() <= tol * size, ((a - b).abs().max().item(), size)

def on(x, *others):
    return [y if y is None else y.to(x.device) for y in others]
"""


def run(program, **variables):
    fakes.run(START + program, timeout=600, **variables)


DTYPES = [
    *("float32", "float16"),
    *(pytest.param(t, marks=pytest.mark.nightly) for t in ("float64", "bfloat16")),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [32, 64, 128])
def test_blocks_are_the_cpus(dtype, size):
    run(
        f"""
dtype, size = torch.{dtype}, {size}
# Rows and keys below, at and above the sizes of blocks; sizes of heads that packs do not divide.
for rows, keys, e, v in [(1, 1, size, size), (65, 70, size - 7, 5), (16, 130, 3, size - 31 or 1),
                         (130, 64, size, size), (16, 130, size, size)]:
    q, k, value = rand(2, rows, e), rand(2, keys, e), rand(2, keys, v)
    check(attend, q, k, value, dtype)
    check(lambda q, k, v: attend(q, k, v, is_causal=True, scale=-0.2), q, k, value, dtype)
"""
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_masks(dtype):
    run(
        f"""
dtype = torch.{dtype}
q, k, v = rand(2, 3, 21, 9), rand(2, 3, 35, 9), rand(2, 3, 35, 12)
some = torch.rand(2, 3, 21, 35) > 0.4
some[:, :, 4] = False  # rows that see no key
some[0, 1] = False
never = torch.zeros(21, 35, dtype=torch.float64).masked_fill(~some[1, 2], -float("inf"))
masks = [some, some[0], some[:, :1], some[0, 0, :1], some[0, 0, :, :1], some.mT.contiguous().mT,
         rand(21, 35), rand(2, 1, 21, 35), rand(3, 1, 35), rand(35, 21).mT, never,
         never[:1].expand(21, 35), torch.tensor(0.5, dtype=torch.float64),
         torch.full((21, 35), torch.finfo(torch.float32).min, dtype=torch.float64),
         torch.where(torch.arange(21)[:, None] > 9, -1e18, rand(21, 35))]
for mask in masks:
    for wide in (False, True):
        finite = mask[mask.isfinite()]
        if mask.dtype != torch.bool and not wide and (finite.abs() > 1e4).any():
            continue  # a narrow dtype has no such number
        def f(q, k, v):
            m = mask.to(q.device)
            if m.dtype != torch.bool and q.dtype != torch.float64:
                m = m.to(torch.float32 if wide else q.dtype)
            elif m.dtype != torch.bool:  # the CPU adds what the GPU gets
                m = m.to(torch.float32 if wide else dtype).double()
            return attend(q, k, v, m)
        check(f, q, k, v, dtype)
        if mask.dtype == torch.bool:
            break
"""
    )


def test_small_gradients_keep_their_digits_in_float16():
    # Of mean losses without a GradScaler: scaled before the product they would be subnormal.
    run(
        """
q, k, v = (rand(1, n, 64).half().double() for n in (64, 256, 256))
seed = (1e-4 * rand(1, 64, 64)).half().double()
want, _ = results("cpu", torch.float64, attend, q, k, v, seed)
got, _ = results("cuda", torch.float16, attend, q, k, v, seed)
for a, b in zip(got[1:], want[1:], strict=True):
    assert (a - b).norm() < 8e-3 * b.norm(), (a - b).norm() / b.norm()
"""
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_layouts_groups_and_dropout(dtype):
    run(
        f"""
dtype = torch.{dtype}
q, k, v = rand(2, 19, 4, 16), rand(2, 33, 2, 16), rand(2, 33, 2, 8)
def heads(*xs, **options):
    return attend(*(x.transpose(1, 2) for x in xs), enable_gqa=True, **options)
check(heads, q, k, v, dtype)
check(lambda *xs: heads(*xs, is_causal=True), q, k, v, dtype)
x = q.transpose(1, 2).to(dtype).cuda()
assert attend(x, x, x).transpose(1, 2).is_contiguous()  # so that joining heads copies nothing
check(lambda q, k, v: attend(q[..., 1:], k[..., 1:], v[..., ::2]), q, q, q, dtype)
check(lambda q, k, v: attend(q[:1].expand(3, 19, 16), k[:1].expand(3, 33, 16), v[:1]
      .expand(3, 33, 8)), q[:, :, 0], k[:, :, 0], v[:, :, 0], dtype)
check(attend, q[0, :, 0], k[0, :, 0], v[0, :, 0], dtype)
deep = rand(2, 1, 2, 1, 3, 1, 2, 5, 4)  # more leading dims than a launch has
check(lambda q, k, v: attend(q, k[:, :, :, :, :, :, :1], v[:, :, :, :, :, :, :1], enable_gqa=True),
      deep, deep, deep, dtype)
mask = torch.rand(2, 1, 2, 1, 3, 1, 1, 5, 5) > 0.3
check(lambda q, k, v: attend(q, k, v, mask.to(q.device)), deep, deep, deep, dtype)

# Dropout drops the weights that it drops on the CPU.
for p in (0.3, 1.0):
    def f(q, k, v, mask=None):
        torch.manual_seed(3)
        torch.rand(5, device=q.device)
        return heads(q, k, v, dropout_p=p, attn_mask=None if mask is None else mask.to(q.device))
    check(f, q, k, v, dtype)
    seen = torch.rand(2, 4, 19, 33) > 0.3
    check(lambda *xs: f(*xs, mask=seen), q, k, v, dtype)
"""
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bits_without_tensor_cores(dtype):
    run(
        f"""
dtype = torch.{dtype}
for size in (20, 128):
    q, k, v = rand(2, 40, size), rand(2, 37, size), rand(2, 37, size)
    mask = torch.rand(40, 37) > 0.3
    check(attend, q, k, v, dtype)
    check(lambda q, k, v: attend(q, k, v, mask.to(q.device)), q, k, v, dtype)
    check(lambda q, k, v: attend(q, k, v, is_causal=True), q, k, v, dtype)
""",
        FAKE_CUDA_CAPABILITY=75,
    )


def test_what_the_kernels_do_not_take_is_composed():
    run(
        """
x = rand(2, 5, 129)
check(attend, x, x, x, torch.float32, kernels=False)
check(attend, x[..., :8], x[..., :8], x, torch.bfloat16, kernels=False)
q, k = rand(2, 5, 8), rand(1, 5, 8)
check(attend, q, k, k, kernels=False)  # leading dims that broadcast
mask = rand(5, 5).cuda().requires_grad_()
x = q.cuda()
attend(x, x, x, mask).sum().backward()
assert mask.grad.shape == (5, 5) and launches()[0] == 0
none = torch.zeros(2, 0, 4, device="cuda")
some = torch.zeros(2, 3, 4, device="cuda")
assert attend(none, some, some).shape == (2, 0, 4) and not attend(some, none, none).any()
raises(RuntimeError, "attn_mask should not be set", attend, x, x, x, x[0, :, :5] > 0, 0.0, True)
raises(RuntimeError, "to have the same dtype", attend, x, x.float(), x)
raises(RuntimeError, "dropout probability", attend, x, x, x, None, 1.5)
"""
    )


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_second_derivatives(dtype):
    run(
        f"""
dtype = torch.{dtype}
q, k, v = rand(2, 4, 5, 3), rand(2, 2, 6, 3), rand(2, 2, 6, 2)
mask = torch.rand(5, 6) > 0.4

def second(device, dtype, options):
    torch.manual_seed(1)
    leaves = [x.to(device, dtype).requires_grad_() for x in (q, k, v)]
    m = mask.to(device) if options.pop("masked", False) else None
    out = attend(*leaves, m, enable_gqa=True, **options)
    first = torch.autograd.grad((out * out).sum(), leaves, create_graph=True)
    found = torch.autograd.grad(sum((g * g).sum() for g in first), leaves)
    return [x.cpu().double() for x in (out, *first, *found)]

for options in ({{}}, {{"is_causal": True}}, {{"masked": True}}, {{"dropout_p": 0.4}}):
    a = second("cuda", dtype, dict(options))
    b = second("cpu", torch.float64, dict(options))
    tol = 1e-11 if dtype == torch.float64 else 3e-2
    for x, y in zip(a, b, strict=True):
        assert (x - y).abs().max() <= tol * max(1.0, y.abs().max().item()), (options, x - y)
assert launches()[0] >= 4
if dtype == torch.float64:
    q = q.cuda().requires_grad_()
    k, v = k.cuda(), v.cuda()
    f = lambda q: attend(q, k, v, enable_gqa=True)
    assert torch.autograd.gradcheck(f, q, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(f, q)
"""
    )


def test_inside_of_other_features():
    run(
        """
from cograd.utils.checkpoint import checkpoint
x = rand(2, 3, 20, 8)
twice = lambda q, k, v: attend(attend(q, k, v), k, q)  # two nodes in one graph
check(twice, x, x + 1, x, torch.float32)
check(lambda *xs: checkpoint(twice, *xs, use_reentrant=False), x, x + 1, x, torch.float32)
a, b = (x.cuda().requires_grad_() for _ in range(2))
checkpoint(twice, a, a, a, use_reentrant=True).sum().backward()
twice(b, b, b).sum().backward()
torch.testing.assert_close(a.grad, b.grad)
def dropping(q, k, v):
    torch.manual_seed(2)
    return checkpoint(lambda *xs: attend(*xs, dropout_p=0.4), q, k, v, use_reentrant=False)
check(dropping, x, x, x)  # the second run drops the same weights
check(lambda *xs: torch.vmap(attend)(*xs), x, x + 1, x, torch.float32)
check(lambda q, k, v: torch.vmap(torch.vmap(attend), in_dims=(1, 1, None))(q, k, v[:, 0]), x, x, x)
mask = torch.rand(2, 20, 20) > 0.3
check(lambda *xs: torch.vmap(lambda q, k, v, m: attend(q, k, v, m))(*xs, mask.to(xs[0].device)),
      x, x, x)
q = x.cuda()
t = rand(2, 3, 20, 8)
value, tangent = torch.func.jvp(lambda q: attend(q, q, q), (q,), (t.cuda(),))
want = torch.func.jvp(lambda q: attend(q, q, q), (x,), (t,))
torch.testing.assert_close(value.cpu(), want[0])
torch.testing.assert_close(tangent.cpu(), want[1])
per_sample = torch.vmap(torch.func.grad(lambda q: attend(q, q, q).square().sum()))
torch.testing.assert_close(per_sample(q).cpu(), per_sample(x))
before = launches()
with torch.no_grad():
    plain = attend(q, q, q)
with torch.inference_mode():
    assert torch.equal(attend(q, q, q), plain)
assert launches()[0] == before[0] + 2
for dtype in (torch.float16, torch.bfloat16):
    w = q.float().requires_grad_()
    with torch.autocast("cuda", dtype=dtype):
        out = attend(w, w, w)
    assert out.dtype == dtype
    out.float().square().sum().backward()
    assert w.grad.dtype == torch.float32
    half = q.to(dtype).double().requires_grad_()
    attend(half, half, half).square().sum().backward()
    assert (w.grad - half.grad).abs().max() < 0.1 * half.grad.abs().max()
old = x[:1].float().cuda().requires_grad_()
out = attend(old, old, old)
with torch.no_grad():
    old.mul_(2)
raises(RuntimeError, "modified by an inplace operation", out.sum().backward)
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    there = attend(q, q, q)
side.synchronize()
assert torch.equal(there, plain)
layer = nn.MultiheadAttention(8, 2, batch_first=True)
there = nn.MultiheadAttention(8, 2, batch_first=True, device="cuda")
there.load_state_dict(layer.state_dict())
y = x[:, 0].float()
for causal in (None, torch.ones(20, 20, dtype=torch.bool).triu(1)):
    here = layer(y, y, y, attn_mask=causal, need_weights=False)[0]
    far = there(*[y.cuda()] * 3, attn_mask=None if causal is None else causal.cuda(),
                need_weights=False)[0]
    torch.testing.assert_close(far.cpu(), here, rtol=1e-4, atol=1e-5)
"""
    )


def test_graphs_capture_it():
    run(
        """
cuda = torch.cuda
x = rand(2, 3, 20, 8, dtype=torch.float16).cuda().requires_grad_()
mask = torch.ones(20, 20, dtype=torch.bool).tril().cuda()

def step():
    x.grad = None
    out = attend(x, x, x, mask, dropout_p=0.25)
    out.float().square().sum().backward()
    return out, x.grad

def from_the_start(f):
    torch.manual_seed(5)
    return [t.clone() for _ in range(2) for t in f()]

stream = cuda.Stream()
stream.wait_stream(cuda.current_stream())
with cuda.stream(stream):
    eager = from_the_start(step)
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        kept = step()
    def replay():
        g.replay()
        return kept
    for a, b in zip(eager, from_the_start(replay), strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(eager[0], eager[2])
cuda.synchronize()
"""
    )


@pytest.mark.nightly
def test_many_matrices():
    run(
        """
# More matrices than a launch may have blocks along y or z.
q = rand(70000, 1, 2, dtype=torch.float32)
k = rand(70000, 2, 2, dtype=torch.float32)
out = attend(q.cuda(), k.cuda(), k.cuda())
torch.testing.assert_close(out.cpu(), attend(q, k, k))
"""
    )


# The tables of the PTX manual for mma.m16n8k16, by lane and number of the element.
def place_in_a(lane, i):
    row = lane // 4 + (8 if i in (2, 3, 6, 7) else 0)
    return row, lane % 4 * 2 + i % 2 + (8 if i >= 4 else 0)


def place_in_b(lane, i):
    return lane % 4 * 2 + i % 2 + (8 if i >= 2 else 0), lane // 4


def place_in_c(lane, i):
    return lane // 4 + (8 if i >= 2 else 0), lane % 4 * 2 + i % 2


KERNELS = """
#define COGRAD_T BFloat16
#define COGRAD_SIZE 32
#define COGRAD_MMA 1
#define COGRAD_WITH 0
#include "cuda/nn_text/attention_parts.h"
namespace cograd::device {
struct Args {
  const uint16_t* matrix;  // rows of kStep elements
  const uint32_t *a, *b;   // the registers of all lanes
  uint32_t* loaded;
  float* c;
};
COGRAD_BLOCK_KERNEL(load_as_left, Args, 32) {
  uint32_t r[4];
  OwnRows<1>{reinterpret_cast<const BFloat16*>(a.matrix)}.load(r, 0, 1);
  for (int i = 0; i < 4; ++i) a.loaded[4 * lane() + i] = r[i];
}
COGRAD_BLOCK_KERNEL(load_transposed, Args, 32) {
  uint32_t r[4];
  load_matrices<true>(r, a.matrix + lane() % 16 * kStep + lane() / 16 * 8);
  for (int i = 0; i < 4; ++i) a.loaded[4 * lane() + i] = r[i];
}
COGRAD_BLOCK_KERNEL(multiply, Args, 32) {
  uint32_t left[4];
  for (int i = 0; i < 4; ++i) left[i] = a.a[4 * lane() + i];
  float c[4] = {1, 1, 1, 1};
  multiply_add<BFloat16>(c, left, a.b[2 * lane()], a.b[2 * lane() + 1]);
  for (int i = 0; i < 4; ++i) a.c[4 * lane() + i] = c[i];
}
}
"""


def test_fragments_lie_as_the_manual_says(tmp_path):
    (tmp_path / "kernels.cpp").write_text(KERNELS)
    command = [fakes.CXX, "-std=c++20", "-O1", "-shared", "-fPIC", f"-I{TEXT.parent}"]
    command += [f"-I{TEXT / folder}" for folder in ("nn_text", "text", "args")]
    command += ["-include", fakes.SOURCES / "host.h", tmp_path / "kernels.cpp", "-o"]
    subprocess.run([*command, tmp_path / "kernels.so"], check=True)
    library = ctypes.CDLL(str(tmp_path / "kernels.so"))

    def bits(x):  # of a bfloat16 with few bits
        return ctypes.c_uint32.from_buffer(ctypes.c_float(x)).value >> 16

    def launch(name, **arrays):
        names = ("matrix", "a", "b", "loaded", "c")
        args = (ctypes.c_void_p * 5)(
            *(ctypes.addressof(arrays[n]) if n in arrays else None for n in names)
        )
        one = (ctypes.c_uint * 3)(1, 1, 1)
        block = (ctypes.c_uint * 3)(32, 1, 1)
        library.cograd_twin_launch(getattr(library, name), one, block, 0, args)

    step = 32 + 8
    backing = (ctypes.c_uint16 * (16 * step + 8))()
    address = ctypes.addressof(backing)
    shift = (-address % 16) // 2  # rows begin at multiples of 16 bytes
    matrix = (ctypes.c_uint16 * (16 * step)).from_buffer(backing, 2 * shift)
    matrix[:] = range(16 * step)
    loaded = (ctypes.c_uint32 * 128)()
    # The second 16 columns, as the left factor has them.
    launch("load_as_left", matrix=matrix, loaded=loaded)
    for lane, i in itertools.product(range(32), range(8)):
        row, column = place_in_a(lane, i)
        assert loaded[4 * lane + i // 2] >> (16 * (i % 2)) & 0xFFFF == row * step + 16 + column
    # Two right factors of 8 columns each.
    launch("load_transposed", matrix=matrix, loaded=loaded)
    for lane, i in itertools.product(range(32), range(8)):
        row, column = place_in_b(lane, i % 4)
        found = loaded[4 * lane + i // 2] >> (16 * (i % 2)) & 0xFFFF
        assert found == row * step + 8 * (i // 4) + column

    draw = random.Random(0)
    a = [[draw.randint(-8, 8) for _ in range(16)] for _ in range(16)]
    b = [[draw.randint(-8, 8) for _ in range(8)] for _ in range(16)]
    left, right = (ctypes.c_uint32 * 128)(), (ctypes.c_uint32 * 64)()
    for lane in range(32):
        for i in range(8):
            row, column = place_in_a(lane, i)
            left[4 * lane + i // 2] |= bits(a[row][column]) << (16 * (i % 2))
        for i in range(4):
            row, column = place_in_b(lane, i)
            right[2 * lane + i // 2] |= bits(b[row][column]) << (16 * (i % 2))
    c = (ctypes.c_float * 128)()
    launch("multiply", a=left, b=right, c=c)
    for lane, i in itertools.product(range(32), range(4)):
        row, column = place_in_c(lane, i)
        assert c[4 * lane + i] == 1 + sum(a[row][k] * b[k][column] for k in range(16))


@pytest.mark.nightly
@pytest.mark.skipif(fakes.nvrtc_path() is None, reason="NVRTC's wheel is not installed")
@pytest.mark.parametrize("capability", [75, 80, 90, 100, 120])
def test_nvrtc_compiles_it(tmp_path, capability):
    """The real compiler makes cubins, which the fake driver takes but does not run."""
    run(
        """
def compile(dtype, size, mask=None, p=0.0):
    x = rand(2, 9, size, dtype=dtype).cuda().requires_grad_()
    attend(x, x, x, mask if mask is None else mask.to(x), dropout_p=p).sum().backward()
for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
    for size in (32, 64, 128):
        compile(dtype, size)
    compile(dtype, 64, torch.ones(9, 9), 0.5)
assert all(launches()), launches()
""",
        COGRAD_NVRTC=fakes.nvrtc_path(),
        COGRAD_KERNEL_CACHE=tmp_path,
        FAKE_CUDA_DRY=1,
        FAKE_CUDA_CAPABILITY=capability,
    )
    cubins = [path.read_bytes() for path in tmp_path.glob("*.cubin")]
    found = sum(b"attention_key_gradients" in code for code in cubins)
    assert found == 16 and all(b"\x7fELF" in code for code in cubins)
