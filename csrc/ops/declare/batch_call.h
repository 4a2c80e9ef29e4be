// SPDX-License-Identifier: BSD-3-Clause
// BatchCall: a call with batched tensors, as an op's member batch() sees it.
#pragma once
#include "ops/declare/op.h"
#include "ops/declare/ops.h"
#include "transforms/batch.h"

namespace cograd {

class COGRAD_API BatchCall {
 public:
  BatchCall(const OpRecord& r, const Value* args, const VmapLevel& level, Result& out) noexcept
      : record_(r), args_(args), level_(level), out_(out) {}
  const OpRecord& record() const noexcept { return record_; }
  const Value& arg(size_t i) const noexcept { return args_[i]; }
  const Value* args() const noexcept { return args_; }
  const VmapLevel& level() const noexcept { return level_; }
  Result& out() const noexcept { return out_; }
  int64_t size() const noexcept { return level_.size; }

  // True if `t` is batched at this vmap level.
  bool batched(const Tensor& t) const noexcept { return batch_level(t) == level_.id; }
  // Returns the physical tensor of `t` with the batch in dim 0, or `t` itself if it is not batched.
  Tensor physical(const Tensor& t) const { return batched(t) ? batch_dim_first(t) : t; }
  // Returns physical(t), but expands a tensor that is not batched, without copying it.
  Tensor physical_expanded(const Tensor& t) const;
  // Returns physical(t) with `rank` dims after the batch dim; missing ones are inserted with
  // size 1. Returns `t` itself if it is not batched, since it broadcasts.
  Tensor aligned(const Tensor& t, int rank) const;
  // Sets the result: its physical tensor has the batch in dim `dim`.
  void set_result(const Tensor& physical, int dim = 0) {
    box(out_, make_batched(physical, dim, level_.id));
  }
  // Runs the op sample by sample and stacks the results.
  void loop();

 private:
  const OpRecord& record_;
  const Value* args_;
  const VmapLevel& level_;
  Result& out_;
};

namespace detail {
// Prepends the batch size: "[3, 4]" -> "[n, 3, 4]".
inline Dims with_samples(int64_t n, IntList sizes) {
  Dims out{n};
  for (const int64_t s : sizes) out.push_back(s);
  return out;
}
}  // namespace detail

// Batches an op that returns a number for each x[i] by merging the batch dim into dim 0.
template <class Op>
void merge_batch_dim(BatchCall& c) {
  const Tensor x = c.physical(c.arg(0).tensor());
  const int64_t sizes[2] = {x.size(0), x.size(1)};
  c.set_result(reshape(apply<Op>(flatten(x, 0, 1)), sizes));
}

}  // namespace cograd
