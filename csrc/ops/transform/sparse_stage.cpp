// SPDX-License-Identifier: BSD-3-Clause
// The stage that refuses sparse tensors.
#include "ops/declare/stages.h"
#include "tensor/sparse.h"

namespace cograd {

void check_no_sparse(const OpRecord& r, const Value* args) {
  each_tensor(r, args, [&](size_t, const Tensor& t) {
    if (is_sparse(t)) [[unlikely]]
      fail_sparse((std::string(r.spec.name) + "()").c_str());
  });
}

bool sparse_stage(const StagedCall& call) {
  if (call.record.foreign == nullptr) check_no_sparse(call.record, call.args);
  return false;
}

}  // namespace cograd
