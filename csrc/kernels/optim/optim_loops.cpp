// SPDX-License-Identifier: BSD-3-Clause
// The update rules of optimizers, element by element, for one instruction set.
#include "kernels/optim/optim_loops.h"

#include <cmath>
#include <utility>

#include "kernels/core/isa.h"
#include "kernels/core/staging.h"

namespace cograd::kernels {
namespace {

template <class T>
inline T root(T x) {
  return std::sqrt(x);
}
template <class T>
inline T magnitude(T x) {
  return std::fabs(x);
}

}  // namespace
}  // namespace cograd::kernels

#include "kernels/optim/optim_rules.h"

namespace cograd::kernels {
namespace {

template <class Rule, unsigned F, class T>
__attribute__((noinline)) void kernel(char* const* ptrs, int64_t n, const void* params) {
  constexpr int N = Rule::operands(F);
  T s[kOptimScalars];
  for (int i = 0; i < kOptimScalars; ++i)
    s[i] = static_cast<T>(static_cast<const double*>(params)[i]);
  auto* p = reinterpret_cast<T*>(ptrs[0]);
  const auto* g = reinterpret_cast<const T*>(ptrs[1]);
  T* a = N > 2 ? reinterpret_cast<T*>(ptrs[2]) : nullptr;
  T* b = N > 3 ? reinterpret_cast<T*>(ptrs[3]) : nullptr;
  T* c = N > 4 ? reinterpret_cast<T*>(ptrs[4]) : nullptr;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    Element<T> e{p[i], s[kSign] * g[i], T(0), T(0), T(0)};
    if constexpr (N > 2) e.a = a[i];
    if constexpr (N > 3) e.b = b[i];
    if constexpr (N > 4) e.c = c[i];
    if constexpr ((F & kOptimDecay) != 0) e.g += s[kDecay] * e.p;
    Rule::template step<F, T>(e, s);
    p[i] = e.p;
    if constexpr (N > 2) a[i] = e.a;
    if constexpr (N > 3) b[i] = e.b;
    if constexpr (N > 4) c[i] = e.c;
  }
}

// Runs through blocks in the compute type; stores all operands but the gradient again.
template <Form kForm, int kSize>
void staged(KernelFn fn, int operands, char* const* ptrs, const int64_t* strides, int64_t n,
            const void* params) {
  constexpr Layout l{
      kStages, 1, {kSize, kSize, kSize, kSize, kSize}, {kForm, kForm, kForm, kForm, kForm}};
  Stages s;
  char* blocks[kStages];
  for (int k = 0; k < kStages; ++k) blocks[k] = s.block[k];
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = n - i < kBlock ? n - i : kBlock;
    for (int k = 0; k < operands; ++k) load_block(s, l, k, ptrs[k] + i * strides[k], strides[k], m);
    fn(blocks, m, params);
    for (int k = 0; k < operands; ++k) {
      if (k == 1) continue;
      char* to = ptrs[k] + i * strides[k];
      if constexpr (kForm == Form::plain) {
        move_elements(to, strides[k], s.block[k], kSize, m, kSize);
      } else {
        narrow(s.narrow, reinterpret_cast<const float*>(s.block[k]), m, kForm);
        move_elements(to, strides[k], reinterpret_cast<char*>(s.narrow), 2, m, 2);
      }
    }
  }
}

template <class Rule, unsigned F, class T, Form kForm>
void loop(char* const* ptrs, const int64_t* strides, int64_t n, const void* params) {
  constexpr int kSize = kForm == Form::plain ? static_cast<int>(sizeof(T)) : 2;
  constexpr int N = Rule::operands(F);
  if constexpr (kForm == Form::plain) {
    bool plain = true;
    for (int k = 0; k < N; ++k) plain &= strides[k] == kSize;
    if (plain) return kernel<Rule, F, T>(ptrs, n, params);
  }
  staged<kForm, kSize>(kernel<Rule, F, T>, N, ptrs, strides, n, params);
}

template <class Rule, unsigned F>
constexpr OptimVariant variant() {
  if constexpr ((F & ~Rule::kBits) != 0)
    return {{nullptr, nullptr, nullptr, nullptr}, 0};
  else
    return {{loop<Rule, F, float, Form::half>, loop<Rule, F, float, Form::bfloat>,
             loop<Rule, F, float, Form::plain>, loop<Rule, F, double, Form::plain>},
            Rule::operands(F)};
}

template <class Rule, unsigned... F>
constexpr OptimRule rule_of(std::integer_sequence<unsigned, F...>) {
  return {Rule::kName, {variant<Rule, F>()...}};
}

template <class... Rule>
struct Table {
  static constexpr OptimRule kRules[] = {
      rule_of<Rule>(std::make_integer_sequence<unsigned, kOptimVariants>())...};
};

}  // namespace
}  // namespace cograd::kernels

namespace cograd::kernels::COGRAD_ISA {

OptimRules optim_rules();
OptimRules optim_rules() {
  return Table<SgdRule, AdamRule, RmsPropRule, AdagradRule, AdadeltaRule, AdamaxRule, NAdamRule,
               RAdamRule, RpropRule, AsgdRule>::kRules;
}

}  // namespace cograd::kernels::COGRAD_ISA
