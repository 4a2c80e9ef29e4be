// SPDX-License-Identifier: BSD-3-Clause
// The update rules of optimizers, element by element, for one instruction set.
#include "kernels/optim/optim_loops.h"

#include <cmath>
#include <utility>

#include "kernels/core/isa.h"
#include "kernels/core/staging.h"

namespace cograd::kernels {
namespace {

using namespace optim_scalar;

// The values that a rule sees for one element; it changes all but g.
template <class T>
struct Element {
  T p, g, a, b, c;
};

template <class T>
inline T root(T x) {
  return std::sqrt(x);
}

// Each rule defines its name, its variants (bits of flags), its number of operands, and the step of
// one element. optim_rules() lists them.
struct SgdRule {  // kOwn: momentum, 1 - dampening
  static constexpr const char* kName = "sgd";
  static constexpr unsigned kBits = 15;
  static constexpr int operands(unsigned f) { return f & kOptimMomentum ? 3 : 2; }
  template <unsigned F, class T>
  static inline void step(Element<T>& e, const T* s) {
    T d = e.g;
    if constexpr ((F & kOptimMomentum) != 0) {
      e.a = (F & kOptimFresh) != 0 ? e.g : s[kOwn] * e.a + s[kOwn + 1] * e.g;
      d = (F & kOptimNesterov) != 0 ? e.g + s[kOwn] * e.a : e.a;
    }
    e.p -= s[kRate] * d;
  }
};

// kOwn: 1 - beta1, beta2, 1 - beta2, 1 / sqrt(1 - beta2^step), eps. kRate: lr / (1 - beta1^step).
struct AdamRule {
  static constexpr const char* kName = "adam";
  static constexpr unsigned kBits = kOptimDecay | kOptimAmsgrad;
  static constexpr int operands(unsigned f) { return f & kOptimAmsgrad ? 5 : 4; }
  template <unsigned F, class T>
  static inline void step(Element<T>& e, const T* s) {
    e.p *= s[kShrink];
    e.a += s[kOwn] * (e.g - e.a);
    e.b = s[kOwn + 1] * e.b + s[kOwn + 2] * e.g * e.g;
    T square = e.b;
    if constexpr ((F & kOptimAmsgrad) != 0) {
      square = e.c > e.b || e.c != e.c ? e.c : e.b;
      e.c = square;
    }
    e.p -= s[kRate] * e.a / (root(square) * s[kOwn + 3] + s[kOwn + 4]);
  }
};

struct RmsPropRule {  // kOwn: alpha, 1 - alpha, eps, momentum
  static constexpr const char* kName = "rmsprop";
  static constexpr unsigned kBits = kOptimDecay | kOptimMomentum | kOptimCentered;
  static constexpr int operands(unsigned f) {
    return 3 + ((f & kOptimMomentum) != 0) + ((f & kOptimCentered) != 0);
  }
  template <unsigned F, class T>
  static inline void step(Element<T>& e, const T* s) {
    e.a = s[kOwn] * e.a + s[kOwn + 1] * e.g * e.g;
    T square = e.a;
    if constexpr ((F & kOptimCentered) != 0) {
      e.b += s[kOwn + 1] * (e.g - e.b);
      square -= e.b * e.b;
    }
    T d = e.g / (root(square) + s[kOwn + 2]);
    if constexpr ((F & kOptimMomentum) != 0) {
      T& buffer = (F & kOptimCentered) != 0 ? e.c : e.b;
      buffer = s[kOwn + 3] * buffer + d;
      d = buffer;
    }
    e.p -= s[kRate] * d;
  }
};

struct AdagradRule {  // kOwn: eps. kRate: lr / (1 + (step - 1) * lr_decay)
  static constexpr const char* kName = "adagrad";
  static constexpr unsigned kBits = kOptimDecay;
  static constexpr int operands(unsigned) { return 3; }
  template <unsigned F, class T>
  static inline void step(Element<T>& e, const T* s) {
    e.a += e.g * e.g;
    e.p -= s[kRate] * e.g / (root(e.a) + s[kOwn]);
  }
};

struct AdadeltaRule {  // kOwn: rho, 1 - rho, eps
  static constexpr const char* kName = "adadelta";
  static constexpr unsigned kBits = kOptimDecay;
  static constexpr int operands(unsigned) { return 4; }
  template <unsigned F, class T>
  static inline void step(Element<T>& e, const T* s) {
    e.a = s[kOwn] * e.a + s[kOwn + 1] * e.g * e.g;
    const T d = root(e.b + s[kOwn + 2]) / root(e.a + s[kOwn + 2]) * e.g;
    e.b = s[kOwn] * e.b + s[kOwn + 1] * d * d;
    e.p -= s[kRate] * d;
  }
};

struct AdamaxRule {  // kOwn: 1 - beta1, beta2, eps. kRate: lr / (1 - beta1^step)
  static constexpr const char* kName = "adamax";
  static constexpr unsigned kBits = kOptimDecay;
  static constexpr int operands(unsigned) { return 4; }
  template <unsigned F, class T>
  static inline void step(Element<T>& e, const T* s) {
    e.a += s[kOwn] * (e.g - e.a);
    const T old = s[kOwn + 1] * e.b, now = std::fabs(e.g) + s[kOwn + 2];
    e.b = old > now || old != old ? old : now;
    e.p -= s[kRate] * e.a / e.b;
  }
};

// kOwn holds Adam's scalars, then the factor of the gradient; kRate is the factor of the mean.
struct NAdamRule {
  static constexpr const char* kName = "nadam";
  static constexpr unsigned kBits = kOptimDecay;
  static constexpr int operands(unsigned) { return 4; }
  template <unsigned F, class T>
  static inline void step(Element<T>& e, const T* s) {
    e.p *= s[kShrink];
    e.a += s[kOwn] * (e.g - e.a);
    e.b = s[kOwn + 1] * e.b + s[kOwn + 2] * e.g * e.g;
    const T denom = root(e.b) * s[kOwn + 3] + s[kOwn + 4];
    e.p -= (s[kOwn + 5] * e.g + s[kRate] * e.a) / denom;
  }
};

struct RAdamRule {  // kOwn: 1 - beta1, beta2, 1 - beta2, eps
  static constexpr const char* kName = "radam";
  static constexpr unsigned kBits = kOptimDecay | kOptimRectified;
  static constexpr int operands(unsigned) { return 4; }
  template <unsigned F, class T>
  static inline void step(Element<T>& e, const T* s) {
    e.p *= s[kShrink];
    e.a += s[kOwn] * (e.g - e.a);
    e.b = s[kOwn + 1] * e.b + s[kOwn + 2] * e.g * e.g;
    T d = s[kRate] * e.a;
    if constexpr ((F & kOptimRectified) != 0) d /= root(e.b) + s[kOwn + 3];
    e.p -= d;
  }
};

struct RpropRule {  // kOwn: etaminus, etaplus, smallest and largest step
  static constexpr const char* kName = "rprop";
  static constexpr unsigned kBits = 0;
  static constexpr int operands(unsigned) { return 4; }
  template <unsigned F, class T>
  static inline void step(Element<T>& e, const T* s) {
    const T turn = e.g * e.a;
    const T factor = turn > T(0) ? s[kOwn + 1] : (turn < T(0) ? s[kOwn] : T(1));
    T size = e.b * factor;
    size = size < s[kOwn + 2] ? s[kOwn + 2] : size;
    e.b = size > s[kOwn + 3] ? s[kOwn + 3] : size;
    e.a = turn < T(0) ? T(0) : e.g;
    e.p -= e.a > T(0) ? e.b : (e.a < T(0) ? -e.b : T(0));
  }
};

struct AsgdRule {  // kOwn: mu
  static constexpr const char* kName = "asgd";
  static constexpr unsigned kBits = kOptimDecay | kOptimAveraged;
  static constexpr int operands(unsigned) { return 3; }
  template <unsigned F, class T>
  static inline void step(Element<T>& e, const T* s) {
    e.p = e.p * s[kShrink] - s[kRate] * e.g;
    e.a = (F & kOptimAveraged) != 0 ? e.a + s[kOwn] * (e.p - e.a) : e.p;
  }
};

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
