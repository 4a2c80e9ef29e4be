// SPDX-License-Identifier: BSD-3-Clause
// Running statistics of normalisations: constants, which training writes outside of any graph.
#pragma once
#include "tensor/tensor.h"

namespace cograd {

class RunningStats {
 public:
  // Raises if a gradient with respect to one of them would be left out.
  RunningStats(const char* op, const Tensor& mean, const Tensor& var);
  bool any() const noexcept { return mean_.defined() || var_.defined(); }
  // Raises where they cannot be written, for an input `x`, before either of them is.
  void check_writable(const Tensor& x) const;
  // Whether the weights have samples that the statistics, which are of the input alone, have not.
  bool lack_samples_of(const Tensor& w, const Tensor& b) const noexcept;
  // running = (1 - momentum) running + momentum value, of each; `count` values went into `var`.
  // Raises before either is written where samples differ that share a statistic.
  void update(const Tensor& mean, const Tensor& var, int64_t count, double momentum) const;

 private:
  void write(const Tensor& mean, const Tensor& var, int64_t count, double momentum) const;
  const char* op_;
  const Tensor &mean_, &var_;
};

}  // namespace cograd
