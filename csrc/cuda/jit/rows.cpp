// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/jit/rows.h"

#include <unordered_map>

#include "kernels/core/cast.h"
#include "kernels/core/complex.h"
#include "kernels/elementwise/tables.h"
#include "kernels/optim/optim.h"

namespace cograd::cuda {

namespace {

using namespace kernels;
using namespace kernels::types;

struct Formula {
  const char *name, *forward;
  bool is_bool, conditional, divides;
};
enum Cost { CHEAP, MATH, SLOW, DIVIDE };

constexpr Formula kUnary[] = {
#define UNARY(name, types, cost, args, forward, ...) {#name, #forward, false, false, false},
#define UNARY_BOOL(name, types, forward, ...) {#name, #forward, true, false, false},
#include "kernels/elementwise/elementwise.def"
};
constexpr Formula kBinary[] = {
#define BINARY(name, types, cost, args, forward, ...) \
  {#name, #forward, false, false, (cost) == DIVIDE},
#define BINARY_FLAT(name, types, cost, forward, ...) {#name, #forward, false, false, false},
#define BINARY_BOOL(name, types, forward, ...) {#name, #forward, true, false, false},
#include "kernels/elementwise/elementwise.def"
};
constexpr Formula kTernary[] = {
#define TERNARY(name, types, cost, args, forward, ...) {#name, #forward, false, false, false},
#define TERNARY_COND(name, types, args, forward, ...) {#name, #forward, false, true, false},
#include "kernels/elementwise/elementwise.def"
};

struct Gradient {
  const char *name, *saves, *formula;
};
constexpr Gradient kUnaryGradients[] = {
#define UNARY(name, types, cost, args, forward, saves, grad, ...) {#name "_grad", #saves, #grad},
#define UNARY_BOOL(name, ...) {"", "", ""},
#include "kernels/elementwise/elementwise.def"
};
constexpr Gradient kGradientsA[] = {
#define BINARY(name, types, cost, args, forward, saves_a, grad_a, ...) \
  {#name "_grad_a", #saves_a, #grad_a},
#define BINARY_FLAT(...) {"", "", ""},
#define BINARY_BOOL(...) {"", "", ""},
#include "kernels/elementwise/elementwise.def"
};
constexpr Gradient kGradientsB[] = {
#define BINARY(name, types, cost, args, forward, saves_a, grad_a, saves_b, grad_b, ...) \
  {#name "_grad_b", #saves_b, #grad_b},
#define BINARY_FLAT(...) {"", "", ""},
#define BINARY_BOOL(...) {"", "", ""},
#include "kernels/elementwise/elementwise.def"
};

// Formulas that the device has under another name, where the CPU repeats rare elements of complex
// numbers in a wider type.
struct Replacement {
  std::string_view name, formula;
};
constexpr Replacement kComplexFormulas[] = {
    {"reciprocal", "reciprocal_of(v)"},
    {"div", "quotient(a, b)"},
    {"addcdiv", "a + p0 * quotient(b, c)"},
};

// Returns the letters of a gradient's inputs. Its text needs them until the process ends.
std::string_view gradient_inputs(std::string_view saves) {
  constexpr std::pair<std::string_view, std::string_view> kInputs[] = {
      {"X", "gx"},   {"Y", "gy"},   {"G", "g"},    {"A", "ga"},    {"B", "gb"},
      {"AB", "gab"}, {"AY", "gay"}, {"BY", "gby"}, {"ABY", "gaby"}};
  for (const auto& [of, inputs] : kInputs)
    if (of == saves) return inputs;
  return "";
}

struct Tables {
  std::vector<LoopRow> rows;
  std::unordered_map<LoopFn, int> index;
  int far[2] = {-1, -1};

  void add(LoopFn fn, LoopRow row) {
    if (fn == nullptr || index.contains(fn)) return;
    index[fn] = static_cast<int>(rows.size());
    row.loop = fn;
    rows.push_back(row);
  }
};

constexpr DType kAll[] = {DType::Bool,    DType::UInt8,   DType::Int8,      DType::Int16,
                          DType::Int32,   DType::Int64,   DType::Float16,   DType::BFloat16,
                          DType::Float32, DType::Float64, DType::Complex64, DType::Complex128,
                          DType::UInt16,  DType::UInt32,  DType::UInt64};

template <size_t N, class Loop>
void add_forward(Tables& t, const Formula (&formulas)[N], std::string_view inputs, Loop loop) {
  for (size_t k = 0; k < N; ++k) {
    for (DType type : kAll) {
      const Formula& f = formulas[k];
      LoopRow row{f.name, f.forward, inputs, type, f.is_bool ? DType::Bool : type, type};
      if (f.conditional) row.first = DType::UInt8;
      row.divides = f.divides && !is_differentiable(type);
      if (is_complex(type))
        for (const Replacement& r : kComplexFormulas)
          if (r.name == f.name) row.formula = r.formula;
      if (row.name == "pow_scalar") row.kind = LoopKind::Power;
      t.add(loop(static_cast<int>(k), type), row);
    }
  }
}
template <size_t N, class Loop>
void add_gradients(Tables& t, const Gradient (&gradients)[N], Loop loop) {
  for (size_t k = 0; k < N; ++k) {
    const Gradient& g = gradients[k];
    for (DType type : kAll) {
      LoopRow row{g.name, g.formula, gradient_inputs(g.saves), type, type, type};
      if (row.name == "pow_scalar_grad") row.kind = LoopKind::Power;
      t.add(loop(static_cast<int>(k), type), row);
    }
  }
}

void add_casts(Tables& t) {
  for (DType from : kAll) {
    for (DType to : kAll) {
      LoopRow row{"cast", "converted<Out>(v)", "v", from, to, from, LoopKind::Cast};
      if (from == to) row.name = "copy", row.formula = "v", row.kind = LoopKind::Copy;
      t.add(cast_loop(from, to), row);
    }
  }
  for (DType type : kAll)
    t.add(fill_loop(type), {"fill", "p0", "", type, type, type, LoopKind::Fill});
}
void add_complex_parts(Tables& t) {
  constexpr std::pair<const char*, const char*> kParts[] = {{"complex_abs", "absolute(v)"},
                                                            {"complex_angle", "angle(v)"},
                                                            {"complex_conj", "conj(v)"},
                                                            {"complex_sgn", "sgn(v)"}};
  for (int k = 0; k < static_cast<int>(ComplexOp::kCount); ++k) {
    for (DType type : {DType::Complex64, DType::Complex128})
      t.add(complex_loop(static_cast<ComplexOp>(k), type),
            {kParts[k].first, kParts[k].second, "v", type, k < 2 ? real_dtype(type) : type, type});
  }
}
void add_optimizers(Tables& t) {
  for (const char* name : {"sgd", "adam", "rmsprop", "adagrad", "adadelta", "adamax", "nadam",
                           "radam", "rprop", "asgd"}) {
    const OptimRule* rule = optim_rule(name);
    if (rule == nullptr) continue;
    for (unsigned flags = 0; flags < kOptimVariants; ++flags) {
      for (DType type : {DType::Float16, DType::BFloat16, DType::Float32, DType::Float64}) {
        LoopRow row{rule->name, "", "", type, type, type, LoopKind::Optim};
        row.flags = static_cast<uint8_t>(flags);
        t.add(optim_loop(*rule, flags, type), row);
      }
    }
  }
}
void add_far_powers(Tables& t) {
  constexpr DType kType = DType::Float32;
  t.far[0] = static_cast<int>(t.rows.size());
  t.rows.push_back({"pow_far", "static_cast<float>(pow(double(v), p0))", "v", kType, kType, kType,
                    LoopKind::Power});
  t.far[1] = static_cast<int>(t.rows.size());
  t.rows.push_back({"pow_far_grad", "static_cast<float>(double(g) * pow(double(x), p0 - 1) * p0)",
                    "gx", kType, kType, kType, LoopKind::Power});
}

Tables make_tables() {
  Tables t;
  add_forward(t, kUnary, "v", [](int k, DType d) { return ElementRow(UnaryOp(k)).loop(d); });
  add_forward(t, kBinary, "ab", [](int k, DType d) { return ElementRow(BinaryOp(k)).loop(d); });
  add_forward(t, kTernary, "abc", [](int k, DType d) { return ElementRow(TernaryOp(k)).loop(d); });
  add_gradients(t, kUnaryGradients,
                [](int k, DType d) { return unary_backward_loop(UnaryOp(k), d); });
  add_gradients(t, kGradientsA,
                [](int k, DType d) { return binary_backward_loop(BinaryOp(k), 0, d); });
  add_gradients(t, kGradientsB,
                [](int k, DType d) { return binary_backward_loop(BinaryOp(k), 1, d); });
  add_casts(t);
  add_complex_parts(t);
  add_optimizers(t);
  add_far_powers(t);
  return t;
}
const Tables& tables() {
  static const auto* all = new Tables(make_tables());
  return *all;
}

}  // namespace

const std::vector<LoopRow>& loop_rows() { return tables().rows; }
int find_loop(LoopFn fn) noexcept {
  const auto it = tables().index.find(fn);
  return it == tables().index.end() ? -1 : it->second;
}
int far_power(bool gradient) noexcept { return tables().far[gradient ? 1 : 0]; }

}  // namespace cograd::cuda
