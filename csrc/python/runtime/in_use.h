// SPDX-License-Identifier: BSD-3-Clause
// Registers the tensors that calls from Python use while they run; see autograd/modes/in_use.h.
#pragma once
#include "autograd/modes/in_use.h"
#include "ops/declare/registry.h"
#include "transforms/batch.h"

namespace cograd::python {

// The arguments of an op, including the one it writes in place, and those of out=.
class ArgumentsInUse final : public InUse {
 public:
  ArgumentsInUse(const OpRecord* r, const Value* args, TensorList outs = {}) noexcept
      : InUse(kKind), record_(r), args_(args), outs_(outs) {}

 private:
  static const Kind kKind;

  const OpRecord* record_;
  const Value* args_;
  TensorList outs_;
};

// A tensor that the user's Python code may reach in the middle of a call.
class TensorInUse final : public InUse {
 public:
  TensorInUse(const Tensor& t, const char* name) noexcept : InUse(kKind), tensor_(t), name_(name) {}

 private:
  static const Kind kKind;

  const Tensor& tensor_;
  const char* name_;
};

}  // namespace cograd::python
