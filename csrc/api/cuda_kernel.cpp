// SPDX-License-Identifier: BSD-3-Clause
#include "api/cuda_kernel.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "api/handles.h"
#include "api/registration.h"
#include "cograd/dtype.h"
#include "tensor/device.h"
#include "tensor/sparse.h"
#include "transforms/batch.h"

namespace cograd::api {

namespace {

constexpr size_t kMaxParameters = 128;

std::string tuple_of(const std::array<int64_t, 3>& v) {
  return detail::concat("(", v[0], ", ", v[1], ", ", v[2], ")");
}

const char* kind_of(const cograd_value& v) noexcept {
  switch (v.kind) {
    case COGRAD_NONE:
      return "None";
    case COGRAD_TENSOR:
      return v.u.tensor == nullptr ? "None" : "a Tensor";
    case COGRAD_BOOLEAN:
      return "a bool";
    case COGRAD_INT:
      return "an int";
    case COGRAD_FLOAT:
      return "a float";
    case COGRAD_COMPLEX:
      return "a complex number";
    default:
      return "another type";
  }
}

// The bytes of a number as the kernel takes it.
struct alignas(16) Packed {
  unsigned char bytes[16];
};

struct Number {
  double real = 0, imaginary = 0;
  int64_t integer = 0;
  bool whole = false;
};

bool number_of(const cograd_value& v, Number& n) noexcept {
  if (v.kind == COGRAD_BOOLEAN || v.kind == COGRAD_INT) {
    n = {static_cast<double>(v.u.integer), 0, v.u.integer, true};
    return true;
  }
  if (v.kind != COGRAD_FLOAT && v.kind != COGRAD_COMPLEX) return false;
  n.real = v.u.number;
  if (v.kind == COGRAD_COMPLEX) std::memcpy(&n.imaginary, &v.length, sizeof n.imaginary);
  return true;
}

template <class T>
void store(Packed& p, T v) noexcept {
  std::memcpy(p.bytes, static_cast<const void*>(&v), sizeof v);
}

// Stores a number as dtype t; returns false if it is of another kind, and raises via `range` if it
// does not fit.
template <class Range>
bool pack(DType t, const cograd_value& v, Packed& p, Range&& range) {
  Number n;
  if (!number_of(v, n) || (v.kind == COGRAD_COMPLEX && !is_complex(t))) return false;
  return dispatch_values(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, bool>) {
      if (v.kind != COGRAD_BOOLEAN) return false;
      store(p, n.integer != 0);
    } else if constexpr (is_complex_type<T>) {
      using Part = typename T::value_type;
      store(p, T(static_cast<Part>(n.real), static_cast<Part>(n.imaginary)));
    } else if constexpr (std::is_integral_v<T>) {
      if (!n.whole) return false;
      if (!std::in_range<T>(n.integer)) range();
      store(p, static_cast<T>(n.integer));
    } else if constexpr (sizeof(T) == 2) {
      store(p, T(static_cast<float>(n.real)));
    } else {
      store(p, static_cast<T>(n.real));
    }
    return true;
  });
}

}  // namespace

CudaRuntime& cuda_runtime(std::string_view who) {
  std::string why;
  CudaRuntime* r = load_cuda(&why);
  COGRAD_CHECK(r != nullptr, who, who.empty() ? "" : ": ", "there is no cuda device: ", why);
  return *r;
}

// The tensors of a launch.
struct CudaKernel::Tensors {
  Device device = kHost;
  size_t first = 0;  // the parameter that decided the device
  std::vector<TensorImpl*> written;
};

CudaKernel::CudaKernel(std::string text, const std::string& expression,
                       std::vector<std::string> options, const std::vector<std::string>& strided)
    : signature_(read_kernel(text, expression, options)),
      label_(detail::concat("kernel '", signature_.name, "'")) {
  for (const std::string& o : options)
    COGRAD_CHECK_VALUE(!o.starts_with("-I") && !o.starts_with("--include-path") &&
                           !o.starts_with("-include") && !o.starts_with("--pre-include"),
                       label_, ": option '", o,
                       "' reads files, whose changes the cache of kernels cannot see; put the text "
                       "into that of the kernel");
  const auto& parameters = signature_.parameters;
  COGRAD_CHECK_VALUE(parameters.size() <= kMaxParameters, label_, " has ", parameters.size(),
                     " parameters, expected at most ", kMaxParameters);
  strided_.resize(parameters.size());
  for (const std::string& name : strided) {
    const auto it = std::find_if(parameters.begin(), parameters.end(),
                                 [&](const auto& p) { return p.name == name && p.pointer; });
    COGRAD_CHECK_VALUE(it != parameters.end(), label_, ": strided names '", name,
                       "', which is no pointer among its parameters");
    strided_[static_cast<size_t>(it - parameters.begin())] = true;
  }
  text_ = {signature_.name, std::move(text), signature_.expression, std::move(options)};
}

std::string CudaKernel::who(size_t i) const {
  const KernelParameter& p = signature_.parameters[i];
  return detail::concat(label_, ": argument '", p.name, "' (", p.type, ")");
}

void* CudaKernel::pointer_of(size_t i, const cograd_value& v, Tensors& tensors) const {
  const KernelParameter& p = signature_.parameters[i];
  if (v.kind == COGRAD_NONE || (v.kind == COGRAD_TENSOR && v.u.tensor == nullptr)) return nullptr;
  COGRAD_CHECK_TYPE(v.kind == COGRAD_TENSOR, who(i), ": expected a Tensor, got ", kind_of(v));
  const Tensor& t = view_of(v.u.tensor);
  if ((t->flags & (kBatched | kSparse)) != 0) [[unlikely]] {
    check_not_sparse(t, who(i).c_str());
    fail_one_value(who(i).c_str());
  }
  COGRAD_CHECK(t->device.type == DeviceType::CUDA, who(i), ": expected a tensor on a GPU, got one ",
               "on ", to_string(t->device), t->device == kHost ? "; move it by .to(\"cuda\")" : "");
  if (tensors.device == kHost) {
    tensors.device = t->device;
    tensors.first = i;
  }
  COGRAD_CHECK(t->device == tensors.device, who(i), ": expected a tensor on ",
               to_string(tensors.device), ", where argument '",
               signature_.parameters[tensors.first].name, "' is, got one on ",
               to_string(t->device));
  COGRAD_CHECK_TYPE(!p.dtype || *p.dtype == t.dtype(), who(i), ": expected a tensor of ",
                    dtype_name(*p.dtype), ", got ", dtype_name(t.dtype()));
  COGRAD_CHECK_VALUE(strided_[i] || (t->flags & kContiguous) != 0, who(i),
                     ": expected a contiguous tensor, got one of shape ", to_string(t.sizes()),
                     " with strides ", to_string(t.strides()),
                     "; pass x.contiguous(), or name the parameter in `strided`");
  COGRAD_CHECK(!thread_state.grad_enabled || !requires_grad(t) || in_opaque_op(), who(i),
               ": expected a tensor that does not require grad, as a kernel has no derivative; ",
               "call it in the forward of an autograd.Function, or under no_grad()");
  if (capture_open()) cuda_runtime(label_).check_operand(*t->storage);
  if (p.written) tensors.written.push_back(t.impl());
  return t->data;
}

void CudaKernel::check_sizes(const LaunchSizes& s) const {
  constexpr int64_t kMostThreads = 1024;
  constexpr std::array<int64_t, 3> kGrid{0x7FFFFFFF, 65535, 65535}, kBlock{1024, 1024, 64};
  for (size_t d = 0; d < 3; ++d) {
    COGRAD_CHECK_VALUE(s.grid[d] >= 1 && s.grid[d] <= kGrid[d], label_, ": grid is ",
                       tuple_of(s.grid), ", expected 1 to ", kGrid[d], " blocks in dim ", d);
    COGRAD_CHECK_VALUE(s.block[d] >= 1 && s.block[d] <= kBlock[d], label_, ": block is ",
                       tuple_of(s.block), ", expected 1 to ", kBlock[d], " threads in dim ", d);
  }
  const int64_t threads = s.block[0] * s.block[1] * s.block[2];
  COGRAD_CHECK_VALUE(threads <= kMostThreads, label_, ": block is ", tuple_of(s.block),
                     ", which are ", threads, " threads, expected at most ", kMostThreads);
  COGRAD_CHECK_VALUE(s.shared_bytes >= 0 && s.shared_bytes <= 0x7FFFFFFF, label_,
                     ": shared_bytes is ", s.shared_bytes, ", expected a size of shared memory");
}

LaunchShape CudaKernel::shape_of(LaunchSizes s) const {
  if (s.threads) {
    COGRAD_CHECK_VALUE(*s.threads >= 0, label_, ": threads is ", *s.threads,
                       ", expected at least 0");
    const int64_t block = std::max<int64_t>(s.block[0], 1);
    s.grid = {std::max<int64_t>((*s.threads - 1) / block + 1, 1), 1, 1};
  }
  check_sizes(s);
  LaunchShape shape;
  for (size_t d = 0; d < 3; ++d) {
    shape.blocks[d] = static_cast<unsigned>(s.grid[d]);
    shape.threads[d] = static_cast<unsigned>(s.block[d]);
  }
  shape.shared_bytes = static_cast<unsigned>(s.shared_bytes);
  return shape;
}

void* CudaKernel::function() {
  const Device d = thread_place.now;
  auto& slot = functions_.at(static_cast<size_t>(d.index));
  void* f = slot.load(std::memory_order_acquire);
  if (f == nullptr) slot = f = cuda_runtime(label_).user_kernel(text_);
  return f;
}

namespace {
Device current_gpu(CudaRuntime& runtime) {
  return {DeviceType::CUDA, static_cast<int8_t>(runtime.current())};
}
}  // namespace

void CudaKernel::compile() {
  const PlaceGuard place(current_gpu(cuda_runtime("cuda.kernel()")));
  function();
}

void CudaKernel::launch(const LaunchSizes& sizes, std::span<const cograd_value> args) {
  const auto& parameters = signature_.parameters;
  COGRAD_CHECK_TYPE(args.size() == parameters.size(), label_, ": expected ", parameters.size(),
                    " arguments, got ", args.size());
  const LaunchShape shape = shape_of(sizes);
  CudaRuntime& runtime = cuda_runtime(label_);
  Tensors tensors;
  std::array<Packed, kMaxParameters> values;
  std::array<void*, kMaxParameters> pointers;
  for (size_t i = 0; i < args.size(); ++i) {
    const KernelParameter& p = parameters[i];
    pointers[i] = values[i].bytes;
    if (p.pointer) {
      store(values[i], pointer_of(i, args[i], tensors));
      continue;
    }
    const auto range = [&] {
      detail::fail(ErrorKind::Value, who(i), ": ", args[i].u.integer, " is out of range");
    };
    COGRAD_CHECK_TYPE(pack(*p.dtype, args[i], values[i], range), who(i), ": expected ",
                      *p.dtype == DType::Bool ? "a bool"
                      : is_integral(*p.dtype) ? "an int"
                                              : "a number",
                      ", got ", kind_of(args[i]));
  }
  if (sizes.threads == 0) return;
  const PlaceGuard place(tensors.device == kHost ? current_gpu(runtime) : tensors.device);
  runtime.launch_user(signature_.name, function(), shape, pointers.data());
  for (TensorImpl* t : tensors.written) t->bump_version();
}

}  // namespace cograd::api
