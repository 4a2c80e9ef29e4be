# SPDX-License-Identifier: BSD-3-Clause
"""Kernels of users: arguments and their checks, streams, derivatives, the cache, the log."""

import re
import subprocess
import sys
from pathlib import Path

import fakes
import pytest

import cograd as torch

why = fakes.why_not()
on_fake = pytest.mark.skipif(why is not None, reason=str(why))

SCALE = """
SCALE = r'''
extern "C" __global__ void scale(float* y, const float* x, float a, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i];
}
'''
scale = torch.cuda.kernel(SCALE)
x = torch.arange(1000.).cuda()
y = torch.empty_like(x)
"""


@on_fake
def test_a_kernel_runs_on_tensors_and_numbers():
    fakes.run(
        SCALE
        + """
scale(y, x, 2, 1000, grid=4, block=256)
assert torch.equal(y.cpu(), 2 * torch.arange(1000.))
scale(y, x, 0.5, 1000, threads=1000)
assert torch.equal(y.cpu(), torch.arange(1000.) / 2)
scale(y, x, 3.0, 10, grid=(1, 1), block=(8, 2, 1))  # y has 8 threads along x
assert y[:10].tolist() == [0, 3, 6, 9, 12, 15, 18, 21, 4, 4.5]
before = y._version
scale(y, x, 1, 0, threads=0)
scale(y, x, 1, 1000, threads=1000)
assert y._version == before + 1 and x._version == 0
assert scale.name == "scale"
assert scale.parameters == {"y": "float*", "x": "const float*", "a": "float", "n": "long long"}
assert repr(scale) == "<cograd.cuda.Kernel scale(float* y, const float* x, float a, long long n)>"
"""
    )


@on_fake
def test_types_of_arguments_arrive_as_declared():
    fakes.run(
        r"""
text = r'''
#include <cograd/kernel.h>
#include <stdint.h>
#define INDEX int
using real = double;
template <class T, int N = 2>
__global__ void take(real* out, const T* __restrict__ t, bool b, int8_t i8, uint8_t u8, short i16,
                     INDEX i32, unsigned u32, std::size_t u64, float f, real d, cograd::Half h,
                     cograd::BFloat16 bf, cograd::Complex<float> c, const cograd::Half* hs,
                     void* none, uint16_t last[]) {
  out[0] = t[1]; out[1] = b; out[2] = i8; out[3] = u8; out[4] = i16; out[5] = i32; out[6] = u32;
  out[7] = u64; out[8] = f; out[9] = d; out[10] = float(h); out[11] = float(bf); out[12] = c.re;
  out[13] = c.im; out[14] = float(hs[0]); out[15] = none == nullptr; out[16] = last[1];
  out[17] = N; out[18] = WIDTH;
}
namespace other { __global__ void nothing() {} }
'''
k = torch.cuda.kernel(text, "take<int64_t>", options=["-DWIDTH=7"])
out = torch.zeros(19, dtype=torch.float64, device="cuda")
def call(k, *more):
    k(out, torch.tensor([5, 6]).cuda(), True, -3, 200, -300, -70000, 4000000000, 1 << 40, 0.5, 0.1,
      1.5, 2.5, 3 - 4j, torch.tensor([0.25], dtype=torch.float16).cuda(), None,
      torch.tensor([1, 65535], dtype=torch.uint16).cuda(), grid=1, block=1)
    return out.tolist()
expected = [6, 1, -3, 200, -300, -70000, 4000000000, 1 << 40, 0.5, 0.1, 1.5, 2.5, 3, -4, 0.25, 1,
            65535, 2, 7]
assert call(k) == expected
assert call(torch.cuda.kernel(text, "take<long, 4>", options=["-DWIDTH=8"]))[17:] == [4, 8]
torch.cuda.kernel(text, "other::nothing", options=["-DWIDTH=1"])(grid=1, block=1)
raises(TypeError, "argument 'b' (bool): expected a bool, got an int", k, out,
       torch.tensor([5, 6]).cuda(), 1, *range(14), threads=1)
"""
    )


@on_fake
def test_threads_of_a_block_work_together():
    fakes.run(
        r"""
text = r'''
__global__ void sums(float* out, const float* x, int n) {
  extern __shared__ float partial[];
  __shared__ int blocks;
  if (threadIdx.x == 0) blocks = gridDim.x;
  partial[threadIdx.x] = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    partial[threadIdx.x] += x[i];
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(out, partial[0] + 0 * blocks);
}
'''
x = torch.arange(5000.).cuda()
out = torch.zeros(1, device="cuda")
sums = torch.cuda.kernel(text)
sums(out, x, 5000, grid=3, block=128, shared_bytes=512)
assert out.item() == 5000 * 4999 / 2
sums(out, x, 0, grid=1, block=128, shared_bytes=100000)  # more than 48 KiB must be asked for
assert fake.fake_cuda_calls(b"cuFuncSetAttribute") == 1
raises(ValueError, "shared_bytes is 101377, but a block of Fake GPU has at most 101376", sums, out,
       x, 5000, grid=1, shared_bytes=101377)
"""
    )


@on_fake
def test_bad_arguments_are_named():
    fakes.run(
        SCALE
        + """
def bad(kind, text, *args, **sizes):
    raises(kind, "kernel 'scale': " + text, scale, *args, **(sizes or {"grid": 4}))
bad(TypeError, "expected 4 arguments, got 3", y, x, 2.0)
bad(TypeError, "argument 'x' (const float*): expected a Tensor, got a float", y, 2.0, 2.0, 1000)
bad(TypeError, "argument 'x' (const float*): expected a tensor of float32, got float64", y,
    x.double(), 2.0, 1000)
bad(RuntimeError, "argument 'y' (float*): expected a tensor on a GPU, got one on cpu", y.cpu(), x,
    2.0, 1000)
bad(RuntimeError, "argument 'x' (const float*): expected a tensor on a GPU, got one on meta", y,
    x.to("meta"), 2.0, 1000)
bad(RuntimeError, "argument 'x' (const float*): expected a tensor on cuda:0, where argument 'y' "
    "is, got one on cuda:1", y, x.to("cuda:1"), 2.0, 1000)
bad(ValueError, "argument 'x' (const float*): expected a contiguous tensor, got one of shape "
    "[500] with strides [2]; pass x.contiguous(), or name the parameter in `strided`", y, x[::2],
    2.0, 1000)
bad(TypeError, "argument 'a' (float): expected a number, got a Tensor", y, x, x, 1000)
bad(TypeError, "argument 'a' (float): expected a number, got None", y, x, None, 1000)
bad(TypeError, "argument 'a' (float): expected a number, got a complex number", y, x, 1j, 1000)
bad(TypeError, "argument 'a' (float): expected a number, got another type", y, x, "2", 1000)
bad(TypeError, "argument 'n' (long long): expected an int, got a float", y, x, 2.0, 10.0)
w = x.clone().requires_grad_()
bad(RuntimeError, "argument 'x' (const float*): expected a tensor that does not require grad, as a "
    "kernel has no derivative", y, w, 2.0, 1000)
with torch.no_grad():
    scale(y, w, 2.0, 1000, grid=4)
assert y[3].item() == 6
bad(TypeError, "expected one of grid= and threads=", y, x, 2.0, 1000, block=1)
bad(TypeError, "expected one of grid= and threads=", y, x, 2.0, 1000, grid=1, threads=1)
bad(TypeError, "grid is (1, 2, 3, 4), expected 1 to 3 ints", y, x, 2.0, 1000, grid=(1, 2, 3, 4))
bad(TypeError, "block is 1.5, expected 1 to 3 ints", y, x, 2.0, 1000, grid=1, block=1.5)
bad(ValueError, "grid is (0, 1, 1), expected 1 to 2147483647 blocks in dim 0", y, x, 2.0, 1000,
    grid=0)
bad(ValueError, "grid is (1, 65536, 1), expected 1 to 65535 blocks in dim 1", y, x, 2.0, 1000,
    grid=(1, 65536))
bad(ValueError, "block is (2048, 1, 1), expected 1 to 1024 threads in dim 0", y, x, 2.0, 1000,
    grid=1, block=2048)
bad(ValueError, "block is (64, 32, 1), which are 2048 threads, expected at most 1024", y, x, 2.0,
    1000, grid=1, block=(64, 32))
bad(ValueError, "threads is -1, expected at least 0", y, x, 2.0, 1000, threads=-1)
bad(ValueError, "shared_bytes is -1", y, x, 2.0, 1000, grid=1, shared_bytes=-1)
small = torch.cuda.kernel("__global__ void set(signed char* p, signed char v) { *p = v; }")
raises(ValueError, "kernel 'set': argument 'v' (signed char): 128 is out of range", small,
       torch.zeros(1, dtype=torch.int8).cuda(), 128, grid=1)
raises(RuntimeError, "kernel 'scale': argument 'x'", torch.func.vmap(
    lambda row: scale(y, row, 1.0, 10, grid=1)), torch.ones(2, 10).cuda())
""",
        FAKE_CUDA_DEVICES=2,
    )


@on_fake
def test_strided_tensors_are_taken_where_that_is_stated():
    fakes.run(
        """
text = '''
__global__ void gather(float* y, const float* x, int step, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i * step];
}
'''
x, y = torch.arange(10.).cuda(), torch.empty(5, device="cuda")
every = x[::2]
torch.cuda.kernel(text, strided=["x"])(y, every, every.stride(0), 5, threads=5)
assert y.tolist() == [0, 2, 4, 6, 8]
raises(ValueError, "strided names 'step', which is no pointer", torch.cuda.kernel, text,
       strided=["step"])
raises(TypeError, "strided is 'x', expected a list", torch.cuda.kernel, text, strided="x")
"""
    )


@on_fake
def test_a_kernel_runs_on_the_current_stream_and_gpu():
    fakes.run(
        SCALE
        + """
other = torch.cuda.Stream()
with torch.cuda.stream(other):
    scale(y, x, 2.0, 1000, threads=1000)
assert not other.query() and torch.cuda.current_stream().query()
other.synchronize()
assert y[7].item() == 14
far = x.to("cuda:1")
out = torch.empty_like(far)
scale(out, far, 3.0, 1000, threads=1000)  # where its tensors are
assert out.device.index == 1 and out[5].item() == 15 and torch.cuda.current_device() == 0
""",
        FAKE_CUDA_DEVICES=2,
    )


@on_fake
def test_memory_is_not_reused_before_the_kernel_has_run():
    fakes.run(
        SCALE
        + """
side = torch.cuda.Stream()
temporary = x.clone()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    scale(y, temporary, 2.0, 1000, threads=1000)
del temporary
full = torch.full((1000,), 9.0, device="cuda")  # could take the memory while the kernel waits
torch.cuda.synchronize()
assert torch.equal(y.cpu(), 2 * torch.arange(1000.)) and full[0].item() == 9
"""
    )


@on_fake
def test_a_function_with_kernels_has_derivatives():
    fakes.run(
        r"""
text = r'''
__global__ void square(double* y, const double* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * x[i];
}
__global__ void square_grad(double* gx, const double* g, const double* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) gx[i] = 2 * x[i] * g[i];
}
'''
square = torch.cuda.kernel(text, "square")
square_grad = torch.cuda.kernel(text, "square_grad")

class SquareGrad(torch.autograd.Function):
    @staticmethod
    def forward(ctx, g, x):
        ctx.save_for_backward(g, x)
        out = torch.empty_like(x)
        square_grad(out, g.contiguous(), x, x.numel(), threads=x.numel())
        return out

    @staticmethod
    def backward(ctx, gg):
        g, x = ctx.saved_tensors
        return SquareGrad.apply(gg, x), 2 * g * gg

class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        out = torch.empty_like(x)
        square(out, x, x.numel(), threads=x.numel())
        return out

    @staticmethod
    def backward(ctx, g):
        return SquareGrad.apply(g, *ctx.saved_tensors)

x = torch.rand(7, dtype=torch.float64, device="cuda", requires_grad=True)
Square.apply(x).sum().backward()
assert torch.allclose(x.grad, 2 * x)
assert torch.autograd.gradcheck(Square.apply, x) and torch.autograd.gradgradcheck(Square.apply, x)
rows = torch.rand(3, 4, dtype=torch.float64, device="cuda")
assert torch.equal(torch.func.vmap(Square.apply)(rows), rows * rows)
torch.cuda.set_fallback("error")
Square.apply(x)
"""
    )


@on_fake
def test_compile_errors_show_the_users_lines(tmp_path):
    fakes.run(
        r"""
text = '''
__global__ void wrong(float* y) {
  y[0] = missing;
}
'''
wrong = torch.cuda.kernel(text)  # compiled at the first call
e = raises(RuntimeError, "could not compile wrong.cu for sm_90", wrong, torch.empty(1).cuda(),
           grid=1)
assert "wrong.cu:3:" in str(e) and "missing" in str(e), e
e = raises(RuntimeError, "could not compile wrong.cu (-DA=1) for sm_90",
           torch.cuda.kernel(text, options=["-DA=1"]).compile)
""",
        COGRAD_KERNEL_CACHE=tmp_path,
    )
    assert not list(tmp_path.iterdir())


@on_fake
def test_kernels_are_kept_on_disk(tmp_path):
    fakes.run(SCALE + "scale.compile()", COGRAD_KERNEL_CACHE=tmp_path)
    (kept,) = tmp_path.glob("*.cubin")
    call = SCALE + "scale(y, x, 2.0, 1000, threads=1000); assert y[3].item() == 6"
    fakes.run(
        call.replace("x = torch.arange(1000.)", "x = torch.tensor(range(1000)).float()"),
        COGRAD_KERNEL_CACHE=tmp_path,
    )
    assert kept in tmp_path.glob("*.cubin")
    damaged = kept.read_bytes()
    kept.write_bytes(damaged[:-1] + bytes([damaged[-1] ^ 1]))
    fakes.run(SCALE + "scale.compile()", COGRAD_KERNEL_CACHE=tmp_path)
    assert kept.read_bytes() == damaged
    fakes.run(SCALE + "scale.compile()", COGRAD_KERNEL_CACHE=tmp_path, CXX="/bin/false")
    program = (
        SCALE
        + """
raises(RuntimeError, "could not compile scale.cu (-DB)",
       torch.cuda.kernel(SCALE, options=["-DB"]).compile)
raises(RuntimeError, "could not compile scale.cu",
       torch.cuda.kernel(SCALE + "\\n").compile)
"""
    )
    fakes.run(program, COGRAD_KERNEL_CACHE=tmp_path, CXX="/bin/false")


def test_a_kernel_is_declared_without_a_gpu():
    k = torch.cuda.kernel("/* __global__ void no(); */ __global__ void f(const int *p, double) {}")
    assert k.parameters == {"p": "const int*", "1": "double"}
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match="kernel 'f': there is no cuda device"):
            k(None, 1.0, grid=1)


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("void f() {}", None, "no function that is declared __global__"),
        ('const char* s = "__global__ void f()";', None, "no function that is declared __global__"),
        ("__global__ void f(); __global__ void g();", None, "several kernels, 'f', 'g': name one"),
        ("__global__ void f();", "h", "has no kernel 'h'; it has 'f'"),
        ("template <class T> __global__ void f(T*);", "f", "is a template: .* 'f<float>'"),
        ("__global__ void f(float& x);", None, "parameter 'float&x' is a reference"),
        (
            "__global__ void f(float** x);",
            None,
            "parameter 'float[*][*]x' is a pointer to pointers",
        ),
        ("__global__ void f(Settings s);", None, "parameter 'Settings s' is of another type"),
        ("__global__ void f(long double s);", None, "is of another type, but a kernel takes"),
    ],
)
def test_texts_without_a_kernel_are_refused(text, name, message):
    with pytest.raises(ValueError, match=message):
        torch.cuda.kernel(text, name)


def test_options_that_read_files_are_refused():
    with pytest.raises(ValueError, match="option '-I/usr/include' reads files"):
        torch.cuda.kernel("__global__ void f();", options=["-I/usr/include"])
    with pytest.raises(TypeError, match="options is '-DA', expected a list"):
        torch.cuda.kernel("__global__ void f();", options="-DA")


@pytest.mark.parametrize(
    ("declaration", "kind", "dtype"),
    [
        ("unsigned long int const* p", "unsigned long int const*", torch.uint64),
        ("signed char* const p", "signed char*", torch.int8),
        ("const volatile unsigned short* __restrict__ p", "const unsigned short*", torch.uint16),
        ("__nv_bfloat16 p[4]", "__nv_bfloat16*", torch.bfloat16),
        ("::std::uint32_t *p", "::std::uint32_t*", torch.uint32),
        ("const thrust::complex<double>* p", "const thrust::complex<double>*", torch.complex128),
        ("float4* p", "float4*", None),
        ("real_t p = 1.5", "real_t", torch.float32),
        ("long long unsigned p", "long long unsigned", torch.uint64),
    ],
)
def test_declarations_of_parameters(declaration, kind, dtype):
    text = (
        "typedef float real_t;\n__launch_bounds__(64) __global__ void __launch_bounds__(64) f({});"
    )
    k = torch.cuda.kernel(text.format(declaration))
    assert k._kernel.parameters == [("p", kind, dtype)]


@on_fake
def test_the_example_runs(tmp_path):
    program = Path(__file__).resolve().parents[2] / "examples" / "cuda_kernel.py"
    if not program.exists():
        pytest.skip("not run from a source checkout")
    command = [sys.executable, str(program), "--steps", "4"]
    done = subprocess.run(
        command, env=fakes.environment(), capture_output=True, text=True, timeout=300, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr
    losses = [float(x) for x in re.findall(r"loss:? ([\d.]+)", done.stdout)]
    assert "derivative: True" in done.stdout and len(losses) == 5 and losses[-1] < losses[0]


@on_fake
@pytest.mark.skipif(fakes.nvrtc_path() is None, reason="NVRTC's wheel is not installed")
def test_nvrtc_compiles_them(tmp_path):
    """The real compiler makes a cubin, which the fake driver cannot load."""
    fakes.run(
        r"""
text = r'''
#include <cograd/kernel.h>
#include <cstdint>
namespace ops {
template <class T>
__global__ void scale(T* y, const T* x, float a, int64_t n) {
  __shared__ float kept;
  if (threadIdx.x == 0) kept = a;
  __syncthreads();
  const int64_t i = cograd::grid_index();
  if (i < n) y[i] = T(kept * float(x[i]));
}
}
'''
k = torch.cuda.kernel(text, "ops::scale<cograd::Half>", options=["--use_fast_math"])
raises(RuntimeError, "cuModuleLoadData", k.compile)
wrong = torch.cuda.kernel("__global__ void wrong(float* y) {\n  y[0] = missing;\n}")
e = raises(RuntimeError, "could not compile wrong.cu for sm_90", wrong.compile)
assert 'wrong.cu(2): error: identifier "missing" is undefined' in str(e), e
""",
        COGRAD_NVRTC=fakes.nvrtc_path(),
        COGRAD_KERNEL_CACHE=tmp_path,
    )
    (kept,) = tmp_path.glob("*.cubin")
    assert b"ops5scale" in kept.read_bytes() and b"\x7fELF" in kept.read_bytes()
