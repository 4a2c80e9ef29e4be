// SPDX-License-Identifier: BSD-3-Clause
// Errors, threads, hooks, indexing, accessors and tensor creation from C++.
#include <cograd/extension.h>

#include <atomic>
#include <thread>

using namespace cograd;
using autograd::AutogradContext;
using autograd::Function;
namespace I = cograd::indexing;

namespace {

struct NotAnException {};

void raise(const std::string& kind) {
  if (kind == "runtime") COGRAD_CHECK(false, "told to ", 1, ' ', 2.5, ' ', true);
  if (kind == "value") COGRAD_CHECK_VALUE(false, "told to");
  if (kind == "type") COGRAD_CHECK_TYPE(false, "told to");
  if (kind == "index") COGRAD_CHECK_INDEX(false, "told to");
  if (kind == "not_implemented") COGRAD_CHECK_NOT_IMPLEMENTED(false, "told to");
  if (kind == "std_runtime") throw std::runtime_error("std text");
  if (kind == "invalid_argument") throw std::invalid_argument("std text");
  if (kind == "domain_error") throw std::domain_error("std text");
  if (kind == "out_of_range") throw std::out_of_range("std text");
  if (kind == "range_error") throw std::range_error("std text");
  if (kind == "bad_alloc") throw std::bad_alloc();
  if (kind == "foreign") throw NotAnException();
  if (kind == "op") (void)ones({2}).reshape({3});
  if (kind == "undefined") (void)Tensor().sizes();
  if (kind == "long") COGRAD_CHECK(false, std::string(100000, 'x'));
}
struct Raises : Function<Raises> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const std::string& where,
                        const std::string& kind) {
    if (where == "forward") raise(kind);
    ctx->saved_data["kind"] = kind;
    return x * 2;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    raise(ctx->saved_data["kind"].to_string());
    return {grads[0] * 2, Tensor(), Tensor()};
  }
};
struct RaisesInThreads : Function<RaisesInThreads> {
  static Tensor forward(AutogradContext*, const Tensor& x) { return x * 2; }
  static variable_list backward(AutogradContext*, variable_list) {
    parallel_for(0, 1000, 10, [](int64_t lo, int64_t) {
      if (lo >= 500) throw std::out_of_range("in a thread");
    });
    return {Tensor()};
  }
};

Tensor call_backward(const Tensor& x) {
  Tensor y = (x * x).sum();
  y.backward();
  return x.grad();
}
Tensor backward_of(const Tensor& y) {
  y.backward();
  return y.detach();
}
bool swallow(const Tensor& y) {
  try {
    y.backward();
  } catch (const Error&) {
    return true;
  }
  return false;
}
void rethrow_other(const Tensor& y) {
  try {
    y.backward();
  } catch (const Error& e) {
    throw std::invalid_argument("instead of: " + std::string(e.what()));
  }
}
Tensor second_derivative(const Tensor& x) {
  Tensor y = (x * x * x).sum();
  Tensor g = autograd::grad({y}, {x}, {}, std::nullopt, true)[0];
  return autograd::grad({g.sum()}, {x})[0];
}
std::tuple<Tensor, double> hooks(const Tensor& x) {
  double seen = 0;
  Tensor y = x * 2;
  y.register_hook([&](const Tensor& g) { seen += g.sum().item<double>(); });
  y.register_hook([](const Tensor& g) { return g * 10; });
  const uint64_t id =
      y.register_hook([](const Tensor&) -> Tensor { throw Error(ErrorKind::Value, "removed"); });
  y.remove_hook(id);
  Tensor g = autograd::grad({y.sum()}, {x})[0];
  return {g, seen};
}
Tensor hook_that_raises(const Tensor& x) {
  Tensor y = x * 2;
  y.register_hook([](const Tensor&) { throw std::invalid_argument("from the hook"); });
  y.sum().backward();
  return y;
}
Tensor add_hook(const Tensor& x) {
  Tensor y = x * 2;
  y.register_hook([](const Tensor& g) { return g * 3; });
  return y;
}

int64_t parallel_sum(int64_t n) {
  std::atomic<int64_t> sum{0};
  parallel_for(0, n, 100, [&](int64_t lo, int64_t hi) {
    int64_t part = 0;
    for (int64_t i = lo; i < hi; ++i) part += i;
    sum += part;
  });
  return sum;
}
void parallel_raise(int64_t n) {
  parallel_for(0, n, 1,
               [&](int64_t lo, int64_t) { COGRAD_CHECK_VALUE(lo < n / 2, "item ", lo >= n / 2); });
}
bool parallel_nested() {
  std::atomic<bool> inside{true};
  parallel_for(0, 64, 1, [&](int64_t, int64_t) {
    if (!in_parallel_region()) inside = false;
    parallel_for(0, 8, 1, [&](int64_t, int64_t) {});
  });
  return inside && !in_parallel_region();
}
// Tensors and backward on a thread that cograd did not start.
Tensor on_own_thread(const Tensor& x) {
  Tensor out;
  std::thread([&] {
    Tensor leaf = x.detach().clone().requires_grad_();
    (leaf * leaf).sum().backward();
    out = leaf.grad();
  }).join();
  return out;
}

variable_list indexed(const Tensor& x) {
  return {x[0],
          x[-1][2],
          x.index({0, I::Slice(1, 3)}),
          x.index({I::Slice(), 1}),
          x.index({I::Slice(I::None, I::None, 2)}),
          x.index({"...", 0}),
          x.index({I::Ellipsis, I::None}),
          x.index({I::None, 1}),
          x.index({tensor({1, 0})}),
          x.index({I::Slice(), tensor({2, 0})}),
          x.index({tensor({0, 1}), tensor({1, 2})}),
          x.index({x > 2}),
          x[tensor({1})],
          x.index({1, tensor({0, 2})}),
          x.index({I::Slice(-1, I::None)})};
}
Tensor index_put(const Tensor& x) {
  Tensor y = x.clone();
  y.index_put_({0}, Scalar(-1));
  y.index_put_({1, I::Slice(1, 3)}, tensor({7.0, 8.0}));
  y.index_put_({I::Slice(), tensor({0})}, Scalar(5));
  return y;
}
std::vector<std::string> options(const Tensor& x) {
  return {empty({2, 3}).summary(),
          zeros({2}, kInt64).summary(),
          ones({2}, TensorOptions().dtype(kInt32)).summary(),
          full({1, 2}, 3, x.options()).summary(),
          zeros_like(x).summary(),
          empty_like(x, x.options().dtype(kFloat32)).summary(),
          arange(3).summary(),
          tensor({1.0f, 2.0f}).summary(),
          tensor({1, 2}).summary(),
          tensor(true).summary(),
          tensor(2.5, kFloat64).summary(),
          zeros({2}, dtype(kFloat64).requires_grad(true)).requires_grad() ? "grad" : "no grad",
          empty_strided({2, 3}, {1, 2}).is_contiguous() ? "contiguous" : "strided",
          x.to(kFloat32).summary(),
          x.options().dtype() == x.scalar_type() ? "same" : "other"};
}

Tensor blob(const Tensor& log) {
  auto* data = new double[4]{1, 2, 3, 4};
  double* out = log.data_ptr<double>();
  Tensor keep = log;
  return from_blob(
      data, {2, 2},
      [out, keep](void* p) {
        out[0] += 1;
        delete[] static_cast<double*>(p);
      },
      kFloat64);
}
double accessed(const Tensor& x, int64_t i, int64_t j) {
  auto a = x.accessor<double, 2>();
  return a[i][j] + static_cast<double>(a.size(0) * 0);
}
void accessor_dim(const Tensor& x) { (void)x.accessor<double, 3>(); }
void accessor_type(const Tensor& x) { (void)x.accessor<float, 2>(); }
void data_type(const Tensor& x) { (void)x.data_ptr<int64_t>(); }
std::string dispatched(const Tensor& x) {
  return COGRAD_DISPATCH_FLOATING(x.dtype(), "dispatched", [&] {
    return std::string(sizeof(scalar_t) == 8 ? "double" : "float");
  });
}
std::string dispatched_complex(const Tensor& x) {
  return COGRAD_DISPATCH_FLOATING_AND_COMPLEX(x.dtype(), "dispatched_complex", [&] {
    const std::string size = std::to_string(sizeof(scalar_t));
    if constexpr (is_complex_type<scalar_t>)
      return COGRAD_DISPATCH_COMPLEX(x.dtype(), "again", [&] { return "complex of " + size; });
    else
      return "real of " + size;
  });
}
bool modes(const Tensor& x) {
  bool ok = GradMode::is_enabled();
  {
    NoGradGuard guard;
    ok &= !GradMode::is_enabled() && !(x * 2).requires_grad();
    AutoGradMode on(true);
    ok &= (x * 2).requires_grad();
  }
  {
    InferenceMode guard;
    ok &= (x * 2).is_inference();
  }
  return ok && GradMode::is_enabled() && (x * 2).requires_grad();
}
Tensor operators(const Tensor& a, const Tensor& b) {
  Tensor c = a + b * 2 - 1 / a;
  c += b;
  c *= 2.0;
  c -= 1;
  c /= b;
  return -c + (a < b).to(kFloat64) + (a != b).to(kFloat64) + a % 2;
}
bool versions(const Tensor& x) {
  const uint32_t before = x._version();
  x.bump_version();
  return x._version() == before + 1;
}
int64_t calls_by_name(const Tensor& x) {
  Op add("add"), own("t_runtime::parallel_sum"), topk("topk");
  const Tensor y = add.call<Tensor>(x, 1.0);
  const auto best = topk.call<std::tuple<Tensor, Tensor>>(y, int64_t{1});
  return own.call<int64_t>(int64_t{10}) + std::get<1>(best).item<int64_t>();
}
void no_such_op(const Tensor& x) { Op("t_runtime::nowhere").call<Tensor>(x); }
void wrong_arguments(const Tensor& x) { Op("t_runtime::parallel_sum").call<int64_t>(x); }

}  // namespace

COGRAD_LIBRARY(t_runtime, m) {
  m.def<Raises>("raises", "x, where, kind");
  m.def("raises_plain", [](std::string kind) { raise(kind); }, "kind");
  m.def<RaisesInThreads>("raises_in_threads", "x");
  m.def("call_backward", &call_backward, "x").non_differentiable();
  m.def("backward_of", &backward_of, "y").non_differentiable();
  m.def("swallow", &swallow, "y");
  m.def("rethrow_other", &rethrow_other, "y");
  m.def("second_derivative", &second_derivative, "x").non_differentiable();
  m.def("hooks", &hooks, "x").non_differentiable();
  m.def("hook_that_raises", &hook_that_raises, "x");
  m.def("add_hook", &add_hook, "x");
  m.def("parallel_sum", &parallel_sum, "n");
  m.def("parallel_raise", &parallel_raise, "n");
  m.def("parallel_nested", &parallel_nested);
  m.def("on_own_thread", &on_own_thread, "x").non_differentiable();
  m.def("indexed", &indexed, "x");
  m.def("index_put", &index_put, "x");
  m.def("options", &options, "x");
  m.def("blob", &blob, "log");
  m.def("accessed", &accessed, "x, i, j");
  m.def("accessor_dim", &accessor_dim, "x");
  m.def("accessor_type", &accessor_type, "x");
  m.def("data_type", &data_type, "x");
  m.def("dispatched", &dispatched, "x");
  m.def("dispatched_complex", &dispatched_complex, "x");
  m.def("modes", &modes, "x");
  m.def("operators", &operators, "a, b");
  m.def("versions", &versions, "x");
  m.def("calls_by_name", &calls_by_name, "x");
  m.def("no_such_op", &no_such_op, "x");
  m.def("wrong_arguments", &wrong_arguments, "x");
}
