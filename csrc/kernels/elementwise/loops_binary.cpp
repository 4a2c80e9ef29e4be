// SPDX-License-Identifier: BSD-3-Clause
// The loops of rows with two and three inputs, for one instruction set.
#include "kernels/elementwise/loops.h"

namespace cograd::kernels {
namespace {

#define BINARY_FORWARD(name, types, cost, args, forward)              \
  struct Forward_##name : Row<types, cost, count_args(args) - 2, 2> { \
    template <class T>                                                \
    static auto f(T a, T b, COGRAD_PARAMS) {                          \
      return forward;                                                 \
    }                                                                 \
  };
#define BINARY(name, types, cost, args, forward, ...) \
  BINARY_FORWARD(name, types, cost, args, T(forward))
#define BINARY_FLAT(name, types, cost, forward, ...) \
  BINARY_FORWARD(name, types, cost, "a, b", T(forward))
#define BINARY_BOOL(name, types, forward, ...) BINARY_FORWARD(name, types, CHEAP, "a, b", forward)
#define TERNARY(name, types, cost, args, forward, ...)                \
  struct Forward_##name : Row<types, cost, count_args(args) - 3, 3> { \
    template <class T>                                                \
    static T f(T a, T b, T c, COGRAD_PARAMS) {                        \
      return T(forward);                                              \
    }                                                                 \
  };
#define TERNARY_COND(name, types, args, forward, ...) \
  struct Forward_##name : Row<types, CHEAP, 0, 3> {   \
    template <class T>                                \
    static T f(uint8_t a, T b, T c, COGRAD_PARAMS) {  \
      return forward;                                 \
    }                                                 \
  };
#include "kernels/elementwise/elementwise.def"
#undef BINARY_FORWARD

COGRAD_CAREFUL(div, divides, true)
COGRAD_CAREFUL(addcdiv, divides, true)

// Computes nextafter for 16-bit floats: without the sign, their bits are ordered by magnitude.
constexpr uint16_t next_bits(uint16_t a, uint16_t b, uint16_t inf) {
  const uint16_t size_a = a & 0x7fff, size_b = b & 0x7fff;
  if (size_a > inf) return a;
  if (size_b > inf || a == b || (size_a | size_b) == 0) return b;
  if (size_a == 0) return static_cast<uint16_t>((b & 0x8000) | 1);
  const bool grows = (a ^ b) < 0x8000 && size_a < size_b;
  return static_cast<uint16_t>(grows ? a + 1 : a - 1);
}
template <>
struct NarrowLoop<Forward_nextafter> {
  static constexpr bool kOwn = true;
  template <Form kForm>
  static void run(char* const* ptrs, const int64_t* strides, int64_t n, const void*) {
    constexpr uint16_t kInf = kForm == Form::half ? 0x7c00 : 0x7f80;
    for (int64_t i = 0; i < n; ++i) {
      uint16_t a, b;
      memcpy(&a, ptrs[1] + i * strides[1], sizeof a);
      memcpy(&b, ptrs[2] + i * strides[2], sizeof b);
      const uint16_t next = next_bits(a, b, kInf);
      memcpy(ptrs[0] + i * strides[0], &next, sizeof next);
    }
  }
};

constexpr int kBinaryRows = static_cast<int>(BinaryOp::kCount);
constexpr int kTernaryRows = static_cast<int>(TernaryOp::kCount);

constexpr Table<kBinaryRows> make_binary() {
  Table<kBinaryRows> t{};
  LoopFn(*row)[kNumDTypes] = t.loops;
#define BINARY(name, ...) Loops<Forward_##name, false>::fill(*row++);
#define BINARY_FLAT(name, ...) Loops<Forward_##name, false>::fill(*row++);
#define BINARY_BOOL(name, ...) Loops<Forward_##name, true>::fill(*row++);
#include "kernels/elementwise/elementwise.def"
  return t;
}
constexpr Table<kTernaryRows> make_ternary() {
  Table<kTernaryRows> t{};
  LoopFn(*row)[kNumDTypes] = t.loops;
#define TERNARY(name, ...) Loops<Forward_##name, false>::fill(*row++);
#define TERNARY_COND(name, ...) Loops<Forward_##name, false, true>::fill(*row++);
#include "kernels/elementwise/elementwise.def"
  return t;
}
constexpr Table<kBinaryRows> kBinary = make_binary();
constexpr Table<kTernaryRows> kTernary = make_ternary();

}  // namespace

}  // namespace cograd::kernels

namespace cograd::kernels::COGRAD_ISA {

LoopTable binary_forward();
LoopTable ternary_forward();

LoopTable binary_forward() { return kBinary.loops; }
LoopTable ternary_forward() { return kTernary.loops; }

}  // namespace cograd::kernels::COGRAD_ISA
