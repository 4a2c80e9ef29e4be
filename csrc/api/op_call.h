// SPDX-License-Identifier: BSD-3-Clause
// Steps of a call of a registered op.
#pragma once
#include "api/registration.h"
#include "api/results.h"
#include "api/values.h"

namespace cograd::api {

// Calls f(tensor) for each tensor argument; the tensor is undefined for None.
template <class F>
void each_tensor(const OpRecord& r, const Value* args, F&& f) {
  for (size_t i = 0; i < r.args.size(); ++i) {
    const Value& v = args[i];
    if (r.args[i].kind == ArgKind::Tensors) {
      for (const Tensor& t : v.tensors()) f(t);
    } else if (r.args[i].kind == ArgKind::Tensor || r.args[i].kind == ArgKind::TensorOrScalar) {
      f(v.has_tensor() ? v.tensor() : Tensor());
    }
  }
}

// Returns the arguments in the form that callbacks get. `lists` owns lists that are created for it.
SmallVec<cograd_value, 8> boxed_args(const ForeignOp& op, const Value* values, OwnedLists& lists);
// Combines the values that a callback pushed into the op's result.
void set_result(const ForeignOp& op, std::vector<Result>& items, Result& out);
// Makes a call inside a vmap. Returns false, without a call, if no argument is batched or the op
// accepts batched tensors itself.
bool call_foreign_samples(const ForeignOp& op, const Value* values, Result& out);

}  // namespace cograd::api
