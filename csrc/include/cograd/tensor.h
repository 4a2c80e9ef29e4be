// SPDX-License-Identifier: BSD-3-Clause
// Tensor for extension authors: a counted reference with queries, typed access to elements,
// creation, indexing, and (from ops_methods.inc) every op as a method.
#pragma once
#include <initializer_list>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "cograd/c_api.h"
#include "cograd/detail/call.h"
#include "cograd/dtype.h"
#include "cograd/error.h"
#include "cograd/scalar.h"
#include "cograd/types.h"

#ifdef COGRAD_TORCH_COMPAT
#include "cograd/torch_compat/impl/before_tensor.h"
#else
#define COGRAD_NO_TORCH_COMPAT
#endif

namespace cograd {
inline namespace abi1 {

template <class T, int N>
class TensorAccessor;
using TensorList = ArrayRef<Tensor>;
class VariableList;
using variable_list = VariableList;

// A tensor or a scalar, for operands of arithmetic. It borrows the tensor.
class TensorOrScalar {
 public:
  TensorOrScalar(const Tensor& t) noexcept;                 // NOLINT: implicit
  TensorOrScalar(Scalar s) noexcept : v_(ext::boxed(s)) {}  // NOLINT
  template <class T, std::enable_if_t<std::is_arithmetic_v<T> || std::is_same_v<T, Half> ||
                                          std::is_same_v<T, BFloat16>,
                                      int> = 0>
  TensorOrScalar(T v) noexcept : v_(ext::boxed(Scalar(v))) {}  // NOLINT
  const cograd_value& value() const noexcept { return v_; }

 private:
  cograd_value v_;
};

// A counted reference to a tensor; a default-constructed one is undefined (Python's None). Copies
// share the tensor. Members that need a tensor raise if it is undefined.
class Tensor {
 public:
  Tensor() noexcept : p_(nullptr) {}  // clang refuses a defaulted one: members have Tensor = {}
  Tensor(std::nullopt_t) noexcept {}  // NOLINT: None for an optional tensor
  Tensor(const Tensor& o) noexcept : p_(o.p_) { cograd_tensor_retain(p_); }
  Tensor(Tensor&& o) noexcept : p_(o.p_) { o.p_ = nullptr; }
  Tensor& operator=(const Tensor& o) noexcept {
    if (p_ != o.p_) Tensor(o).swap(*this);
    return *this;
  }
  Tensor& operator=(Tensor&& o) noexcept {
    Tensor(std::move(o)).swap(*this);
    return *this;
  }
  ~Tensor() {
    if (p_ != nullptr) cograd_tensor_release(p_);
  }
  // Create a Tensor from a C-API object: steal takes over a reference, borrow adds one.
  static Tensor steal(cograd_tensor p) noexcept {
    Tensor t;
    t.p_ = p;
    return t;
  }
  static Tensor borrow(cograd_tensor p) noexcept {
    cograd_tensor_retain(p);
    return steal(p);
  }
  cograd_tensor handle() const noexcept { return p_; }
  cograd_tensor release() noexcept {
    cograd_tensor p = p_;
    p_ = nullptr;
    return p;
  }
  void swap(Tensor& o) noexcept { std::swap(p_, o.p_); }
  void reset() noexcept { Tensor().swap(*this); }
  bool defined() const noexcept { return p_ != nullptr; }
  bool has_value() const noexcept { return p_ != nullptr; }
  explicit operator bool() const noexcept = delete;  // ambiguous: is it defined, or its element?
  bool is_same(const Tensor& o) const noexcept { return p_ == o.p_; }
  uint32_t use_count() const noexcept { return cograd_tensor_use_count(p_); }

  int64_t dim() const { return cograd_tensor_dim(need()); }
  int64_t ndimension() const { return dim(); }
  int64_t numel() const { return cograd_tensor_numel(need()); }
  IntArrayRef sizes() const { return {cograd_tensor_sizes(need()), static_cast<size_t>(dim())}; }
  IntArrayRef strides() const {
    return {cograd_tensor_strides(need()), static_cast<size_t>(dim())};
  }
  // A negative d counts from the end. These raise IndexError if d is not in [-dim, dim).
  int64_t size(int64_t d) const { return sizes()[wrapped(d)]; }
  int64_t stride(int64_t d) const { return strides()[wrapped(d)]; }
  DType dtype() const { return static_cast<DType>(cograd_tensor_dtype(need())); }
  ScalarType scalar_type() const { return dtype(); }
  int64_t element_size() const { return dtype_size(dtype()); }
  int64_t itemsize() const { return element_size(); }
  size_t nbytes() const { return static_cast<size_t>(numel() * element_size()); }
  int64_t storage_offset() const { return describe().storage_offset; }
  bool is_contiguous() const { return flag(COGRAD_IS_CONTIGUOUS); }
  bool is_floating_point() const { return is_floating(dtype()); }
  bool is_complex() const { return cograd::is_complex(dtype()); }
  bool is_view() const { return flag(COGRAD_IS_VIEW); }
  bool is_inference() const { return flag(COGRAD_IS_INFERENCE); }
  Device device() const {
    int32_t type = 0, index = 0;
    ext::check(cograd_tensor_device(need(), &type, &index));
    return Device(static_cast<DeviceType>(type), static_cast<int8_t>(index));
  }
  bool is_cpu() const { return device().is_cpu(); }
  bool is_cuda() const { return device().is_cuda(); }
  Layout layout() const { return options().layout(); }
  TensorOptions options() const { return TensorOptions().dtype(dtype()).device(device()); }
  // Returns dtype and shape as text: "float32[2, 3]".
  std::string summary() const {
    char text[512];
    ext::check(cograd_tensor_summary(p_, text, sizeof text));
    return text;
  }

  // --- elements ---
  void* data_ptr() const { return readable(cograd_tensor_data(need())); }
  // Returns the address of the first element; raises TypeError unless the element type is T.
  template <class T>
  T* data_ptr() const {
    check_type<T>("data_ptr");
    return static_cast<T*>(readable(cograd_tensor_data(p_)));
  }
  template <class T>
  const T* const_data_ptr() const {
    return data_ptr<std::remove_const_t<T>>();
  }
  template <class T>
  T* mutable_data_ptr() const {
    return data_ptr<T>();
  }
  const void* const_data_ptr() const { return data_ptr(); }
  void* mutable_data_ptr() const { return data_ptr(); }
  // Returns the address of the first element on the tensor's device. That of a GPU can be given to
  // libraries for GPUs; the CPU cannot read it.
  void* device_ptr() const {
    void* p = cograd_tensor_device_data(need());
    return p == nullptr ? readable(p) : p;
  }
  template <class T>
  T* device_ptr() const {
    check_type<std::remove_const_t<T>>("device_ptr");
    return static_cast<T*>(device_ptr());
  }
  // Call this after writing through a data pointer if the tensor may be saved for a backward.
  void bump_version() const { cograd_tensor_bump_version(need()); }
  uint32_t _version() const { return describe().version; }
  // Returns access to elements by N indices, x[i][j]. Raises TypeError unless the element type is
  // T, RuntimeError unless there are N dims.
  template <class T, int N>
  TensorAccessor<T, N> accessor() const;
  template <class T, int N>
  TensorAccessor<T, N> packed_accessor64() const;
  template <class T, int N>
  TensorAccessor<T, N> packed_accessor32() const;
  // Returns the only element; raises RuntimeError unless there is exactly one.
  template <class T>
  T item() const {
    double d = 0;
    int64_t i = 0;
    ext::check(cograd_tensor_item(need(), &d, &i));
    return is_floating(dtype()) ? static_cast<T>(d) : static_cast<T>(i);
  }
  Scalar item() const {
    if (is_floating(dtype())) return Scalar(item<double>());
    return dtype() == DType::Bool ? Scalar(item<bool>()) : Scalar(item<int64_t>());
  }

  // --- autograd ---
  bool requires_grad() const { return flag(COGRAD_REQUIRES_GRAD); }
  bool is_leaf() const { return flag(COGRAD_IS_LEAF); }
  const Tensor& set_requires_grad(bool value) const {
    ext::check(cograd_tensor_set_requires_grad(need(), value));
    return *this;
  }
  const Tensor& requires_grad_(bool value = true) const { return set_requires_grad(value); }
  Tensor grad() const { return out(cograd_tensor_grad); }
  void set_grad(const Tensor& g) const { ext::check(cograd_tensor_set_grad(need(), g.p_)); }
  void zero_grad() const { set_grad(Tensor()); }
  Tensor detach() const { return out(cograd_tensor_detach); }
  Tensor variable_data() const { return out(cograd_tensor_variable_data); }
  Tensor data() const { return variable_data(); }
  void retain_grad() const { ext::check(cograd_tensor_retain_grad(need())); }
  // Returns the name of the node that created this tensor ("MulBackward0"); empty for a leaf.
  std::string grad_fn_name() const {
    char text[256];
    ext::check(cograd_tensor_grad_fn_name(need(), text, sizeof text));
    return text;
  }
  void backward(const Tensor& gradient = {}, std::optional<bool> retain_graph = std::nullopt,
                bool create_graph = false) const {
    const uint32_t flags = (retain_graph.value_or(create_graph) ? COGRAD_RETAIN_GRAPH : 0) |
                           (create_graph ? COGRAD_CREATE_GRAPH : 0);
    need();
    ext::check(cograd_backward(&p_, &gradient.p_, 1, nullptr, 0, flags));
  }
  // Registers hook(grad), which may return a replacement. Returns an id for remove_hook.
  template <class F>
  uint64_t register_hook(F hook) const;
  void remove_hook(uint64_t id) const { ext::check(cograd_tensor_remove_hook(need(), id)); }

  // --- indexing ---
  Tensor operator[](int64_t i) const;
  Tensor operator[](const Tensor& index) const;
  Tensor index(std::initializer_list<TensorIndex> items) const;
  Tensor index(const std::vector<TensorIndex>& items) const;
  const Tensor& index_put_(std::initializer_list<TensorIndex> items, const Tensor& value) const;
  const Tensor& index_put_(std::initializer_list<TensorIndex> items, Scalar value) const;

  // --- conversion ---
  Tensor to(DType t) const;
  Tensor to(const TensorOptions& o) const {
    const Tensor there = o.stated_device() ? to(*o.stated_device()) : *this;
    return o.has_dtype() ? there.to(o.dtype()) : there;
  }
  // With `copy`, the result is a new tensor even if nothing has to be converted.
  Tensor to(const TensorOptions& o, bool non_blocking, bool copy = false) const;
  Tensor to(Device d) const;
  Tensor to(Device d, DType t) const { return to(d).to(t); }
  Tensor cpu() const { return to(Device()); }
  Tensor cuda() const { return to(Device(DeviceType::CUDA)); }
  // Copies the elements of `src` into this tensor, converted and broadcast.
  Tensor& copy_(const Tensor& src, bool non_blocking = false) const;

  Tensor operator-() const;
  Tensor& operator+=(const TensorOrScalar& o) const;
  Tensor& operator-=(const TensorOrScalar& o) const;
  Tensor& operator*=(const TensorOrScalar& o) const;
  Tensor& operator/=(const TensorOrScalar& o) const;

#include "cograd/ops_methods.inc"
#ifdef COGRAD_TORCH_COMPAT
#include "cograd/torch_compat/impl/tensor_members.inc"
#endif

 private:
  // In-place ops are const, as they write elements but not the reference, and return a non-const
  // reference as in torch.
  Tensor& self() const noexcept { return const_cast<Tensor&>(*this); }
  cograd_tensor need() const {
    if (p_ == nullptr) detail::fail(ErrorKind::Runtime, "got an undefined Tensor (None)");
    return p_;
  }
  bool flag(uint32_t f) const { return (cograd_tensor_flags(need()) & f) != 0; }
  cograd_tensor_info describe() const {
    cograd_tensor_info i;
    i.struct_size = sizeof i;
    cograd_tensor_describe(need(), &i);
    return i;
  }
  size_t wrapped(int64_t d) const {
    const int64_t n = dim();
    if (d < -n || d >= n)
      detail::fail(ErrorKind::Index, "Dimension out of range (expected to be in range of [", -n,
                   ", ", n - 1, "], but got ", d, ")");
    return static_cast<size_t>(d < 0 ? d + n : d);
  }
  template <class T>
  void check_type(const char* who) const {
    if (dtype() != dtype_of<T>)
      detail::fail(ErrorKind::Type, who, "(): expected scalar type ", dtype_name(dtype_of<T>),
                   " but found ", dtype_name(dtype()));
  }
  // Returns `data`, or raises the stored error: a batched tensor of a vmap has no data pointer.
  void* readable(void* data) const {
    if (data == nullptr && numel() > 0)
      ext::throw_last_error(cograd_error_get(nullptr, nullptr, nullptr));
    return data;
  }
  Tensor out(cograd_status (*f)(cograd_tensor, cograd_tensor*)) const {
    cograd_tensor r = nullptr;
    ext::check(f(need(), &r));
    return steal(r);
  }
  cograd_tensor p_ = nullptr;
};
static_assert(sizeof(Tensor) == sizeof(cograd_tensor), "lists of tensors are lists of handles");

// A vector of tensors that raises IndexError for an index out of range and says what it holds.
class VariableList : public std::vector<Tensor> {
 public:
  using Vector = std::vector<Tensor>;
  using Vector::Vector;
  VariableList() = default;
  VariableList(Vector v) noexcept : Vector(std::move(v)) {}  // NOLINT: implicit
  // Returns a list that messages call `name`, with `remedy` if it is empty; both are literals.
  static VariableList named(Vector v, const char* name, const char* remedy = "") noexcept {
    VariableList out(std::move(v));
    out.name_ = name;
    out.remedy_ = remedy;
    return out;
  }
  Tensor& operator[](size_t i) { return Vector::operator[](checked(i)); }
  const Tensor& operator[](size_t i) const { return Vector::operator[](checked(i)); }
  Tensor& at(size_t i) { return (*this)[i]; }
  const Tensor& at(size_t i) const { return (*this)[i]; }
  Tensor& front() { return (*this)[0]; }
  const Tensor& front() const { return (*this)[0]; }
  Tensor& back() { return (*this)[empty() ? 0 : size() - 1]; }
  const Tensor& back() const { return (*this)[empty() ? 0 : size() - 1]; }

 private:
  size_t checked(size_t i) const {
    if (__builtin_expect(i >= size(), 0)) refuse(i);
    return i;
  }
  [[noreturn, gnu::cold, gnu::noinline]] void refuse(size_t i) const {
    std::string held;
    for (const Tensor& t : *this) held += (held.empty() ? "" : ", ") + t.summary();
    detail::fail(ErrorKind::Index, name_, ": there is no element [", static_cast<int64_t>(i),
                 "]: it has ", size() == 0 ? "no tensors" : held.c_str(),
                 size() == 0 ? remedy_ : "");
  }
  const char* name_ = "variable_list";
  const char* remedy_ = "";
};

inline TensorOrScalar::TensorOrScalar(const Tensor& t) noexcept : v_(ext::boxed(t)) {}

namespace ext {
inline cograd_value boxed(const Tensor& t) noexcept {
  cograd_value v{};
  v.kind = COGRAD_TENSOR;
  v.u.tensor = t.handle();
  return v;
}
inline cograd_value boxed(const TensorOrScalar& t) noexcept { return t.value(); }
inline cograd_value boxed(TensorList l) noexcept {
  return boxed_list(COGRAD_TENSORS, l.data(), l.size());
}
inline cograd_value box_tensor(const Tensor& t) noexcept { return boxed(t); }
inline cograd_value box_operand(const TensorOrScalar& t) noexcept { return t.value(); }
inline cograd_value box_opt_operand(const std::optional<TensorOrScalar>& t) noexcept {
  return t ? t->value() : cograd_value{};
}
inline cograd_value box_tensors(TensorList l) noexcept { return boxed(l); }

template <>
struct Unboxed<Tensor> {
  static Tensor get(cograd_value& v) {
    if (v.kind == COGRAD_NONE) return Tensor();
    expect(v, COGRAD_TENSOR, "Tensor");
    return Tensor::steal(v.u.tensor);
  }
};
inline Tensor OpRef::tensor(std::initializer_list<cograd_value> args) {
  cograd_value v = run_any(args);
  return Unboxed<Tensor>::get(v);
}
template <>
struct Unboxed<std::vector<Tensor>> {
  static std::vector<Tensor> get(cograd_value& v) {
    expect(v, COGRAD_TENSORS, "list of Tensors");
    auto* list = static_cast<cograd_tensor*>(const_cast<void*>(v.u.list));
    std::vector<Tensor> out(v.length);
    for (size_t i = 0; i < v.length; ++i) {
      out[i] = Tensor::steal(list[i]);
      list[i] = nullptr;
    }
    cograd_value_free(&v);
    return out;
  }
};
template <size_t... I>
auto to_tuple(std::vector<Tensor> v, std::index_sequence<I...>) {
  return std::make_tuple(std::move(v[I])...);
}
template <class... T>
struct Unboxed<std::tuple<T...>> {
  static std::tuple<T...> get(cograd_value& v) {
    std::vector<Tensor> list = Unboxed<std::vector<Tensor>>::get(v);
    if (list.size() != sizeof...(T))
      fail(ErrorKind::Runtime, "an op gave ", list.size(), " results, expected ", sizeof...(T));
    return to_tuple(std::move(list), std::make_index_sequence<sizeof...(T)>());
  }
};
}  // namespace ext

inline void put(std::string& s, const Tensor& t) { s += t.summary(); }

}  // namespace abi1
}  // namespace cograd

#include "cograd/tensor_inl.h"
