// SPDX-License-Identifier: BSD-3-Clause
// Moves values between tensors and the host. Ops that decide by an element, such as a count or a
// flag, read it here and nowhere else, so that a device can implement this in one place.
#pragma once
#include <span>
#include <type_traits>
#include <vector>

#include "tensor/tensor.h"

namespace cograd {

// Copies n elements of a contiguous tensor of dtype T, from element `first` on.
template <class T>
void read_elements(const Tensor& t, int64_t first, int64_t n, T* to) {
  copy_to_host(t->device, t.data<T>() + first, to, static_cast<size_t>(n) * sizeof(T));
}
// Copies values to a contiguous tensor of dtype T, from its first element on.
template <class T>
void write_elements(const Tensor& t, std::span<const T> values) {
  copy_from_host(t->device, values.data(), t.data<T>(), values.size_bytes());
}

// Returns element i of a contiguous tensor of dtype T.
template <class T>
T host_value(const Tensor& t, int64_t i = 0) {
  // Foreign memory may hold any byte for a bool.
  std::conditional_t<std::is_same_v<T, bool>, uint8_t, T> v;
  copy_to_host(t->device, t.data<T>() + i, &v, sizeof v);
  return static_cast<T>(v);
}
// Writes the first element of a tensor of dtype T.
template <class T>
void write_element(const Tensor& t, T v) {
  copy_from_host(t->device, &v, t.data<T>(), sizeof v);
}
// Returns all elements of a contiguous tensor of dtype T.
template <class T>
std::vector<T> host_values(const Tensor& t) {
  std::vector<T> values(static_cast<size_t>(t.numel()));
  read_elements(t, 0, t.numel(), values.data());
  return values;
}
// Returns them for an op whose result has the same shape whatever they are: on the meta device,
// each is `on_meta`.
template <class T>
std::vector<T> host_values_or(const Tensor& t, T on_meta) {
  if (t->device.type != DeviceType::Meta) return host_values<T>(t);
  return std::vector<T>(static_cast<size_t>(t.numel()), on_meta);
}
// Returns a new 1-d tensor of these values.
inline Tensor tensor_of(std::span<const int64_t> values) {
  const int64_t size[1] = {static_cast<int64_t>(values.size())};
  Tensor out = empty(size, DType::Int64);
  write_elements(out, values);
  return out;
}

}  // namespace cograd
