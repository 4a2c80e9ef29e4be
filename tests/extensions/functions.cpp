// SPDX-License-Identifier: BSD-3-Clause
// autograd::Function in all its uses.
#include <cograd/extension.h>

using namespace cograd;
using autograd::AutogradContext;
using autograd::Function;

namespace {

// x * y + alpha, by hand.
struct MulAdd : Function<MulAdd> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& y, double alpha) {
    ctx->save_for_backward({x, y});
    return x * y + alpha;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    Tensor gx, gy;
    if (ctx->needs_input_grad(0)) gx = grads[0] * saved[1];
    if (ctx->needs_input_grad(1)) gy = grads[0] * saved[0];
    return {gx, gy, Tensor()};
  }
};

// Records as bits which gradients are needed; backward writes them to `out`.
struct Needs : Function<Needs> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& y, const Tensor& out) {
    ctx->saved_data["out"] = out;
    ctx->saved_data["forward"] =
        (ctx->needs_input_grad(0) ? 1 : 0) + (ctx->needs_input_grad(1) ? 2 : 0);
    return x + y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    double* out = ctx->saved_data["out"].to_tensor().data_ptr<double>();
    out[0] = static_cast<double>(ctx->saved_data["forward"].to_int());
    out[1] = (ctx->needs_input_grad(0) ? 1 : 0) + (ctx->needs_input_grad(1) ? 2 : 0);
    out[2] = ctx->needs_input_grad({{0, 2}}) ? 1 : 0;
    return {grads[0], grads[0], Tensor()};
  }
};
struct NeedsOutOfRange : Function<NeedsOutOfRange> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x) {
    return ctx->needs_input_grad(5) ? x * 2 : x * 3;
  }
  static variable_list backward(AutogradContext*, variable_list grads) { return grads; }
};

// Doubles x in place.
struct Double : Function<Double> {
  static Tensor forward(AutogradContext* ctx, Tensor x) {
    x.mul_(2);
    ctx->mark_dirty({x});
    return x;
  }
  static variable_list backward(AutogradContext*, variable_list grads) { return {grads[0] * 2}; }
};
// Does the same through the data pointer, which does not count a write.
struct DoubleRaw : Function<DoubleRaw> {
  static Tensor forward(AutogradContext* ctx, Tensor x) {
    double* p = x.data_ptr<double>();
    for (int64_t i = 0; i < x.numel(); ++i) p[i] *= 2;
    ctx->mark_dirty({x});
    return x;
  }
  static variable_list backward(AutogradContext*, variable_list grads) { return {grads[0] * 2}; }
};
struct DirtyNotReturned : Function<DirtyNotReturned> {
  static Tensor forward(AutogradContext* ctx, Tensor x) {
    x.mul_(2);
    ctx->mark_dirty({x});
    return x + 1;
  }
  static variable_list backward(AutogradContext*, variable_list grads) { return {grads[0] * 2}; }
};
struct WritesUndeclared : Function<WritesUndeclared> {
  static Tensor forward(AutogradContext*, Tensor x) {
    x.mul_(2);
    return x + 1;
  }
  static variable_list backward(AutogradContext*, variable_list grads) { return {grads[0] * 2}; }
};

// The largest element and its position.
struct Largest : Function<Largest> {
  static std::tuple<Tensor, Tensor, Tensor> forward(AutogradContext* ctx, const Tensor& x) {
    Tensor at = x.argmax();
    Tensor rank = at.to(kDouble);  // floating, but of no derivative
    ctx->save_for_backward({x, at});
    ctx->mark_non_differentiable({rank});
    return {x.index({at}), at, rank};
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    COGRAD_CHECK(grads.size() == 3, "expected a place for each output");
    Tensor g = zeros_like(saved[0]);
    g.index_put_({saved[1]}, grads[0]);
    return {g};
  }
};

// Two outputs; reports through `seen` which gradients arrive.
template <bool Materialize>
struct TwoOutputs : Function<TwoOutputs<Materialize>> {
  static variable_list forward(AutogradContext* ctx, const Tensor& x, const Tensor& seen) {
    ctx->set_materialize_grads(Materialize);
    ctx->saved_data["seen"] = seen;
    return {x * 2, x * 3};
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    double* seen = ctx->saved_data["seen"].to_tensor().template data_ptr<double>();
    Tensor g;
    for (size_t i = 0; i < 2; ++i) {
      seen[i] = grads[i].defined() ? 1 : 0;
      if (!grads[i].defined()) continue;
      Tensor part = grads[i] * static_cast<double>(i + 2);
      g = g.defined() ? g + part : part;
    }
    return {g, Tensor()};
  }
};

// Saves one value of each type that saved_data can hold.
struct Saved : Function<Saved> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x) {
    auto& d = ctx->saved_data;
    d["none"] = IValue();
    d["bool"] = true;
    d["int"] = 3;
    d["double"] = 2.5;
    d["float"] = 0.5f;
    d["string"] = "text";
    d["tensor"] = x;
    d["undefined"] = Tensor();
    d["tensors"] = variable_list{x, x};
    d["ints"] = std::vector<int64_t>{1, 2, 3};
    d["doubles"] = std::vector<double>{0.5, 1.5};
    d["scalar"] = Scalar(7);
    d["maybe"] = optional<int64_t>();
    d["some"] = optional<double>(1.25);
    return x * 2;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto& d = ctx->saved_data;
    COGRAD_CHECK(d.size() == 14 && d.count("int") == 1 && d.count("nowhere") == 0, "size");
    COGRAD_CHECK(d["none"].is_none() && d["bool"].to_bool() && d["int"].to_int() == 3, "scalars");
    COGRAD_CHECK(d["double"].to_double() == 2.5 && d["float"].to_double() == 0.5, "doubles");
    COGRAD_CHECK(d["string"].to_string() == "text" && d["string"].is_string(), "string");
    COGRAD_CHECK(!d["undefined"].to_tensor().defined(), "undefined");
    COGRAD_CHECK(d["tensors"].to_tensors().size() == 2, "tensors");
    COGRAD_CHECK(d["ints"].to_ints() == (std::vector<int64_t>{1, 2, 3}), "ints");
    COGRAD_CHECK(d["doubles"].to_doubles()[1] == 1.5, "doubles");
    COGRAD_CHECK(d["scalar"].to_scalar().to_int() == 7 && d["some"].to<double>() == 1.25, "scalar");
    COGRAD_CHECK(d["maybe"].is_none() && d.at("int").to<int>() == 3, "at");
    const Tensor x = d["tensor"].to_tensor();
    return {grads[0] * d["tensors"].to_tensors()[1] * 0 + grads[0] * 2 + x * 0 * grads[0]};
  }
};
struct WrongKind : Function<WrongKind> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x) {
    ctx->saved_data["n"] = 3;
    return x * 2;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {grads[0] * ctx->saved_data["n"].to_double()};
  }
};
struct MissingKey : Function<MissingKey> {
  static Tensor forward(AutogradContext*, const Tensor& x) { return x * 2; }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {grads[0] * ctx->saved_data.at("nowhere").to_double()};
  }
};

// a*x (+ y) (+ sum of l): optional, list and plain arguments mixed.
struct Mixed : Function<Mixed> {
  static Tensor forward(AutogradContext* ctx, double a, const Tensor& x, const optional<Tensor>& y,
                        TensorList l, const std::string& unused) {
    ctx->saved_data["a"] = a;
    ctx->saved_data["n"] = static_cast<int64_t>(l.size());
    ctx->saved_data["y"] = y.has_value();
    COGRAD_CHECK_VALUE(unused == "ok", "expected 'ok'");
    Tensor out = x * a;
    if (y) out = out + *y;
    for (const Tensor& t : l) out = out + t * 2;
    return out;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    variable_list out = {Tensor(), grads[0] * ctx->saved_data["a"].to_double(),
                         ctx->saved_data["y"].to_bool() ? grads[0] : Tensor()};
    for (int64_t i = 0; i < ctx->saved_data["n"].to_int(); ++i) out.push_back(grads[0] * 2);
    out.emplace_back();
    return out;
  }
};

struct Identity : Function<Identity> {
  static Tensor forward(AutogradContext*, const Tensor& x) { return x; }
  static variable_list backward(AutogradContext*, variable_list grads) { return {grads[0] * 5}; }
};
struct FirstRow : Function<FirstRow> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x) {
    ctx->saved_data["sizes"] = x.sizes();
    return x[0];
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    Tensor g = zeros(ctx->saved_data["sizes"].to_ints(), grads[0].options());
    g.index_put_({0}, grads[0] * 7);
    return {g};
  }
};
// The result is saved, not the input.
struct Exp : Function<Exp> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x) {
    Tensor y = x.exp();
    ctx->save_for_backward({y});
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {grads[0] * ctx->get_saved_variables()[0]};
  }
};
// Saves an intermediate result, whose own derivative nobody records: wrong second derivatives.
struct Square : Function<Square> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x) {
    Tensor twice = x * 2;
    ctx->save_for_backward({twice});
    return x * x;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {grads[0] * ctx->get_saved_variables()[0]};
  }
};
struct SquareData : Function<SquareData> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x) {
    ctx->saved_data["twice"] = x * 2;
    return x * x;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {grads[0] * ctx->saved_data["twice"].to_tensor()};
  }
};
// Keeps its own output in saved_data, the classic cycle.
struct Cycle : Function<Cycle> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x) {
    Tensor y = x * 2;
    ctx->saved_data["y"] = y;
    ctx->saved_data["x"] = x;
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {grads[0] * 2 + ctx->saved_data["y"].to_tensor() * 0};
  }
};
struct TooFew : Function<TooFew> {
  static Tensor forward(AutogradContext*, const Tensor& x, const Tensor& y) { return x * y; }
  static variable_list backward(AutogradContext*, variable_list grads) { return {grads[0]}; }
};
struct TooMany : Function<TooMany> {
  static Tensor forward(AutogradContext*, const Tensor& x) { return x * 2; }
  static variable_list backward(AutogradContext*, variable_list grads) {
    return {grads[0], grads[0]};
  }
};
struct ForANumber : Function<ForANumber> {
  static Tensor forward(AutogradContext*, const Tensor& x, double) { return x * 2; }
  static variable_list backward(AutogradContext*, variable_list grads) {
    return {grads[0], grads[0]};
  }
};
struct WrongShape : Function<WrongShape> {
  static Tensor forward(AutogradContext*, const Tensor& x) { return x * 2; }
  static variable_list backward(AutogradContext*, variable_list grads) {
    return {cat({grads[0], grads[0]}, 0)};
  }
};
struct SingleGradient : Function<SingleGradient> {
  static Tensor forward(AutogradContext*, const Tensor& x) { return x * 2; }
  static Tensor backward(AutogradContext*, variable_list grads) { return grads[0] * 2; }
};
// Computes backward on the numbers, and declares once_differentiable or not.
template <bool Once>
struct RawCube : Function<RawCube<Once>> {
  static constexpr bool once_differentiable = Once;
  static Tensor forward(AutogradContext* ctx, const Tensor& x) {
    ctx->save_for_backward({x});
    return x * x * x;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const Tensor x = ctx->get_saved_variables()[0].contiguous(), g = grads[0].contiguous();
    COGRAD_CHECK(!(Once && GradMode::is_enabled()), "grad mode is on");
    Tensor out = empty(x.sizes(), x.options());
    const double *px = x.data_ptr<double>(), *pg = g.data_ptr<double>();
    double* po = out.data_ptr<double>();
    for (int64_t i = 0; i < x.numel(); ++i) po[i] = pg[i] * 3 * px[i] * px[i];
    return {out};
  }
};
// apply from C++ with what callers write there.
Tensor applied(const Tensor& x) {
  std::vector<Tensor> list = {x, x};
  Tensor a = Mixed::apply(2.0, x, std::nullopt, list, "ok");
  Tensor b = Mixed::apply(2.0, x, optional<Tensor>(x), TensorList(list), std::string("ok"));
  return a + b + MulAdd::apply(x, x * 2, 1.0);
}

// Writes its second argument.
struct ScaleInPlace : Function<ScaleInPlace> {
  static Tensor forward(AutogradContext* ctx, const Tensor& factor, Tensor a) {
    ctx->save_for_backward({factor, a.clone()});
    a.mul_(factor);
    ctx->mark_dirty({a});
    return a;
  }
  static autograd::tensor_list backward(AutogradContext* ctx, autograd::tensor_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    return {grads[0] * saved[1], grads[0] * saved[0]};
  }
};
// Throws an error whose text is Latin-1.
template <bool InBackward>
struct Latin : Function<Latin<InBackward>> {
  static void fail(const char* kind) {
    if (kind[0] == 's')
      throw std::runtime_error(
          "gr\xf6\xdf"
          "er");
    COGRAD_CHECK_VALUE(kind[0] != 'v', "gr\xf6\xdf", "er");
    COGRAD_CHECK_INDEX(false, "gr\xf6\xdf", "er");
  }
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const std::string& kind) {
    ctx->saved_data["kind"] = kind;
    if (!InBackward) fail(kind.c_str());
    return x * 2;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    fail(ctx->saved_data["kind"].to_string().c_str());
    return {grads[0], Tensor()};
  }
};

}  // namespace

COGRAD_LIBRARY(t_functions, m) {
  m.def<ScaleInPlace>("scale_", "factor, a");
  m.def<Latin<false>>("latin", "x, kind");
  m.def<Latin<true>>("latin_backward", "x, kind");
  m.def<MulAdd>("mul_add", "x, y, alpha=0.0", "x * y + alpha.");
  m.def<Needs>("needs", "x, y, out");
  m.def<NeedsOutOfRange>("needs_out_of_range", "x");
  m.def<Double>("double_", "x");
  m.def<DoubleRaw>("double_raw_", "x");
  m.def<DirtyNotReturned>("dirty_not_returned", "x");
  m.def<WritesUndeclared>("writes_undeclared", "x");
  m.def<Largest>("largest", "x");
  m.def<TwoOutputs<true>>("two_outputs", "x, seen");
  m.def<TwoOutputs<false>>("two_outputs_bare", "x, seen");
  m.def<Saved>("saved", "x");
  m.def<WrongKind>("wrong_kind", "x");
  m.def<MissingKey>("missing_key", "x");
  m.def<Mixed>("mixed", "a, x, y=None, l=[], unused='ok'");
  m.def<Identity>("identity", "x");
  m.def<FirstRow>("first_row", "x");
  m.def<Exp>("exp", "x");
  m.def<Square>("square", "x");
  m.def<SquareData>("square_data", "x");
  m.def<Cycle>("cycle", "x");
  m.def<TooFew>("too_few", "x, y");
  m.def<TooMany>("too_many", "x");
  m.def<ForANumber>("for_a_number", "x, a");
  m.def<WrongShape>("wrong_shape", "x");
  m.def<SingleGradient>("single_gradient", "x");
  m.def<RawCube<true>>("raw_cube", "x");
  m.def("applied", &applied, "x");
}
