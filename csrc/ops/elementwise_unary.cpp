// SPDX-License-Identifier: BSD-3-Clause
// Loops of the unary rows and of their fused gradients, for one instruction set.
#include "ops/elementwise_isa.h"

namespace cograd::kernels {
namespace {

#define UNARY_FORWARD(name, types, cost, params, forward)             \
  struct Forward_##name : Row<types, cost, count_params(params), 1> { \
    template <class T>                                                \
    static auto f(T v, COGRAD_PARAMS) {                               \
      return forward;                                                 \
    }                                                                 \
  };
#define UNARY(name, types, cost, params, forward, ...) \
  UNARY_FORWARD(name, types, cost, params, T(forward))
#define UNARY_BOOL(name, types, forward, ...) UNARY_FORWARD(name, types, CHEAP, "", forward)
#include "ops/elementwise.def"
#undef UNARY_FORWARD

// One macro for each value of the `saves` column: it decides what the formula can name.
#define BACKWARD_X(name, types, cost, params, grad)                               \
  struct Backward_##name : Row<(types) & FLOATS, cost, count_params(params), 2> { \
    template <class T>                                                            \
    static T f(T g, COGRAD_UNUSED T x, COGRAD_PARAMS) {                           \
      COGRAD_LIT return grad;                                                     \
    }                                                                             \
  };
#define BACKWARD_Y(name, types, cost, params, grad)                               \
  struct Backward_##name : Row<(types) & FLOATS, cost, count_params(params), 2> { \
    template <class T>                                                            \
    static T f(T g, COGRAD_UNUSED T y, COGRAD_PARAMS) {                           \
      COGRAD_LIT return grad;                                                     \
    }                                                                             \
  };
#define BACKWARD_G(name, types, cost, params, grad)                               \
  struct Backward_##name : Row<(types) & FLOATS, cost, count_params(params), 1> { \
    template <class T>                                                            \
    static T f(T g, COGRAD_PARAMS) {                                              \
      COGRAD_LIT return grad;                                                     \
    }                                                                             \
  };
#define BACKWARD_NO(name, types, cost, params, grad) \
  struct Backward_##name : Row<0, cost, 0, 1> {};
#define UNARY(name, types, cost, params, forward, saves, grad, ...) \
  BACKWARD_##saves(name, types, cost, params, grad)
#include "ops/elementwise.def"

constexpr int kRows = static_cast<int>(UnaryOp::kCount);

constexpr Table<kRows> make_forward() {
  Table<kRows> t{};
  LoopFn(*row)[kNumDTypes] = t.loops;
#define UNARY(name, ...) Loops<Forward_##name, false>::fill(*row++);
#define UNARY_BOOL(name, ...) Loops<Forward_##name, true>::fill(*row++);
#include "ops/elementwise.def"
  return t;
}
constexpr Table<kRows> make_backward() {
  Table<kRows> t{};
  LoopFn(*row)[kNumDTypes] = t.loops;
#define UNARY(name, ...) Loops<Backward_##name, false>::fill(*row++);
#define UNARY_BOOL(name, ...) ++row;
#include "ops/elementwise.def"
  return t;
}
constexpr Table<kRows> kForward = make_forward();
constexpr Table<kRows> kBackward = make_backward();

}  // namespace

COGRAD_ISA_TABLE(unary_forward) { return kForward.loops; }
COGRAD_ISA_TABLE(unary_backward) { return kBackward.loops; }

}  // namespace cograd::kernels
