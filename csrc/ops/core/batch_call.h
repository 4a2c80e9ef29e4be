// SPDX-License-Identifier: BSD-3-Clause
// BatchCall: a call with handles on samples, as an op's member batch() sees it.
#pragma once
#include "autograd/batch.h"
#include "ops/core/op.h"
#include "ops/core/ops.h"

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

  // Whether `t` has a value for each of this level's samples.
  bool batched(const Tensor& t) const noexcept { return batch_level(t) == level_.id; }
  // All samples of `t`, in dim 0; `t` itself if they are equal.
  Tensor samples(const Tensor& t) const { return batched(t) ? samples_first(t) : t; }
  // The same, equal samples expanded in one memory.
  Tensor all_samples(const Tensor& t) const;
  // The same with `rank` dims after the samples', those that are missing of size 1; of equal
  // samples `t` itself, which broadcasts.
  Tensor aligned(const Tensor& t, int rank) const;
  // The result, whose samples are in a dim.
  void give(const Tensor& whole, int dim = 0) { box(out_, make_batched(whole, dim, level_.id)); }
  // Sample by sample, and stacked.
  void loop();

 private:
  const OpRecord& record_;
  const Value* args_;
  const VmapLevel& level_;
  Result& out_;
};

namespace detail {
// "[3, 4]" -> "[n, 3, 4]"
inline Dims with_samples(int64_t n, IntList sizes) {
  Dims out{n};
  for (const int64_t s : sizes) out.push_back(s);
  return out;
}
}  // namespace detail

// The rule of an op that gives a number for each x[i]: samples of them are more of these.
template <class Op>
void give_each(BatchCall& c) {
  const Tensor x = c.samples(c.arg(0).tensor());
  const int64_t sizes[2] = {x.size(0), x.size(1)};
  c.give(reshape(apply<Op>(flatten(x, 0, 1)), sizes));
}

}  // namespace cograd
