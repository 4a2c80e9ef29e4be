// SPDX-License-Identifier: BSD-3-Clause
// Members of Tensor that need its full definition: indexing, hooks, conversion; and creation.
#pragma once
#include "cograd/accessor.h"
#include "cograd/tensor.h"

namespace cograd {
inline namespace abi1 {

inline TensorIndex::TensorIndex(const Tensor& t) : v_{COGRAD_INDEX_TENSOR, 0, 0, 0, 1, t.handle()} {
  cograd_tensor_retain(v_.tensor);
}

namespace ext {
inline Tensor index(const Tensor& x, const TensorIndex* items, size_t n) {
  cograd_tensor r = nullptr;
  if (!x.defined()) fail(ErrorKind::Runtime, "index(): got an undefined Tensor (None)");
  check(cograd_tensor_index(x.handle(), reinterpret_cast<const cograd_index*>(items), n, &r));
  return Tensor::steal(r);
}
inline void index_put(const Tensor& x, const TensorIndex* items, size_t n, const Tensor& value) {
  check(cograd_tensor_index_put(x.handle(), reinterpret_cast<const cograd_index*>(items), n,
                                value.handle()));
}
// Calls a hook of register_hook; F may return nothing or a Tensor.
template <class F>
struct HookCall {
  static cograd_status run(void* context, cograd_tensor grad, cograd_tensor* replacement) {
    return guarded([&] {
      F& f = *static_cast<F*>(context);
      const Tensor g = Tensor::borrow(grad);
      if constexpr (std::is_void_v<decltype(f(g))>) {
        f(g);
      } else {
        *replacement = Tensor(f(g)).release();
      }
    });
  }
  static void destroy(void* context) { delete static_cast<F*>(context); }
};
}  // namespace ext

inline Tensor Tensor::operator[](int64_t i) const {
  const TensorIndex item(i);
  return ext::index(*this, &item, 1);
}
inline Tensor Tensor::operator[](const Tensor& i) const {
  const TensorIndex item(i);
  return ext::index(*this, &item, 1);
}
inline Tensor Tensor::index(std::initializer_list<TensorIndex> items) const {
  return ext::index(*this, items.begin(), items.size());
}
inline Tensor Tensor::index(const std::vector<TensorIndex>& items) const {
  return ext::index(*this, items.data(), items.size());
}
inline const Tensor& Tensor::index_put_(std::initializer_list<TensorIndex> items,
                                        const Tensor& value) const {
  need();
  ext::index_put(*this, items.begin(), items.size(), value);
  return *this;
}

template <class F>
uint64_t Tensor::register_hook(F hook) const {
  uint64_t id = 0;
  need();
  auto* context = new F(std::move(hook));
  ext::check(cograd_tensor_register_hook(p_, ext::HookCall<F>::run, context,
                                         ext::HookCall<F>::destroy, &id));
  return id;
}

inline Tensor Tensor::to(DType t) const {
  static ext::OpRef op("to");
  return ext::call<Tensor>(op, *this, t);
}
inline Tensor Tensor::to(const TensorOptions& o, bool, bool copy) const {
  const Tensor t = to(o);
  return copy && t.is_same(*this) ? clone() : t;
}
inline Tensor Tensor::to(Device d) const {
  static ext::OpRef op("to");
  return device() == d ? *this : ext::call<Tensor>(op, *this, d);
}
inline Tensor& Tensor::copy_(const Tensor& src, bool) const {
  static ext::OpRef op("copy_");
  op.run({ext::box_tensor(*this), ext::box_tensor(src)});
  return self();
}

template <class T, int N>
TensorAccessor<T, N> Tensor::accessor() const {
  check_type<std::remove_const_t<T>>("accessor");
  COGRAD_CHECK(dim() == N, "accessor(): TensorAccessor expected ", N, " dims but tensor has ",
               dim());
  return TensorAccessor<T, N>(static_cast<T*>(data_ptr()), cograd_tensor_sizes(p_),
                              cograd_tensor_strides(p_));
}
template <class T, int N>
TensorAccessor<T, N> Tensor::packed_accessor64() const {
  return accessor<T, N>();
}
template <class T, int N>
TensorAccessor<T, N> Tensor::packed_accessor32() const {
  return accessor<T, N>();
}

// --- creation ---
inline Tensor empty(const Ints& sizes, const TensorOptions& o = {}) {
  cograd_tensor r = nullptr;
  ext::check(cograd_tensor_empty_on(
      static_cast<int32_t>(o.dtype()), static_cast<int32_t>(sizes.size()), sizes.data(),
      static_cast<int32_t>(o.device().type()), o.device().index(), &r));
  Tensor t = Tensor::steal(r);
  if (o.requires_grad()) t.set_requires_grad(true);
  return t;
}
inline Tensor empty_strided(const Ints& sizes, const Ints& strides, const TensorOptions& o = {}) {
  COGRAD_CHECK_VALUE(sizes.size() == strides.size(), "empty_strided(): got ", sizes.size(),
                     " sizes and ", strides.size(), " strides, expected as many");
  COGRAD_CHECK_NOT_IMPLEMENTED(o.device().is_cpu(), "empty_strided(): got the device ", o.device(),
                               ", expected the CPU; use empty() and as_strided()");
  cograd_tensor r = nullptr;
  ext::check(cograd_tensor_empty_strided(static_cast<int32_t>(o.dtype()),
                                         static_cast<int32_t>(sizes.size()), sizes.data(),
                                         strides.data(), &r));
  Tensor t = Tensor::steal(r);
  if (o.requires_grad()) t.set_requires_grad(true);
  return t;
}
namespace ext {
inline Tensor over_memory(void* data, const Ints& sizes, const int64_t* strides,
                          const TensorOptions& o, void (*deleter)(void*) = nullptr,
                          void* context = nullptr) {
  COGRAD_CHECK_NOT_IMPLEMENTED(o.device().is_cpu(), "from_blob(): got the device ", o.device(),
                               ", expected the CPU");
  cograd_tensor r = nullptr;
  check(cograd_tensor_from_blob(data, static_cast<int32_t>(o.dtype()),
                                static_cast<int32_t>(sizes.size()), sizes.data(), strides, deleter,
                                context, &r));
  Tensor t = Tensor::steal(r);
  if (o.requires_grad()) t.set_requires_grad(true);
  return t;
}
inline const int64_t* as_many(const Ints& sizes, const Ints& strides) {
  COGRAD_CHECK_VALUE(sizes.size() == strides.size(), "from_blob(): got ", sizes.size(),
                     " sizes and ", strides.size(), " strides, expected as many");
  return strides.data();
}
// Calls deleter(data) once.
template <class D>
struct Deletion {
  D deleter;
  void* data;
  static void run(void* p) {
    auto* d = static_cast<Deletion*>(p);
    d->deleter(d->data);
    delete d;
  }
};
template <class D>
using IfDeleter = decltype(std::declval<D&>()(static_cast<void*>(nullptr)), 0);
}  // namespace ext

// Returns a tensor over memory of the caller, which must outlive the tensor.
inline Tensor from_blob(void* data, const Ints& sizes, const TensorOptions& o = {}) {
  return ext::over_memory(data, sizes, nullptr, o);
}
inline Tensor from_blob(void* data, const Ints& sizes, const Ints& strides,
                        const TensorOptions& o = {}) {
  return ext::over_memory(data, sizes, ext::as_many(sizes, strides), o);
}
// The same; `deleter(data)` is called when the last tensor over the memory is destroyed.
template <class D, ext::IfDeleter<D> = 0>
Tensor from_blob(void* data, const Ints& sizes, D deleter, const TensorOptions& o = {}) {
  auto* context = new ext::Deletion<D>{std::move(deleter), data};
  return ext::over_memory(data, sizes, nullptr, o, ext::Deletion<D>::run, context);
}
template <class D, ext::IfDeleter<D> = 0>
Tensor from_blob(void* data, const Ints& sizes, const Ints& strides, D deleter,
                 const TensorOptions& o = {}) {
  const int64_t* given = ext::as_many(sizes, strides);
  auto* context = new ext::Deletion<D>{std::move(deleter), data};
  return ext::over_memory(data, sizes, given, o, ext::Deletion<D>::run, context);
}
// Returns a 1-D tensor of the values, with the default dtype for floating T and int64 for integers.
template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
Tensor tensor(ArrayRef<T> values, const TensorOptions& o = {}) {
  using Wide = std::conditional_t<std::is_same_v<T, bool>, bool,
                                  std::conditional_t<std::is_floating_point_v<T>, double, int64_t>>;
  Tensor t = empty({static_cast<int64_t>(values.size())}, dtype_of<Wide>);
  Wide* p = t.data_ptr<Wide>();
  for (size_t i = 0; i < values.size(); ++i) p[i] = static_cast<Wide>(values[i]);
  if (o.has_dtype() || std::is_floating_point_v<T>) t = t.to(o.dtype());
  t = t.to(o.device());
  if (o.requires_grad()) t.set_requires_grad(true);
  return t;
}
template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
Tensor tensor(std::initializer_list<T> values, const TensorOptions& o = {}) {
  return tensor(ArrayRef<T>(values), o);
}
template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
Tensor tensor(const std::vector<T>& values, const TensorOptions& o = {}) {
  return tensor(ArrayRef<T>(values), o);
}
template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
Tensor tensor(T value, const TensorOptions& o = {}) {
  const Tensor one = tensor(ArrayRef<T>(&value, 1), o.requires_grad(false));
  const TensorIndex item(0);
  Tensor t = ext::index(one, &item, 1).detach();
  if (o.requires_grad()) t.set_requires_grad(true);
  return t;
}

}  // namespace abi1
}  // namespace cograd
