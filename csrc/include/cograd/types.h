// SPDX-License-Identifier: BSD-3-Clause
// Small types around Tensor: array references, devices, options of new tensors, indices.
#pragma once
#include <initializer_list>
#include <optional>
#include <vector>

#include "cograd/c_api.h"
#include "cograd/c_devices.h"
#include "cograd/dtype.h"
#include "cograd/error.h"
#include "cograd/scalar.h"

// The code in these headers is compiled into each extension; the inline namespace separates it from
// the library's own classes. Compile with -fvisibility=hidden.
namespace cograd {
inline namespace abi1 {

class Tensor;
class TensorOrScalar;
using std::nullopt;
using std::optional;

using ScalarType = DType;
inline constexpr DType kBool = DType::Bool, kByte = DType::UInt8, kUInt8 = DType::UInt8,
                       kChar = DType::Int8, kInt8 = DType::Int8, kShort = DType::Int16,
                       kInt16 = DType::Int16, kInt = DType::Int32, kInt32 = DType::Int32,
                       kLong = DType::Int64, kInt64 = DType::Int64, kHalf = DType::Float16,
                       kFloat16 = DType::Float16, kBFloat16 = DType::BFloat16,
                       kFloat = DType::Float32, kFloat32 = DType::Float32, kDouble = DType::Float64,
                       kFloat64 = DType::Float64, kComplexFloat = DType::Complex64,
                       kComplexDouble = DType::Complex128, kUInt16 = DType::UInt16,
                       kUInt32 = DType::UInt32, kUInt64 = DType::UInt64;

enum class Layout : int8_t { Strided };
inline constexpr Layout kStrided = Layout::Strided;
enum class DeviceType : int8_t { CPU = COGRAD_CPU, CUDA = COGRAD_CUDA };
inline constexpr DeviceType kCPU = DeviceType::CPU, kCUDA = DeviceType::CUDA;

// A Device names where a tensor is: the CPU, or an NVIDIA GPU. Index -1 is the current GPU.
class Device {
 public:
  Device(DeviceType type = DeviceType::CPU, int8_t index = -1)  // NOLINT: implicit
      : type_(type), index_(index) {}
  DeviceType type() const noexcept { return type_; }
  int8_t index() const noexcept { return index_; }
  bool has_index() const noexcept { return index_ >= 0; }
  bool is_cpu() const noexcept { return type_ == DeviceType::CPU; }
  bool is_cuda() const noexcept { return type_ == DeviceType::CUDA; }
  bool operator==(const Device& o) const noexcept {
    return type_ == o.type_ && (is_cpu() || index_ == o.index_);
  }
  bool operator!=(const Device& o) const noexcept { return !(*this == o); }

 private:
  DeviceType type_;
  int8_t index_;
};

// A reference to consecutive elements that something else owns.
template <class T>
class ArrayRef {
 public:
  constexpr ArrayRef() noexcept = default;
  constexpr ArrayRef(const T* data, size_t n) noexcept : data_(data), n_(n) {}
  constexpr ArrayRef(const T& one) noexcept : data_(&one), n_(1) {}              // NOLINT: implicit
  ArrayRef(const std::vector<T>& v) noexcept : data_(v.data()), n_(v.size()) {}  // NOLINT
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winit-list-lifetime"
#endif
  // The elements of `l` live until the end of the full expression, like other arguments.
  constexpr ArrayRef(const std::initializer_list<T>& l) noexcept  // NOLINT
      : data_(l.begin()), n_(l.size()) {}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
  template <size_t N>
  constexpr ArrayRef(const T (&a)[N]) noexcept : data_(a), n_(N) {}  // NOLINT
  constexpr const T* data() const noexcept { return data_; }
  constexpr size_t size() const noexcept { return n_; }
  constexpr bool empty() const noexcept { return n_ == 0; }
  constexpr const T* begin() const noexcept { return data_; }
  constexpr const T* end() const noexcept { return data_ + n_; }
  // These raise IndexError for an element that does not exist.
  constexpr const T& operator[](size_t i) const {
    if (__builtin_expect(i >= n_, 0)) refuse(i);
    return data_[i];
  }
  constexpr const T& at(size_t i) const { return (*this)[i]; }
  constexpr const T& front() const { return (*this)[0]; }
  constexpr const T& back() const { return (*this)[n_ == 0 ? 0 : n_ - 1]; }
  ArrayRef slice(size_t begin, size_t n) const {
    COGRAD_CHECK_INDEX(begin <= n_ && n <= n_ - begin, "ArrayRef: slice of ", n, " elements from ",
                       begin, " on, but it has ", n_);
    return {data_ + begin, n};
  }
  ArrayRef slice(size_t begin) const { return slice(begin, begin <= n_ ? n_ - begin : 0); }
  std::vector<T> vec() const { return std::vector<T>(begin(), end()); }
  bool equals(ArrayRef o) const {
    if (n_ != o.n_) return false;
    for (size_t i = 0; i < n_; ++i)
      if (!(data_[i] == o.data_[i])) return false;
    return true;
  }
  bool operator==(ArrayRef o) const { return equals(o); }
  bool operator!=(ArrayRef o) const { return !equals(o); }

 private:
  [[noreturn, gnu::cold, gnu::noinline]] void refuse(size_t i) const {
    cograd::detail::fail(ErrorKind::Index, "ArrayRef: index ", static_cast<int64_t>(i),
                         ", expected less than ", n_);
  }
  const T* data_ = nullptr;
  size_t n_ = 0;
};
using IntArrayRef = ArrayRef<int64_t>;
using IntList = IntArrayRef;

// Sizes or dims as an argument: one integer, a list in braces, or a vector.
class Ints {
 public:
  Ints() noexcept = default;
  template <class I, std::enable_if_t<std::is_integral_v<I>, int> = 0>
  Ints(I one) noexcept : one_(static_cast<int64_t>(one)), n_(1) {}        // NOLINT: implicit
  Ints(IntArrayRef r) noexcept : data_(r.data()), n_(r.size()) {}         // NOLINT
  Ints(const std::vector<int64_t>& v) noexcept : Ints(IntArrayRef(v)) {}  // NOLINT
  Ints(const std::initializer_list<int64_t>& l) noexcept : Ints(IntArrayRef(l)) {}  // NOLINT
  const int64_t* data() const noexcept { return data_ != nullptr || n_ == 0 ? data_ : &one_; }
  size_t size() const noexcept { return n_; }

 private:
  const int64_t* data_ = nullptr;
  int64_t one_ = 0;
  size_t n_ = 0;
};
// Like Ints, for parameters where a missing argument or nullopt differs from an empty list.
class OptInts : public Ints {
 public:
  OptInts() noexcept = default;
  OptInts(std::nullopt_t) noexcept {}  // NOLINT: implicit
  template <class I, std::enable_if_t<std::is_integral_v<I>, int> = 0>
  OptInts(I one) noexcept : Ints(one), given_(true) {}                                  // NOLINT
  OptInts(IntArrayRef r) noexcept : Ints(r), given_(true) {}                            // NOLINT
  OptInts(const std::vector<int64_t>& v) noexcept : Ints(v), given_(true) {}            // NOLINT
  OptInts(const std::initializer_list<int64_t>& l) noexcept : Ints(l), given_(true) {}  // NOLINT
  bool has_value() const noexcept { return given_; }

 private:
  bool given_ = false;
};

// Options of a new tensor: dtype, device, requires_grad.
class TensorOptions {
 public:
  TensorOptions() = default;
  TensorOptions(DType t) : dtype_(t) {}        // NOLINT: implicit
  TensorOptions(Device d) : device_(d) {}      // NOLINT
  TensorOptions(DeviceType d) : device_(d) {}  // NOLINT
  TensorOptions dtype(optional<DType> t) const {
    TensorOptions o = *this;
    o.dtype_ = t;
    return o;
  }
  TensorOptions device(Device d) const {
    TensorOptions o = *this;
    o.device_ = d;
    return o;
  }
  TensorOptions device(DeviceType t, int8_t index = -1) const { return device(Device(t, index)); }
  TensorOptions layout(Layout) const { return *this; }
  TensorOptions pinned_memory(bool) const { return *this; }
  TensorOptions requires_grad(bool value) const {
    TensorOptions o = *this;
    o.requires_grad_ = value;
    return o;
  }
  bool has_dtype() const noexcept { return dtype_.has_value(); }
  DType dtype() const { return dtype_.value_or(static_cast<DType>(cograd_default_dtype())); }
  optional<DType> dtype_opt() const noexcept { return dtype_; }
  Device device() const { return device_.value_or(Device()); }
  // The device that was stated; factories without one create on the CPU.
  optional<Device> stated_device() const noexcept { return device_; }
  Layout layout() const { return Layout::Strided; }
  bool requires_grad() const noexcept { return requires_grad_; }
#ifdef COGRAD_TORCH_COMPAT
#include "cograd/torch_compat/impl/options_members.inc"
#endif

 private:
  optional<DType> dtype_;
  optional<Device> device_;
  bool requires_grad_ = false;
};
inline TensorOptions dtype(DType t) { return TensorOptions(t); }
inline TensorOptions device(Device d) { return TensorOptions(d); }
inline TensorOptions requires_grad(bool v = true) { return TensorOptions().requires_grad(v); }

namespace indexing {
struct EllipsisIndex {};
inline constexpr EllipsisIndex Ellipsis{};
inline constexpr std::nullopt_t None = std::nullopt;
// A slice start:stop:step; each part is optional.
class Slice {
 public:
  Slice(optional<int64_t> start = nullopt, optional<int64_t> stop = nullopt,
        optional<int64_t> step = nullopt)
      : start_(start.value_or(INT64_MIN)),
        stop_(stop.value_or(INT64_MAX)),
        step_(step.value_or(1)) {}
  int64_t start() const noexcept { return start_; }
  int64_t stop() const noexcept { return stop_; }
  int64_t step() const noexcept { return step_; }

 private:
  int64_t start_, stop_, step_;
};
}  // namespace indexing

// One item of x.index({...}).
class TensorIndex {
 public:
  template <class I, std::enable_if_t<std::is_integral_v<I> && !std::is_same_v<I, bool>, int> = 0>
  TensorIndex(I i) : v_{COGRAD_INDEX_INT, 0, static_cast<int64_t>(i), 0, 1, nullptr} {}  // NOLINT
  TensorIndex(indexing::Slice s)                                                         // NOLINT
      : v_{COGRAD_INDEX_SLICE, 0, s.start(), s.stop(), s.step(), nullptr} {}
  TensorIndex(std::nullopt_t) : v_{COGRAD_INDEX_NONE, 0, 0, 0, 1, nullptr} {}  // NOLINT
  TensorIndex(indexing::EllipsisIndex)                                         // NOLINT
      : v_{COGRAD_INDEX_ELLIPSIS, 0, 0, 0, 1, nullptr} {}
  TensorIndex(const char* dots) : v_{COGRAD_INDEX_ELLIPSIS, 0, 0, 0, 1, nullptr} {  // NOLINT
    COGRAD_CHECK_VALUE(std::string(dots) == "...", "an index may be \"...\", got \"", dots, "\"");
  }
  TensorIndex(const Tensor& t);  // NOLINT
  TensorIndex(const TensorIndex& o) noexcept : v_(o.v_) { cograd_tensor_retain(v_.tensor); }
  TensorIndex& operator=(const TensorIndex& o) noexcept {
    cograd_tensor_retain(o.v_.tensor);
    cograd_tensor_release(v_.tensor);
    v_ = o.v_;
    return *this;
  }
  ~TensorIndex() { cograd_tensor_release(v_.tensor); }
  const cograd_index& value() const noexcept { return v_; }

 private:
  cograd_index v_;
};
static_assert(sizeof(TensorIndex) == sizeof(cograd_index), "lists of them are passed as they are");

// COGRAD_CHECK uses these to print the types; argument-dependent lookup finds them.
template <class T>
void put(std::string& s, ArrayRef<T> v) {
  s += '[';
  for (size_t i = 0; i < v.size(); ++i) {
    if (i > 0) s += ", ";
    cograd::detail::put(s, v[i]);
  }
  s += ']';
}
inline void put(std::string& s, DType t) { s += dtype_name(t); }
inline void put(std::string& s, const Device& d) {
  s += d.is_cuda() ? "cuda" : d.is_cpu() ? "cpu" : "device";
  if (d.has_index()) s += ":" + std::to_string(d.index());
}
inline void put(std::string& s, const Scalar& v) {
  if (v.is_float())
    cograd::detail::put(s, v.to_double());
  else if (v.is_complex())
    s += cograd::detail::concat("(", v.to_double(), " + ", v.imag(), "j)");
  else if (v.is_bool())
    cograd::detail::put(s, v.to_bool());
  else
    cograd::detail::put(s, v.to_int());
}

}  // namespace abi1
}  // namespace cograd
