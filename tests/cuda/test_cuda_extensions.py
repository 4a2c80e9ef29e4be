# SPDX-License-Identifier: BSD-3-Clause
"""Ops in C++ on GPUs: kernels, tensors made on a device, streams, guards, torch's names."""

import fakes
import pytest

import cograd as torch
from cograd.utils import cpp_extension

why = fakes.why_not()
pytestmark = pytest.mark.skipif(why is not None, reason=str(why))

EXTENSION = r'''
from cograd.utils.cpp_extension import load_inline
CUDA = r"""
#include <cograd/kernel.h>
__global__ void scale(float* y, const float* x, float a, int64_t n) {
  const int64_t i = cograd::grid_index();
  if (i < n) y[i] = a * x[i];
}
"""
MORE = r"""
template <class T>
__global__ void add_one(T* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += AMOUNT;
}
template <class T>
__global__ void wrong(T* y) { y[0] = T::missing; }
"""
CPP = r"""
using namespace cograd;

static const cuda::Kernel add_one(cuda_text, "add_one<double>", {"-DAMOUNT=1"});
static const cuda::Kernel wrong(cuda_text, "wrong<float>");

// Returns a * x.
Tensor scaled(const Tensor& x, double a) {
  if (!x.is_cuda()) return x * a;
  const Tensor in = x.contiguous(), y = empty_like(in);
  scale(cuda::threads(in.numel()), y, in, a, in.numel());
  return y;
}

// Adds 1 to the elements.
void add_one_(Tensor& x) { add_one(cuda::threads(x.numel()), x, x.numel()); }

struct Scaled : autograd::Function<Scaled> {
  static Tensor forward(autograd::AutogradContext* ctx, const Tensor& x, double a) {
    ctx->saved_data["a"] = a;
    return scaled(x, a);
  }
  static autograd::variable_list backward(autograd::AutogradContext* ctx,
                                          autograd::variable_list g) {
    return {Scaled::apply(g[0], ctx->saved_data["a"].to_double()), Tensor()};
  }
};

// The devices of new tensors, and of tensors that were moved.
std::vector<std::string> places(const Tensor& x) {
  const auto where = [](const Tensor& t) { return cograd::detail::concat(t.device()); };
  return {where(x), where(empty({2})), where(empty({2}, x.options())), where(zeros({2}, kCUDA)),
          where(ones({2}, dtype(kInt).device(x.device()))), where(zeros_like(x)),
          where(x.cpu()), where(x.cpu().cuda()), where(arange(3, x.options())),
          where(tensor({1.0, 2.0}, x.device())), where(x.to(Device(kCUDA, 0)))};
}

bool on_the_side(const Tensor& y, const Tensor& x) {
  const cuda::Stream before = cuda::current_stream(), side = cuda::Stream::create();
  {
    const cuda::StreamGuard guard(side);
    COGRAD_CHECK(cuda::current_stream() == side && side != before, "not the current stream");
    scale(cuda::Launch{{4}, {256}}, y, x, 3, x.numel());
  }
  COGRAD_CHECK(cuda::current_stream() == before, "not restored");
  const bool waited = !side.query();
  side.synchronize();
  return waited && side.query();
}

std::vector<int64_t> devices() {
  std::vector<int64_t> all{cuda::device_count(), cuda::current_device()};
  {
    const cuda::DeviceGuard guard(1);
    all.push_back(cuda::current_device());
    all.push_back(zeros({1}, kCUDA).device().index());
  }
  all.push_back(cuda::current_device());
  return all;
}

double first(const Tensor& x) { return x.data_ptr<float>()[0]; }
int64_t address(const Tensor& x) { return reinterpret_cast<int64_t>(x.device_ptr<float>()); }
void mixed(const Tensor& y, const Tensor& x) { scale(cuda::threads(4), y, x, 1.0f, 4); }
void broken(const Tensor& y) { wrong(cuda::threads(1), y); }
Tensor summed(const Tensor& x) { return x.sum(); }

COGRAD_LIBRARY(gpu_ops, m) {
  m.def("scaled", &scaled).cuda();
  m.def("add_one_", &add_one_).cuda();
  m.def<Scaled>("scaled_by_function").cuda();
  m.def("places", &places).cuda();
  m.def("on_the_side", &on_the_side).cuda();
  m.def("devices", &devices);
  m.def("first", &first).cuda();
  m.def("first_on_the_cpu", &first);
  m.def("address", &address).cuda();
  m.def("mixed", &mixed).cuda();
  m.def("broken", &broken).cuda();
  m.def("summed", &summed).cuda();
}
"""
ops = load_inline("gpu_ops", CPP, [CUDA, MORE], extra_cuda_cflags="-DAMOUNT=5")
x = torch.arange(8.).cuda()
'''


def test_ops_in_cpp_start_kernels():
    fakes.run(
        EXTENSION
        + r"""
torch.cuda.set_fallback("error")  # the ops get the tensors of the GPU
assert ops.scaled(x, 2).tolist() == (2 * torch.arange(8.)).tolist()
assert ops.scaled(torch.arange(3.), 2).tolist() == [0, 2, 4]
turned = x.reshape(2, 4).t()
assert torch.equal(ops.scaled(turned, 2).cpu(), 2 * turned.cpu())
assert ops.summed(x).item() == 28 and ops.summed(x).is_cuda
d = torch.zeros(300, dtype=torch.float64, device="cuda")
before = d._version
assert ops.add_one_(d) is None
assert d.tolist() == [1] * 300 and d._version > before
w = x.clone().requires_grad_()
ops.scaled_by_function(w, 3).square().sum().backward()
assert torch.equal(w.grad.cpu(), 18 * torch.arange(8.))
raises(RuntimeError, "op 'gpu_ops::scaled' has no gradient", ops.scaled(w, 2).sum().backward)
rows = torch.arange(6.).reshape(2, 3).cuda()
assert torch.func.vmap(lambda r: ops.scaled(r, 2))(rows).tolist() == [[0, 2, 4], [6, 8, 10]]
places = ops.places(x)
assert places == ["cuda:0", "cpu"] + ["cuda:0"] * 4 + ["cpu"] + ["cuda:0"] * 4, places
y = torch.empty_like(x)
assert ops.on_the_side(y, x) and y.tolist() == (3 * torch.arange(8.)).tolist()
assert ops.devices() == [2, 0, 1, 1, 0]
assert ops.address(x) == x.data_ptr()
assert not torch.cuda.fallback_stats()

# Errors name the kernel, and where the op is wrong.
raises(TypeError, "data_ptr(): can't read a tensor on cuda:0", ops.first, x)
raises(RuntimeError, "there is no kernel for cuda:0", ops.first_on_the_cpu, x)
torch.cuda.set_fallback("silent")
assert ops.first_on_the_cpu(x + 4) == 4 and set(torch.cuda.fallback_stats()) == {
    "gpu_ops::first_on_the_cpu"}
raises(TypeError, "kernel 'scale': argument 'x' (const float*): expected a tensor of float32, got "
    "float64", ops.mixed, y, x.double())
raises(RuntimeError, "Expected all tensors to be on the same device", ops.mixed, y, x.cpu())
e = raises(RuntimeError, "could not compile wrong.cu for sm_90", ops.broken, x)
assert "cuda_sources[1]:5:" in str(e), e  # AMOUNT is not defined
assert "cuda_sources[1]:8:" in str(e) and "missing" in str(e), e

# The module has the kernels that need no template arguments.
ops.scale(y, x, 4, 8, threads=8)
assert y[2].item() == 8 and isinstance(ops.scale, torch.cuda.Kernel)
assert not hasattr(ops, "add_one")
""",
        timeout=600,
        FAKE_CUDA_DEVICES=2,
    )


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("  scale<<<1, 256>>>(y);", "cuda_sources:2: '<<<'"),
        ("#include <torch/extension.h>", "cuda_sources:2: '#include <torch'"),
    ],
)
def test_code_for_the_cpu_is_refused_in_cuda_sources(line, shown):
    text = f"__global__ void f(float* y) {{}}\n{line}\n"
    with pytest.raises(NotImplementedError, match=shown.replace("(", r"\(")):
        cpp_extension.load_inline("host_code", "", text)
    with pytest.raises(TypeError, match="cuda_sources must be a string or a list of strings"):
        cpp_extension.load_inline("host_code", "", [3])
    with pytest.raises(ValueError, match="parameter 'float&x' is a reference"):
        cpp_extension.load_inline("host_code", "", "__global__ void f(float& x) {}")


COMPAT = r'''
from cograd.utils.cpp_extension import load_inline
CUDA = """
__global__ void twice(float* y, const float* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
"""
CPP = r"""
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <sstream>
#include <torch/extension.h>

torch::Tensor twice_cpu(const torch::Tensor& x) { return x + x; }
torch::Tensor twice_cuda(const torch::Tensor& x) {
  TORCH_CHECK(x.is_cuda() && x.device().type() == torch::kCUDA, "x must be a CUDA tensor");
  TORCH_CHECK(x.type().is_cuda() && x.get_device() == x.device().index());
  const at::cuda::OptionalCUDAGuard guard(device_of(x));
  auto y = torch::empty(x.sizes(), x.options());
  twice(cograd::cuda::threads(x.numel()), y, x, x.numel());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}
std::string streams(int64_t other) {
  std::ostringstream out;
  cudaStream_t first = at::cuda::getCurrentCUDAStream();
  const auto side = c10::cuda::getStreamFromPool(false, other);
  {
    c10::cuda::CUDAGuard device(other);
    out << int(c10::cuda::current_device()) << device.original_device() << device.current_device();
    c10::cuda::CUDAStreamGuard guard(side);
    out << (c10::cuda::getCurrentCUDAStream().stream() == side.stream());
    device.set_index(0);
    out << int(c10::cuda::current_device());
  }
  out << (c10::cuda::getCurrentCUDAStream() == c10::cuda::getDefaultCUDAStream())
      << (first == nullptr) << int(c10::cuda::device_count()) << torch::cuda::is_available();
  c10::cuda::OptionalCUDAGuard none(torch::Device(torch::kCPU));
  out << none.current_device().has_value();
  none.set_index(1);
  out << int(c10::cuda::current_device());
  none.reset();
  out << int(c10::cuda::current_device()) << torch::TensorOptions().device(torch::kCUDA, 1);
  return out.str();
}
TORCH_LIBRARY(gpu_compat, m) {
  m.def("twice(Tensor x) -> Tensor");
  m.def("streams(int other) -> str", &streams);
}
TORCH_LIBRARY_IMPL(gpu_compat, CPU, m) { m.impl("twice", &twice_cpu); }
TORCH_LIBRARY_IMPL(gpu_compat, CUDA, m) { m.impl("twice", &twice_cuda); }
"""
ops = load_inline("gpu_compat", CPP, CUDA, with_torch_compat=True, with_cuda=True)
'''


def test_torchs_names_of_streams_and_guards():
    fakes.run(
        COMPAT
        + """
torch.cuda.set_fallback("error")
x = torch.arange(4.)
assert ops.twice(x).tolist() == [0, 2, 4, 6] and ops.twice(x).device.type == "cpu"
there = x.to("cuda:1")
assert ops.twice(there).tolist() == [0, 2, 4, 6] and ops.twice(there).device.index == 1
found = ops.streams(1)
assert found == "1cuda:0cuda:110" + "1121" + "010" + (
    "TensorOptions(dtype=Float, device=cuda:1, layout=Strided, requires_grad=false)"), found
""",
        timeout=600,
        FAKE_CUDA_DEVICES=2,
    )


def test_without_a_gpu_each_name_says_so(tmp_path):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    ops = cpp_extension.load_inline(
        "no_gpu",
        """
        #include <cograd/cuda.h>
        int64_t count() { return cograd::cuda::device_count(); }
        void stream() { cograd::cuda::current_stream(); }
        void create() { cograd::empty({1}, cograd::kCUDA); }
        """,
        functions=["count", "stream", "create"],
    )
    assert ops.count() == 0
    for f in (ops.stream, ops.create):
        with pytest.raises(RuntimeError, match="there is no cuda device: no NVIDIA driver"):
            f()
