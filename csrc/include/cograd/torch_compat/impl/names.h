// SPDX-License-Identifier: BSD-3-Clause
// The namespaces at, c10, caffe2 and torch: cograd's names, and torch's different names for them.
#pragma once
#include "cograd/torch_compat/impl/errors.h"

namespace cograd {
namespace torch_compat {

template <class I>
class IntRange {
 public:
  struct Iterator {
    using iterator_category = std::input_iterator_tag;
    using value_type = I;
    using difference_type = std::ptrdiff_t;
    using pointer = const I*;
    using reference = I;
    I i;
    I operator*() const noexcept { return i; }
    Iterator& operator++() noexcept {
      ++i;
      return *this;
    }
    Iterator operator++(int) noexcept { return {i++}; }
    bool operator==(const Iterator& o) const noexcept { return i == o.i; }
    bool operator!=(const Iterator& o) const noexcept { return i != o.i; }
  };
  IntRange(I begin, I end) noexcept : begin_(begin), end_(end < begin ? begin : end) {}
  Iterator begin() const noexcept { return {begin_}; }
  Iterator end() const noexcept { return {end_}; }

 private:
  I begin_, end_;
};

// c10::List, here a vector: copies do not share their elements as they do in torch.
template <class T>
class List : public std::vector<T> {
 public:
  using std::vector<T>::vector;
  List(std::vector<T> v) : std::vector<T>(std::move(v)) {}  // NOLINT: implicit
  const T& get(size_t i) const { return this->at(i); }
  void set(size_t i, T v) { this->at(i) = std::move(v); }
  const std::vector<T>& vec() const noexcept { return *this; }
};

template <class T>
struct Opmath {
  using type = T;
};
template <>
struct Opmath<Half> {
  using type = float;
};
template <>
struct Opmath<BFloat16> {
  using type = float;
};
template <class T>
using Accumulated = std::conditional_t<std::is_integral_v<T>, int64_t, double>;

}  // namespace torch_compat
}  // namespace cograd

inline cograd::Tensor cograd::Tensor::slice(int64_t d, std::optional<int64_t> start,
                                            std::optional<int64_t> end, int64_t step) const {
  std::vector<TensorIndex> items(wrapped(d), TensorIndex(cograd::indexing::Slice()));
  items.emplace_back(cograd::indexing::Slice(start, end, step));
  return index(items);
}
inline std::shared_ptr<cograd::torch_compat::Node> cograd::Tensor::grad_fn() const {
  const std::string name = grad_fn_name();
  return name.empty() ? nullptr : std::make_shared<torch_compat::Node>(torch_compat::Node{name});
}

namespace at {

using namespace ::cograd;  // NOLINT: that is what these headers are for

using ::cograd::DeviceType;
using ::cograd::torch_compat::DefaultPtrTraits;
using ::cograd::torch_compat::DeprecatedTypeProperties;
using ::cograd::torch_compat::List;
using ::cograd::torch_compat::MemoryFormat;
using ::cograd::torch_compat::RestrictPtrTraits;
using Type = DeprecatedTypeProperties;
// Tags of ops; they have no effect here.
enum class Tag : uint8_t {
  core,
  pt2_compliant_tag,
  needs_fixed_stride_order,
  needs_exact_strides,
  needs_contiguous_strides,
  flexible_layout,
  inplace_view,
  pointwise,
  dynamic_output_shape,
  data_dependent_output,
  generated,
  nondeterministic_seeded,
  nondeterministic_bitwise,
  view_copy,
};
using Backtrace = std::string;

template <class T, int N, template <class> class P = DefaultPtrTraits, class I = int64_t>
using TensorAccessor = ::cograd::TensorAccessor<T, N>;
template <class T, int N, template <class> class P = DefaultPtrTraits>
using PackedTensorAccessor32 = ::cograd::TensorAccessor<T, N>;
template <class T, int N, template <class> class P = DefaultPtrTraits>
using PackedTensorAccessor64 = ::cograd::TensorAccessor<T, N>;
template <class T, int N, template <class> class P = DefaultPtrTraits, class I = int64_t>
using PackedTensorAccessor = ::cograd::TensorAccessor<T, N>;

using OptionalTensorRef = std::optional<Tensor>;
using OptionalIntArrayRef = std::optional<IntArrayRef>;
template <class T>
using OptionalArrayRef = std::optional<ArrayRef<T>>;
using SymInt = int64_t;
using SymIntArrayRef = IntArrayRef;
using ITensorListRef = TensorList;

template <class T>
using opmath_type = typename ::cograd::torch_compat::Opmath<T>::type;
template <class T, bool>
using acc_type = ::cograd::torch_compat::Accumulated<T>;

inline const char* toString(ScalarType t) { return ::cograd::torch_compat::type_name(t); }
inline size_t elementSize(ScalarType t) { return static_cast<size_t>(dtype_size(t)); }
inline bool isFloatingType(ScalarType t) { return is_floating(t); }
inline bool isReducedFloatingType(ScalarType t) { return t == kHalf || t == kBFloat16; }
inline bool isIntegralType(ScalarType t, bool include_bool) {
  return is_integral(t) || (include_bool && t == kBool);
}
inline bool isComplexType(ScalarType t) { return is_complex(t); }
inline ScalarType toRealValueType(ScalarType t) { return real_dtype(t); }
inline ScalarType toComplexType(ScalarType t) {
  return t == kDouble || t == kComplexDouble ? kComplexDouble : kComplexFloat;
}
inline bool isSignedType(ScalarType t) { return is_signed(t); }
inline ScalarType typeMetaToScalarType(ScalarType t) { return t; }
template <class T>
struct CppTypeToScalarType : std::integral_constant<ScalarType, dtype_of<T>> {};
inline bool is_custom_op(const Tensor&) = delete;

// Overloads that torch has and cograd does not. A memory format has no effect here.
using ::cograd::normal;
inline Tensor normal(double mean, double std, const Ints& sizes, std::nullopt_t,
                     const TensorOptions& o = {}) {
  return ::cograd::normal(mean, std, sizes, o);
}
using ::cograd::empty;
using ::cograd::empty_like;
using ::cograd::full_like;
using ::cograd::ones_like;
using ::cograd::zeros_like;
inline Tensor empty_like(const Tensor& t, MemoryFormat) { return ::cograd::empty_like(t); }
inline Tensor zeros_like(const Tensor& t, MemoryFormat) { return ::cograd::zeros_like(t); }
inline Tensor ones_like(const Tensor& t, MemoryFormat) { return ::cograd::ones_like(t); }
inline Tensor empty_like(const Tensor& t, const TensorOptions& o, std::optional<MemoryFormat>) {
  return ::cograd::empty_like(t, o);
}
inline Tensor zeros_like(const Tensor& t, const TensorOptions& o, std::optional<MemoryFormat>) {
  return ::cograd::zeros_like(t, o);
}
inline Tensor empty(const Ints& sizes, const TensorOptions& o, std::optional<MemoryFormat>) {
  return ::cograd::empty(sizes, o);
}

// In torch a grain size below 1 means 1; in cograd's parallel_for it means "do not divide".
namespace internal {
inline constexpr int64_t GRAIN_SIZE = 32768;
}
template <class F>
void parallel_for(int64_t begin, int64_t end, int64_t grain, const F& f) {
  ::cograd::parallel_for(begin, end, std::max<int64_t>(grain, 1), f);
}
// Reduces chunks in parallel and combines them in order. The chunk size depends only on the range
// and the grain, so results are reproducible.
template <class T, class F, class C>
T parallel_reduce(int64_t begin, int64_t end, int64_t grain, T identity, const F& f,
                  const C& combine) {
  if (begin >= end) return identity;
  const int64_t size = std::max<int64_t>({grain, 1, (end - begin + 255) / 256});
  const int64_t n = (end - begin + size - 1) / size;
  if (n == 1) return f(begin, end, identity);
  std::unique_ptr<T[]> parts(new T[static_cast<size_t>(n)]);
  ::cograd::parallel_for(0, n, 1, [&](int64_t lo, int64_t hi) {
    for (int64_t i = lo; i < hi; ++i)
      parts[static_cast<size_t>(i)] =
          f(begin + i * size, std::min(end, begin + (i + 1) * size), identity);
  });
  T result = identity;
  for (int64_t i = 0; i < n; ++i) result = combine(result, parts[static_cast<size_t>(i)]);
  return result;
}
inline int64_t divup(int64_t x, int64_t y) { return (x + y - 1) / y; }
inline void manual_seed(uint64_t) = delete;  // seed from Python: cograd.manual_seed

}  // namespace at

#define LEGACY_CONTIGUOUS_MEMORY_FORMAT ::at::MemoryFormat::Contiguous

namespace c10 {
using namespace ::at;  // NOLINT
using ::at::List;
template <class I, std::enable_if_t<std::is_integral_v<I>, int> = 0>
::cograd::torch_compat::IntRange<I> irange(I end) {
  return {I(0), end};
}
template <class A, class B,
          std::enable_if_t<std::is_integral_v<A> && std::is_integral_v<B>, int> = 0>
::cograd::torch_compat::IntRange<B> irange(A begin, B end) {
  return {static_cast<B>(begin), end};
}
template <class T>
ArrayRef<T> makeArrayRef(const std::vector<T>& v) {
  return v;
}
using string_view = std::string_view;
using std::in_place;
using std::make_optional;
template <class T>
T value_or_else(const std::optional<T>& o, T other) {
  return o.value_or(std::move(other));
}
template <class T>
using maybe_owned = T;
namespace guts {
template <bool B, class T, class F>
using conditional_t = std::conditional_t<B, T, F>;
}
}  // namespace c10

namespace caffe2 {
using TypeMeta = ::cograd::DType;
}

namespace at {
using ::c10::Error;
using ::c10::irange;
using ::c10::make_optional;
using ::c10::makeArrayRef;
using ::c10::str;
using caffe2::TypeMeta;
}  // namespace at
