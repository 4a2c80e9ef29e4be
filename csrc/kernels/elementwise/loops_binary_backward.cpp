// SPDX-License-Identifier: BSD-3-Clause
// The loops of the fused gradients of binary rows, for one instruction set.
#include "kernels/elementwise/loops.h"

namespace cograd::kernels {
namespace {

// One macro for each value of a `saves` column, which decides the names that the formula can use.
#define GRAD(inputs, arguments, name, types, cost, args, grad)                                    \
  struct name : Row<has_loop(#grad) ? (types) & FLOATS : 0, cost, count_args(args) - 2, inputs> { \
    template <class T>                                                                            \
    static T f arguments {                                                                        \
      COGRAD_LIT return grad;                                                                     \
    }                                                                                             \
  };
#define GRAD_T COGRAD_UNUSED T
#define GRAD_G(...) GRAD(1, (GRAD_T g, COGRAD_PARAMS), __VA_ARGS__)
#define GRAD_A(...) GRAD(2, (GRAD_T g, GRAD_T a, COGRAD_PARAMS), __VA_ARGS__)
#define GRAD_B(...) GRAD(2, (GRAD_T g, GRAD_T b, COGRAD_PARAMS), __VA_ARGS__)
#define GRAD_Y(...) GRAD(2, (GRAD_T g, GRAD_T y, COGRAD_PARAMS), __VA_ARGS__)
#define GRAD_AB(...) GRAD(3, (GRAD_T g, GRAD_T a, GRAD_T b, COGRAD_PARAMS), __VA_ARGS__)
#define GRAD_AY(...) GRAD(3, (GRAD_T g, GRAD_T a, GRAD_T y, COGRAD_PARAMS), __VA_ARGS__)
#define GRAD_BY(...) GRAD(3, (GRAD_T g, GRAD_T b, GRAD_T y, COGRAD_PARAMS), __VA_ARGS__)
#define GRAD_NO(name, types, cost, args, grad) \
  struct name : Row<0, cost, 0, 1> {};
#define GRAD_ABY(...) GRAD(4, (GRAD_T g, GRAD_T a, GRAD_T b, GRAD_T y, COGRAD_PARAMS), __VA_ARGS__)

#define BINARY(name, types, cost, args, forward, saves_a, grad_a, saves_b, grad_b, ...) \
  GRAD_##saves_a(GradA_##name, types, cost, args, grad_a)                               \
      GRAD_##saves_b(GradB_##name, types, cost, args, grad_b)
#include "kernels/elementwise/elementwise.def"

constexpr int kRows = static_cast<int>(BinaryOp::kCount);

constexpr Table<kRows> make_grad_a() {
  Table<kRows> t{};
  LoopFn(*row)[kNumDTypes] = t.loops;
#define BINARY(name, ...) Loops<GradA_##name, false>::fill(*row++);
#define BINARY_FLAT(...) ++row;
#define BINARY_BOOL(...) ++row;
#include "kernels/elementwise/elementwise.def"
  return t;
}
constexpr Table<kRows> make_grad_b() {
  Table<kRows> t{};
  LoopFn(*row)[kNumDTypes] = t.loops;
#define BINARY(name, ...) Loops<GradB_##name, false>::fill(*row++);
#define BINARY_FLAT(...) ++row;
#define BINARY_BOOL(...) ++row;
#include "kernels/elementwise/elementwise.def"
  return t;
}
constexpr Table<kRows> kGradA = make_grad_a();
constexpr Table<kRows> kGradB = make_grad_b();

}  // namespace

}  // namespace cograd::kernels

namespace cograd::kernels::COGRAD_ISA {

LoopTable binary_backward_a();
LoopTable binary_backward_b();

LoopTable binary_backward_a() { return kGradA.loops; }
LoopTable binary_backward_b() { return kGradB.loops; }

}  // namespace cograd::kernels::COGRAD_ISA
