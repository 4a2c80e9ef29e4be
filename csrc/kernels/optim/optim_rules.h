// SPDX-License-Identifier: BSD-3-Clause
// The update rules of optimizers, element by element, for loops of the CPU and the text of GPUs'
// kernels. Who includes this file defines root(x) and magnitude(x) before.
#pragma once
#include "kernels/optim/optim_flags.h"

namespace cograd::kernels {
namespace {

using namespace optim_scalar;

// The values that a rule sees for one element; it changes all but g.
template <class T>
struct Element {
  T p, g, a, b, c;
};

// Each rule defines its name, its variants (bits of flags), its number of operands, and the step of
// one element. optim_loops.cpp lists them.
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
    const T old = s[kOwn + 1] * e.b, now = magnitude(e.g) + s[kOwn + 2];
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

}  // namespace
}  // namespace cograd::kernels
