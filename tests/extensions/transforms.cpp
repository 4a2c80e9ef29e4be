// SPDX-License-Identifier: BSD-3-Clause
// Functions and ops in C++ with and without rules for forward mode and vmap.
#include <cograd/extension.h>

#include <atomic>

using namespace cograd;
using autograd::AutogradContext;
using autograd::Function;
using autograd::variable_list;

static std::atomic<int64_t> calls{0};  // of rules, to see that they run
static int64_t rule_calls() { return calls.exchange(0); }

// x^3 * k on the numbers, whose gradient is made of ops: tangents and samples need no rule.
static Tensor cubed(const Tensor& x, double k) {
  Tensor in = x.contiguous(), out = empty_like(in);
  const double* p = in.data_ptr<double>();
  double* q = out.data_ptr<double>();
  for (int64_t i = 0; i < in.numel(); ++i) q[i] = k * p[i] * p[i] * p[i];
  return out;
}
template <class T>
struct CubeBase : Function<T> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, double k) {
    ctx->save_for_backward({x});
    ctx->saved_data["k"] = k;
    return cubed(x, k);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const Tensor x = ctx->get_saved_variables()[0];
    return {grads[0] * (3 * ctx->saved_data["k"].to_double()) * x * x, Tensor()};
  }
};
struct Plain : CubeBase<Plain> {};
struct WithRules : CubeBase<WithRules> {
  static Tensor jvp(AutogradContext* ctx, variable_list tangents) {
    ++calls;
    const Tensor x = ctx->get_saved_variables()[0];
    return tangents[0] * (3 * ctx->saved_data["k"].to_double()) * x * x;
  }
  static std::pair<Tensor, int64_t> vmap(const VmapInfo& info, const InDims& in_dims,
                                         const Tensor& x, double k) {
    ++calls;
    COGRAD_CHECK(info.batch_size == x.size(*in_dims[0]) && !in_dims[1], "wrong info");
    return {WithRules::apply(x, k), *in_dims[0]};
  }
};
struct Generated : Function<Generated> {
  static constexpr bool generate_vmap_rule = true;
  static Tensor forward(AutogradContext* ctx, const Tensor& x, double k) {
    ctx->save_for_backward({x});
    ctx->saved_data["k"] = k;
    return x * x * x * k;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const Tensor x = ctx->get_saved_variables()[0];
    return {grads[0] * (3 * ctx->saved_data["k"].to_double()) * x * x, Tensor()};
  }
};

// Several arguments and results of all kinds; sums of a list, and the first times y.
struct Mixed : Function<Mixed> {
  using Out = std::tuple<Tensor, std::vector<Tensor>>;
  static Out forward(AutogradContext* ctx, TensorList list, const std::optional<Tensor>& y,
                     const char* text) {
    (void)text;
    ctx->save_for_backward({list[0], y ? *y : Tensor()});
    Tensor sum = list[0].clone();
    for (size_t i = 1; i < list.size(); ++i) sum = sum + list[i];
    return {sum, {y ? list[0] * *y : list[0] * 2}};
  }
  static variable_list backward(AutogradContext* ctx, variable_list g) {
    const variable_list saved = ctx->get_saved_variables();
    const Tensor& y = saved[1];
    variable_list out{g[0] + (y.defined() ? g[1] * y : g[1] * 2), g[0]};
    out.push_back(y.defined() ? g[1] * saved[0] : Tensor());
    out.push_back(Tensor());
    return out;
  }
};
static variable_list mixed(TensorList list, const std::optional<Tensor>& y) {
  auto [sum, products] = Mixed::apply(list, y, "text");
  return {sum, products[0]};
}

// The backward computes on the numbers: forward mode needs the jvp.
struct Opaque : Function<Opaque> {
  static constexpr bool once_differentiable = true;
  static Tensor forward(AutogradContext* ctx, const Tensor& x) {
    ctx->save_for_backward({x});
    ctx->save_for_forward({x * 2});
    return x * x;
  }
  static variable_list backward(AutogradContext* ctx, variable_list g) {
    return {g[0] * ctx->get_saved_variables()[0] * 2};
  }
};
struct OpaqueWithJvp : Function<OpaqueWithJvp> {
  static constexpr bool once_differentiable = true;
  static Tensor forward(AutogradContext* ctx, const Tensor& x) { return Opaque::forward(ctx, x); }
  static variable_list backward(AutogradContext* ctx, variable_list g) {
    return Opaque::backward(ctx, g);
  }
  static variable_list jvp(AutogradContext* ctx, variable_list t) {
    return {t[0] * ctx->get_saved_variables()[0]};
  }
};

// Its backward reads elements.
struct Loops : Function<Loops> {
  static constexpr bool once_differentiable = true;
  static Tensor forward(AutogradContext* ctx, const Tensor& x) {
    ctx->save_for_backward({x});
    return x * x;
  }
  static variable_list backward(AutogradContext* ctx, variable_list g) {
    const Tensor x = ctx->get_saved_variables()[0];
    Tensor out = cograd::empty(x.sizes(), x.options());
    const auto in = x.accessor<double, 1>(), grad = g[0].accessor<double, 1>();
    auto to = out.accessor<double, 1>();
    for (int64_t i = 0; i < x.numel(); ++i) to[i] = 2 * in[i] * grad[i];
    return {out};
  }
  static variable_list jvp(AutogradContext* ctx, variable_list t) {
    return {t[0] * ctx->get_saved_variables()[0] * 2};
  }
};

// Does not say that its backward reads elements.
struct Unmarked : Function<Unmarked> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x) {
    ctx->save_for_backward({x});
    return x * x;
  }
  static variable_list backward(AutogradContext* ctx, variable_list g) {
    const Tensor x = ctx->get_saved_variables()[0];
    Tensor out = cograd::empty(x.sizes(), x.options());
    const auto in = x.accessor<double, 1>(), grad = g[0].accessor<double, 1>();
    auto to = out.accessor<double, 1>();
    for (int64_t i = 0; i < x.numel(); ++i) to[i] = 2 * in[i] * grad[i];
    return {out};
  }
  static variable_list jvp(AutogradContext* ctx, variable_list t) {
    return {t[0] * ctx->get_saved_variables()[0] * 2};
  }
};

// Rules that give too much, or too little.
struct WrongCount : CubeBase<WrongCount> {
  static variable_list jvp(AutogradContext*, variable_list t) { return {t[0], t[0]}; }
  static std::pair<Tensor, InDims> vmap(const VmapInfo&, const InDims&, const Tensor& x, double) {
    return {x, {0, 1}};
  }
};

// Multiplies x in place.
struct Twice : Function<Twice> {
  static Tensor forward(AutogradContext* ctx, Tensor& x, const Tensor& y) {
    ctx->mark_dirty({x});
    x.mul_(y);
    ctx->save_for_backward({y});
    return x;
  }
  static variable_list backward(AutogradContext* ctx, variable_list g) {
    return {g[0] * ctx->get_saved_variables()[0], Tensor()};
  }
};
static Tensor twice(Tensor x, const Tensor& y) { return Twice::apply(x, y); }

static Tensor plain(const Tensor& x, double k) { return Plain::apply(x, k); }
static Tensor with_rules(const Tensor& x, double k) { return WithRules::apply(x, k); }
static Tensor generated(const Tensor& x, double k) { return Generated::apply(x, k); }
static Tensor opaque(const Tensor& x) { return Opaque::apply(x); }
static Tensor opaque_with_jvp(const Tensor& x) { return OpaqueWithJvp::apply(x); }
static Tensor loops(const Tensor& x) { return Loops::apply(x); }
static Tensor unmarked(const Tensor& x) { return Unmarked::apply(x); }
static Tensor wrong_count(const Tensor& x, double k) { return WrongCount::apply(x, k); }

// Ops that are no Functions.
static Tensor on_numbers(const Tensor& x, double k) { return cubed(x, k); }
static std::pair<Tensor, std::optional<int64_t>> on_numbers_vmap(const VmapInfo& info,
                                                                 const InDims& in_dims,
                                                                 const Tensor& x, double k) {
  ++calls;
  COGRAD_CHECK(info.randomness == "error" && in_dims.size() == 2, "wrong info");
  return {cubed(x, k), in_dims[0]};
}
static std::tuple<Tensor, std::vector<Tensor>> of_ops(const Tensor& x, TensorList list) {
  return {x * 2, {list[0] + x}};
}

COGRAD_LIBRARY(t_transforms, m) {
  m.def("rule_calls", &rule_calls);
  m.def<Plain>("plain_op", "x, k=1.0");
  m.def<WithRules>("with_rules_op", "x, k=1.0");
  m.def<Generated>("generated_op", "x, k=1.0");
  m.def("plain", &plain, "x, k=1.0").generate_vmap_rule();
  m.def("with_rules", &with_rules, "x, k=1.0").generate_vmap_rule();
  m.def("generated", &generated, "x, k=1.0").generate_vmap_rule();
  m.def("wrong_count", &wrong_count, "x, k=1.0").generate_vmap_rule();
  m.def("opaque", &opaque, "x").generate_vmap_rule();
  m.def("opaque_with_jvp", &opaque_with_jvp, "x").generate_vmap_rule();
  m.def("loops", &loops, "x").generate_vmap_rule();
  m.def("unmarked", &unmarked, "x").generate_vmap_rule();
  m.def("mixed", &mixed, "list, y=None").generate_vmap_rule();
  m.def("twice", &twice, "x, y").generate_vmap_rule();
  m.def("on_numbers", &on_numbers, "x, k=1.0");
  m.def("on_numbers_with_rule", &on_numbers, "x, k=1.0").vmap(&on_numbers_vmap);
  m.def("on_numbers_that_lies", &on_numbers, "x, k=1.0").generate_vmap_rule();
  m.def("of_ops", &of_ops, "x, list").generate_vmap_rule();
  m.def("of_ops_by_loop", &of_ops, "x, list");
  m.def("shape", [](const Tensor& x) { return x.dim(); }, "x");
  m.def("first", [](const Tensor& x) { return x.data_ptr<double>()[0]; }, "x");
}
