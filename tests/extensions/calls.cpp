// SPDX-License-Identifier: BSD-3-Clause
// Corners of the extension API: written parameters, lists of tensors, threads, hooks, bad input.
#include <cograd/extension.h>

#include <atomic>
#include <chrono>
#include <thread>

using namespace cograd;
using autograd::AutogradContext;
using autograd::Function;
using autograd::variable_list;

namespace {

// --- gradients of parameters that are Tensor&, optional lists and lists of optionals ---
struct Doubled : Function<Doubled> {
  static Tensor forward(AutogradContext*, Tensor& x) { return x * 2; }
  static variable_list backward(AutogradContext*, variable_list g) { return {g[0] * 2}; }
};
struct Double : Function<Double> {
  static Tensor forward(AutogradContext* ctx, Tensor& x) {
    x.mul_(2);
    ctx->mark_dirty({x});
    return x;
  }
  static variable_list backward(AutogradContext*, variable_list g) { return {g[0] * 2}; }
};
struct MaybeList : Function<MaybeList> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x,
                        const std::optional<std::vector<Tensor>>& l) {
    ctx->saved_data["n"] = static_cast<int64_t>(l ? l->size() : 0);
    Tensor y = x * 1;
    for (size_t i = 0; l && i < l->size(); ++i) y = y + (*l)[i] * static_cast<double>(i + 2);
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list g) {
    variable_list out{g[0]};
    for (int64_t i = 0; i < ctx->saved_data["n"].to_int(); ++i)
      out.push_back(g[0] * static_cast<double>(i + 2));
    return out;
  }
};
struct ListOfMaybe : Function<ListOfMaybe> {
  static Tensor forward(AutogradContext*, const std::vector<std::optional<Tensor>>& l) {
    return *l[0] * 2 + *l[2] * 3;
  }
  static variable_list backward(AutogradContext*, variable_list g) {
    return {g[0] * 2, Tensor(), g[0] * 3};
  }
};
Tensor list_of_maybe(const Tensor& x, const Tensor& y) {
  return ListOfMaybe::apply(std::vector<std::optional<Tensor>>{x, std::nullopt, y});
}
void triple_(Tensor& x) { x.mul_(3); }

// --- threads ---
std::atomic<int> readers{0};
struct ReadsLong : Function<ReadsLong> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x) {
    ctx->save_for_backward(std::vector<Tensor>(8, x));
    return x * 2;
  }
  // Every second call reads while the other one ends and gives the saved tensors up.
  static variable_list backward(AutogradContext* ctx, variable_list g) {
    const HeavyGuard guard;
    if (readers++ % 2 == 0)
      for (int i = 0; i < 3000; ++i) (void)ctx->get_saved_variables();
    return {g[0] * 2};
  }
};

// Raises the error of an op that ran on another thread, after errors that were handled on this one.
void worker_error(const Tensor& x, int64_t handled) {
  const auto me = std::this_thread::get_id();
  for (int64_t i = 0; i < handled; ++i) {
    try {
      (void)x.reshape({23, 29});
    } catch (const Error&) {
    }
  }
  std::atomic<bool> reached{false};
  parallel_for(0, 2, 1, [&](int64_t, int64_t) {
    if (std::this_thread::get_id() != me) {
      reached = true;
      (void)x.reshape({17, 19});
    }
    for (int wait = 0; wait < 2000 && !reached; ++wait)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  });
}

// --- indices, calls by name, bad input ---
Tensor stored_index(const Tensor& x, const Tensor& where) {
  std::vector<TensorIndex> items;
  items.push_back(where + 0);                       // nobody else holds this sum
  const Tensor a = where * 1000, b = where * 1000;  // which would take its memory
  std::vector<TensorIndex> copied(items);
  items = copied;
  copied.clear();
  return x.index(items);
}
Tensor number_as_self(const Tensor& x) { return Op("add_").call<Tensor>(5.0, x); }
Tensor joined(const Tensor& x, const std::string& how) {
  if (how == "cat") return cat(std::vector<Tensor>{Tensor(), x});
  return stack(std::vector<Tensor>{x, Tensor()});
}
std::vector<Tensor> two(const Tensor& x) { return {x + 1, x * 2}; }
Tensor two_by_name(const Tensor& x) {
  const auto parts = Op("t_calls::two").call<std::vector<Tensor>>(x);
  COGRAD_CHECK(parts.size() == 2, "expected two parts, got ", parts.size());
  return parts[0] * parts[1];
}

// --- hooks ---
Tensor hook_of_leaf(const Tensor& x, IntArrayRef shape, DType dtype) {
  Tensor leaf = x.detach();
  leaf.requires_grad_();
  const std::vector<int64_t> sizes = shape.vec();
  leaf.register_hook([=](const Tensor&) { return ones(sizes, TensorOptions(dtype)); });
  (leaf * 2).sum().backward();
  return leaf.grad();
}
Tensor hook_between(const Tensor& x, IntArrayRef shape, DType dtype) {
  Tensor leaf = x.detach();
  leaf.requires_grad_();
  const Tensor middle = leaf.exp();
  const std::vector<int64_t> sizes = shape.vec();
  middle.register_hook([=](const Tensor&) { return ones(sizes, TensorOptions(dtype)); });
  middle.sum().backward();
  return leaf.grad();
}

// --- parameters and results ---
bool is_largest(size_t n) { return n == static_cast<size_t>(-1); }
int64_t small(uint16_t n) { return n; }
const char* literal() { return "text"; }
std::vector<int64_t> pair_of(const Tensor&, IntArrayRef s) { return s.vec(); }
int64_t maybe_int(const Tensor&, std::optional<int64_t> n) { return n.value_or(-1); }

}  // namespace

COGRAD_LIBRARY(t_calls, m) {
  m.def<Doubled>("doubled");
  m.def<Double>("double_");
  m.def<MaybeList>("maybe_list", "x, l=None");
  m.def("list_of_maybe", &list_of_maybe);
  m.def("triple_", &triple_);
  m.def<ReadsLong>("reads_long");
  m.def("worker_error", &worker_error);
  m.def("stored_index", &stored_index);
  m.def("number_as_self", &number_as_self);
  m.def("joined", &joined);
  m.def("two", &two);
  m.def("two_by_name", &two_by_name);
  m.def("hook_of_leaf", &hook_of_leaf);
  m.def("hook_between", &hook_between);
  m.def("is_largest", &is_largest);
  m.def("small", &small);
  m.def("literal", &literal);
  m.def("pair_of", &pair_of, "(Tensor x, int[2] s=1)");
  m.def("maybe_int", &maybe_int, "(Tensor x, int? n=None) -> int");
}

// --- typed schemas with list results ---
COGRAD_LIBRARY_FRAGMENT(t_calls, lists) {
  lists.def(
      "ints", [](const Tensor& x) { return std::vector<int64_t>{x.dim(), x.numel()}; },
      "(Tensor x) -> int[]");
  lists.def(
      "twice", [](const Tensor& x) { return std::vector<Tensor>{x, x * 2}; },
      "(Tensor x) -> Tensor[]");
}

// --- what COGRAD_CHECK prints ---
COGRAD_LIBRARY_FRAGMENT(t_calls, texts) {
  texts.def("describe", [](const Tensor& x) {
    COGRAD_CHECK(false, x.sizes(), ' ', x.dtype(), ' ', x.device(), ' ', x, ' ', Scalar(2.5));
  });
}
