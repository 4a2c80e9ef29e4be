// SPDX-License-Identifier: BSD-3-Clause
// CallForm: how an op is called. It goes with a call through the stages to the op.
#pragma once
#include <span>

#include "ops/declare/value.h"

namespace cograd {

class TensorSet;

enum class Form : uint8_t {
  Plain,    // returns a new tensor, or a view
  InPlace,  // writes its first argument
  Out,      // writes the tensor that was passed as out=
};

struct CallForm {
  Form form = Form::Plain;
  // True if the stages have handled the call, so that it goes to the op itself.
  bool passed = false;
  const Tensor* target = nullptr;  // what an in-place or out= call writes
  std::span<const Value> values;   // the boxed arguments of a call with a target, or none
  // Arguments that count as requiring grad, because forward mode differentiates the recorded op.
  const TensorSet* wanted = nullptr;

  static CallForm inplace(const Tensor& self, std::span<const Value> args) noexcept {
    return {Form::InPlace, false, &self, args, nullptr};
  }
  static CallForm into(const Tensor& out, std::span<const Value> args) noexcept {
    return {Form::Out, false, &out, args, nullptr};
  }
  CallForm past_stages() const noexcept {
    CallForm f = *this;
    f.passed = true;
    return f;
  }
  // Runs another op in this form, on behalf of an op that only checks its arguments.
  template <class Op, class... Args>
  Tensor run(const Args&... args) const;
};
inline constexpr CallForm kPlainCall;

}  // namespace cograd
