// SPDX-License-Identifier: BSD-3-Clause
// Parts of a call of a registered op.
#pragma once
#include "api/registration.h"
#include "api/results.h"
#include "api/values.h"

namespace cograd::api {

// f(tensor) for each tensor argument, undefined where None.
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

// The arguments as a callback gets them; `room` holds lists made for it.
SmallVec<cograd_value, 8> boxed_args(const ForeignOp& op, const Value* values, Room& room);
// What a callback pushed, as the op's one result.
void set_result(const ForeignOp& op, std::vector<Result>& items, Result& out);
// A call inside of a vmap. False: no argument has samples, or the op takes them itself.
bool call_foreign_samples(const ForeignOp& op, const Value* values, Result& out);

}  // namespace cograd::api
