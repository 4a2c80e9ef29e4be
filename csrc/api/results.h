// SPDX-License-Identifier: BSD-3-Clause
// The results that a callback of the C interface pushed, and the tensors among them.
#pragma once
#include "api/function.h"
#include "ops/declare/registry.h"
#include "transforms/custom_samples.h"

struct cograd_results_s {
  std::vector<cograd::Result> items;
  std::vector<int32_t> dims;
  bool has_dims = false;
};

namespace cograd::api {

// Appends pointers to the tensors of a result; None counts as an undefined tensor.
inline void add_slots(Result& r, std::vector<Tensor*>& out) {
  if (r.kind == Result::Kind::Tensor || r.kind == Result::Kind::None) out.push_back(&r.tensor);
  for (Tensor& t : r.tensors) out.push_back(&t);
  if (r.more == nullptr) return;
  for (Result& part : r.more->items) add_slots(part, out);
}
inline std::vector<Tensor*> tensor_slots(std::vector<Result>& items) {
  std::vector<Tensor*> out;
  for (Result& r : items) add_slots(r, out);
  return out;
}

// Returns the batch dims that the vmap rule of the function `name` set for the `n` tensors that it
// returned. If the rule set none, all are 0.
inline std::vector<SampleDim> sample_dims(const cograd_results_s& results, size_t n,
                                          const std::string& name) {
  COGRAD_CHECK(!results.has_dims || results.dims.size() == n, name, ": batch set ",
               results.dims.size(), " dims of samples, expected ", n,
               ": one for each tensor among its results");
  std::vector<SampleDim> out(n, SampleDim(0));
  for (size_t i = 0; i < n && results.has_dims; ++i)
    out[i] = results.dims[i] < 0 ? SampleDim() : SampleDim(results.dims[i]);
  return out;
}

inline cograd_batch_info batch_info(const VmapLevel& level) noexcept {
  return {sizeof(cograd_batch_info), level.size, static_cast<int32_t>(level.randomness)};
}
inline std::vector<int32_t> dims_to_c(std::span<const SampleDim> dims) {
  std::vector<int32_t> out;
  for (const SampleDim& d : dims) out.push_back(d ? static_cast<int32_t>(*d) : -1);
  return out;
}
inline const cograd_tensor* handles_of(std::span<const Tensor> list) noexcept {
  return reinterpret_cast<const cograd_tensor*>(list.data());
}

}  // namespace cograd::api
