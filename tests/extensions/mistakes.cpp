// SPDX-License-Identifier: BSD-3-Clause
// Mistakes in C++ code: accesses to what does not exist raise instead of ending the process.
#include <cograd/extension.h>

using cograd::Tensor;
using cograd::autograd::AutogradContext;
using cograd::autograd::Function;
using cograd::autograd::variable_list;

// Names what backward and jvp of Mistake do wrong.
static std::string mistake;

struct Mistake : Function<Mistake> {
  static variable_list forward(AutogradContext* ctx, const Tensor& x, double a) {
    if (mistake == "one_saved") ctx->save_for_backward({x});
    ctx->saved_data["a"] = a;
    ctx->saved_data["tensors"] = variable_list{x, x};
    return {x * a, x + a};
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    if (mistake == "saved" || mistake == "one_saved") return {ctx->get_saved_variables()[1]};
    if (mistake == "saved_front") return {ctx->get_saved_variables().front()};
    if (mistake == "saved_back") return {ctx->get_saved_variables().back()};
    if (mistake == "saved_list") {
      const variable_list saved = ctx->get_saved_variables();
      return {saved[7]};
    }
    if (mistake == "grads") return {grads[2]};
    if (mistake == "needs") ctx->needs_input_grad(9);
    if (mistake == "name") return {grads[0] * ctx->saved_data["b"].to_double()};
    if (mistake == "name_at") return {grads[0] * ctx->saved_data.at("b").to_double()};
    if (mistake == "name_tensor") return {ctx->saved_data["b"].to_tensor()};
    if (mistake == "kind") return {ctx->saved_data["a"].to_tensor()};
    if (mistake == "kind_at") ctx->saved_data.at("tensors").to_string();
    if (mistake == "kind_set") {
      ctx->saved_data["a"] = "text";
      ctx->saved_data["a"].to_int();
    }
    if (mistake == "kind_none") {
      ctx->saved_data["a"] = cograd::IValue();
      ctx->saved_data["a"].to_double();
    }
    if (mistake == "kind_list") return {ctx->saved_data["tensors"].to_tensors()[2]};
    return {grads[0] * ctx->saved_data["a"].to_double() + grads[1], Tensor()};
  }
  static variable_list jvp(AutogradContext* ctx, variable_list tangents) {
    if (mistake == "tangents") return {tangents[2], tangents[0]};
    if (mistake == "jvp_saved") return {ctx->get_saved_variables()[0]};
    return {tangents[0] * ctx->saved_data["a"].to_double(), tangents[0]};
  }
};

// Reads what a context has only inside of a call.
static Tensor outside(const std::string& what, const Tensor& x) {
  AutogradContext ctx;
  if (what == "save") ctx.save_for_backward({x});
  if (what == "save_for_forward") ctx.save_for_forward({x});
  if (what == "dirty") ctx.mark_dirty({x});
  if (what == "non_differentiable") ctx.mark_non_differentiable({x});
  if (what == "materialize") ctx.set_materialize_grads(false);
  if (what == "needs") (void)ctx.needs_input_grad(0);
  if (what == "saved") return ctx.get_saved_variables()[0];
  return x;
}

static Tensor misuse(const std::string& what, const Tensor& x, cograd::TensorList list) {
  const Tensor none;
  if (what == "sizes") return x * x.sizes()[5];
  if (what == "sizes_front") return x * Tensor(x[0][0]).sizes().front();
  if (what == "sizes_back") return x * Tensor(x[0][0]).sizes().back();
  if (what == "slice") return x * static_cast<int64_t>(x.sizes().slice(1, 5).size());
  if (what == "list") return list[3];
  if (what == "size") return x * x.size(2);
  if (what == "stride") return x * x.stride(-3);
  if (what == "accessor_size") return x * x.accessor<double, 2>().size(2);
  if (what == "accessor_dims") return x * x.accessor<double, 3>().size(0);
  if (what == "accessor_type") return x * x.accessor<float, 2>().size(0);
  if (what == "grad") return cograd::autograd::grad({x.sum()}, {x})[1];
  if (what == "grad_undefined") return cograd::autograd::grad({none}, {x})[0];
  if (what == "undefined_op") return none + x;
  if (what == "undefined_method") return none.sum();
  if (what == "undefined_size") return x * none.numel();
  if (what == "undefined_data") return x * *none.data_ptr<double>();
  if (what == "undefined_copy") return x.clone().copy_(none);
  if (what == "undefined_item") return x * none.item<double>();
  if (what == "undefined_index") return none[0];
  if (what == "undefined_in_list") return cograd::cat({x, none});
  if (what == "undefined_backward") none.backward();
  if (what == "item") return x * x.item<double>();
  if (what == "index") return x[7];
  if (what == "hook") {
    none.register_hook([](const Tensor& g) { return g; });
  }
  if (what == "no_op") return cograd::Op("t_mistakes::nothing").call<Tensor>(x);
  if (what == "too_few") return cograd::Op("t_mistakes::misuse").call<Tensor>(x);
  if (what == "result_kind") return x * cograd::Op("t_mistakes::outside").call<int64_t>("x", x);
  if (what == "split") return x.split(1)[1];
  if (what == "parallel")
    cograd::parallel_for(
        0, 1000, 1, [](int64_t b, int64_t) { COGRAD_CHECK_VALUE(b < 500, "thrown by a worker"); });
  return x;
}

static Tensor undefined(const Tensor& x, int64_t how) { return how == 0 ? Tensor() : x; }
static std::tuple<Tensor, Tensor> half_undefined(const Tensor& x) { return {x, Tensor()}; }

struct WrongRules : Function<WrongRules> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x) {
    ctx->save_for_backward({x});
    return x * x;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {grads[0] * 2 * ctx->get_saved_variables()[0]};
  }
  static variable_list jvp(AutogradContext* ctx, variable_list tangents) {
    return {tangents[0] * 3 * ctx->get_saved_variables()[0]};
  }
  static std::pair<Tensor, int64_t> vmap(const cograd::VmapInfo&, const cograd::InDims& in_dims,
                                         const Tensor& x) {
    return {WrongRules::apply(x) * 7, *in_dims[0]};
  }
};

// Has no mistake: runs once on batched tensors.
struct OnBatches : Function<OnBatches> {
  static constexpr bool generate_vmap_rule = true;
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& y) {
    ctx->save_for_backward({x, y});
    return x * y.sin();
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    return {grads[0] * saved[1].sin(), grads[0] * saved[0] * saved[1].cos()};
  }
};

// Its jvp never works.
struct NoTangents : Function<NoTangents> {
  static Tensor forward(AutogradContext*, const Tensor& x) { return x * 2; }
  static variable_list backward(AutogradContext*, variable_list grads) { return {grads[0] * 2}; }
  static variable_list jvp(AutogradContext*, variable_list) { return {}; }
};

// Its vmap is right only if the samples are in dim 0.
struct FirstDim : Function<FirstDim> {
  static Tensor forward(AutogradContext*, const Tensor& x) { return x * 2; }
  static variable_list backward(AutogradContext*, variable_list grads) { return {grads[0] * 2}; }
  static std::pair<Tensor, int64_t> vmap(const cograd::VmapInfo&, const cograd::InDims&,
                                         const Tensor& x) {
    return {FirstDim::apply(x), 0};
  }
};

COGRAD_LIBRARY(t_mistakes, m) {
  m.def("set", [](std::string text) { mistake = std::move(text); }, "text");
  m.def<Mistake>("mistake", "x, a");
  m.def("outside", &outside, "what, x");
  m.def("misuse", &misuse, "what, x, list");
  m.def("undefined", &undefined, "x, how");
  m.def("half_undefined", &half_undefined, "x");
  m.def<WrongRules>("wrong_rules", "x");
  m.def<OnBatches>("on_batches", "x, y");
  m.def<NoTangents>("no_tangents", "x");
  m.def<FirstDim>("first_dim", "x");
  // No mistake: it says what it writes.
  m.def("double_", [](Tensor& x, const Tensor& y) { x.mul_(y); }, "x, y");
}
