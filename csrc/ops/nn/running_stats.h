// SPDX-License-Identifier: BSD-3-Clause
// Running statistics of normalisations: constants, which training updates outside of any graph.
#pragma once
#include "tensor/tensor.h"

namespace cograd {

class RunningStats {
 public:
  // Raises if a gradient with respect to one of them would be lost.
  RunningStats(const char* op, const Tensor& mean, const Tensor& var);
  bool any() const noexcept { return mean_.defined() || var_.defined(); }
  // Raises if either of them cannot be written for an input `x`; called before the first write.
  void check_writable(const Tensor& x) const;
  // True if the weights are batched at a vmap level at which the statistics, which depend only on
  // the input, are not.
  bool lack_samples_of(const Tensor& w, const Tensor& b) const noexcept;
  // Sets running = (1 - momentum) running + momentum value for both; `var` is over `count` values.
  void update(const Tensor& mean, const Tensor& var, int64_t count, double momentum) const;

 private:
  const char* op_;
  const Tensor &mean_, &var_;
};

}  // namespace cograd
