// SPDX-License-Identifier: BSD-3-Clause
// TensorAccessor: access to elements by index, x[i][j], for one multiplication per index.
#pragma once
#include <stdint.h>

#include "cograd/error.h"
#include "cograd/types.h"

namespace cograd {
inline namespace abi1 {

namespace ext {
// Checks an index, in extensions built with debug=True.
inline void check_index([[maybe_unused]] int64_t i, [[maybe_unused]] int64_t size) {
#ifdef COGRAD_DEBUG
  COGRAD_CHECK_INDEX(i >= 0 && i < size, "accessor: index ", i, " is out of range, expected 0 to ",
                     size - 1);
#endif
}
}  // namespace ext

// x.accessor<T, N>() returns this; it borrows the memory of x.
template <class T, int N>
class TensorAccessor {
 public:
  TensorAccessor(T* data, const int64_t* sizes, const int64_t* strides) noexcept
      : data_(data), sizes_(sizes), strides_(strides) {}
  TensorAccessor<T, N - 1> operator[](int64_t i) const {
    ext::check_index(i, sizes_[0]);
    return {data_ + i * strides_[0], sizes_ + 1, strides_ + 1};
  }
  // These raise IndexError unless 0 <= i < N.
  int64_t size(int i) const { return sizes()[static_cast<size_t>(i)]; }
  int64_t stride(int i) const { return strides()[static_cast<size_t>(i)]; }
  IntArrayRef sizes() const noexcept { return {sizes_, static_cast<size_t>(N)}; }
  IntArrayRef strides() const noexcept { return {strides_, static_cast<size_t>(N)}; }
  T* data() const noexcept { return data_; }

 private:
  T* data_;
  const int64_t* sizes_;
  const int64_t* strides_;
};

// With one dim left, an index gives an element.
template <class T>
class TensorAccessor<T, 1> {
 public:
  TensorAccessor(T* data, const int64_t* sizes, const int64_t* strides) noexcept
      : data_(data), size_(sizes[0]), stride_(strides[0]) {}
  T& operator[](int64_t i) const {
    ext::check_index(i, size_);
    return data_[i * stride_];
  }
  int64_t size(int = 0) const noexcept { return size_; }
  int64_t stride(int = 0) const noexcept { return stride_; }
  T* data() const noexcept { return data_; }

 private:
  T* data_;
  int64_t size_, stride_;
};
template <class T, int N>
using PackedTensorAccessor64 = TensorAccessor<T, N>;
template <class T, int N>
using PackedTensorAccessor32 = TensorAccessor<T, N>;

}  // namespace abi1
}  // namespace cograd
