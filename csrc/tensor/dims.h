// SPDX-License-Identifier: BSD-3-Clause
// SmallVec: a vector with inline storage, and Dims, the sizes or strides of a tensor.
#pragma once
#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <new>
#include <span>
#include <string>
#include <utility>

#include "cograd/error.h"
#include "tensor/checked.h"

namespace cograd {

// A vector that stores up to N elements inside the object; T must be nothrow-movable.
template <class T, uint32_t N>
class SmallVec {
 public:
  SmallVec() noexcept = default;
  explicit SmallVec(size_t n, const T& v = T()) { resize(n, v); }
  SmallVec(std::initializer_list<T> v) { append(v.begin(), v.end()); }
  template <class It>
  SmallVec(It first, It last) {
    append(first, last);
  }
  SmallVec(std::span<const T> v) { append(v.begin(), v.end()); }  // NOLINT: implicit
  SmallVec(const SmallVec& o) { append(o.begin(), o.end()); }
  SmallVec(SmallVec&& o) noexcept { take(o); }
  SmallVec& operator=(const SmallVec& o) {
    if (this != &o) {
      clear();
      append(o.begin(), o.end());
    }
    return *this;
  }
  SmallVec& operator=(SmallVec&& o) noexcept {
    if (this != &o) {
      destroy();
      take(o);
    }
    return *this;
  }
  ~SmallVec() { destroy(); }

  T* data() noexcept { return data_; }
  const T* data() const noexcept { return data_; }
  size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  T* begin() noexcept { return data_; }
  T* end() noexcept { return data_ + size_; }
  const T* begin() const noexcept { return data_; }
  const T* end() const noexcept { return data_ + size_; }
  T& operator[](size_t i) noexcept { return data_[i]; }
  const T& operator[](size_t i) const noexcept { return data_[i]; }
  T& back() noexcept { return data_[size_ - 1]; }
  const T& back() const noexcept { return data_[size_ - 1]; }
  T& front() noexcept { return data_[0]; }

  void push_back(T v) {
    if (size_ == cap_) [[unlikely]]
      grow(size_t{size_} + 1);
    new (static_cast<void*>(data_ + size_)) T(std::move(v));
    ++size_;
  }
  void pop_back() noexcept { data_[--size_].~T(); }
  void clear() noexcept {
    for (uint32_t i = 0; i < size_; ++i) data_[i].~T();
    size_ = 0;
  }
  void resize(size_t n, const T& v = T()) {
    if (n > cap_) grow(n);
    while (size_ > n) pop_back();
    while (size_ < n) new (static_cast<void*>(data_ + size_++)) T(v);
  }
  template <class It>
  void append(It first, It last) {
    for (; first != last; ++first) push_back(*first);
  }
  void insert(size_t at, T v) {
    push_back(std::move(v));
    std::rotate(begin() + at, end() - 1, end());
  }
  void erase(size_t at) {
    std::move(begin() + at + 1, end(), begin() + at);
    pop_back();
  }
  bool operator==(const SmallVec& o) const noexcept {
    return std::equal(begin(), end(), o.begin(), o.end());
  }

 private:
  T* inline_data() noexcept { return reinterpret_cast<T*>(raw_); }
  void grow(size_t n) {
    const size_t wanted = std::max(n, size_t{cap_} * 2);
    if (wanted > UINT32_MAX) throw std::bad_alloc();
    const auto cap = static_cast<uint32_t>(wanted);
    T* p = static_cast<T*>(::operator new(wanted * sizeof(T)));
    for (uint32_t i = 0; i < size_; ++i) {
      new (static_cast<void*>(p + i)) T(std::move(data_[i]));
      data_[i].~T();
    }
    if (data_ != inline_data()) ::operator delete(static_cast<void*>(data_));
    data_ = p;
    cap_ = cap;
  }
  void destroy() noexcept {
    clear();
    if (data_ != inline_data()) ::operator delete(static_cast<void*>(data_));
    data_ = inline_data();
    cap_ = N;
  }
  void take(SmallVec& o) noexcept {
    if (o.data_ != o.inline_data()) {
      data_ = std::exchange(o.data_, o.inline_data());
      cap_ = std::exchange(o.cap_, N);
      size_ = std::exchange(o.size_, 0);
    } else {
      data_ = inline_data();
      cap_ = N;
      size_ = 0;
      for (uint32_t i = 0; i < o.size_; ++i)
        new (static_cast<void*>(data_ + size_++)) T(std::move(o.data_[i]));
      o.clear();
    }
  }

  T* data_ = inline_data();
  uint32_t size_ = 0;
  uint32_t cap_ = N;
  alignas(T) unsigned char raw_[sizeof(T) * N];
};

using Dims = SmallVec<int64_t, 6>;
inline constexpr int kMaxDims = 64;

// A loop compares the few sizes of a shape faster than memcmp, which std::equal would call.
inline bool same(IntList a, IntList b) noexcept {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i]) return false;
  return true;
}
// Returns "[2, 3]", as torch prints a shape inside an error message.
COGRAD_API std::string to_string(IntList v);
COGRAD_API Dims contiguous_strides(IntList sizes);
// Sets `out` to the shape that `a` and `b` broadcast to; returns false if they do not broadcast.
COGRAD_API bool broadcast_shapes(IntList a, IntList b, Dims& out);

}  // namespace cograd
