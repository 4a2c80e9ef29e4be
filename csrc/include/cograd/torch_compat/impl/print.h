// SPDX-License-Identifier: BSD-3-Clause
// Stream output of tensors, shapes and types.
#pragma once
#include "cograd/torch_compat/impl/half.h"

namespace cograd {

inline std::ostream& operator<<(std::ostream& s, DType t) {
  return s << torch_compat::type_name(t);
}

inline namespace abi1 {

template <class T>
std::ostream& operator<<(std::ostream& s, ArrayRef<T> list) {
  s << '[';
  for (size_t i = 0; i < list.size(); ++i) s << (i > 0 ? ", " : "") << list[i];
  return s << ']';
}
inline std::ostream& operator<<(std::ostream& s, const Device& d) {
  std::string text;
  put(text, d);
  return s << text;
}
inline std::ostream& operator<<(std::ostream& s, DeviceType t) { return s << Device(t); }
inline std::ostream& operator<<(std::ostream& s, Layout) { return s << "Strided"; }
inline std::ostream& operator<<(std::ostream& s, const TensorOptions& o) {
  return s << "TensorOptions(dtype=" << o.dtype() << ", device=" << o.device()
           << ", layout=Strided, requires_grad=" << (o.requires_grad() ? "true" : "false") << ')';
}

}  // namespace abi1

inline std::ostream& operator<<(std::ostream& s, const Scalar& v) {
  if (v.is_float()) return s << v.to_double();
  return v.is_bool() ? s << (v.to_bool() ? "true" : "false") : s << v.to_int();
}

namespace torch_compat {

// Returns a floating element as a double, a complex one as "(re,im)".
template <class T>
auto printable(const T& v) {
  if constexpr (is_complex_type<T>)
    return cograd::detail::concat('(', static_cast<double>(v.re), ',', static_cast<double>(v.im),
                                  ')');
  else
    return static_cast<double>(v);
}

template <class T>
void print_elements(std::ostream& s, const Tensor& t, const T* p, int64_t d) {
  const int64_t n = t.size(d);
  for (int64_t i = 0; i < n; ++i, p += t.stride(d)) {
    if (d + 1 < t.dim()) {
      print_elements(s, t, p, d + 1);
    } else if constexpr (std::is_integral_v<T>) {
      s << ' ' << static_cast<int64_t>(*p);
    } else {
      s << ' ' << printable(*p);
    }
  }
  if (d + 1 == t.dim()) s << '\n';
}

}  // namespace torch_compat

inline namespace abi1 {

// Prints one line per row, then "[ CPUFloatType{2,3} ]".
inline std::ostream& operator<<(std::ostream& s, const Tensor& t) {
  if (!t.defined()) return s << "[ Tensor (undefined) ]";
  dispatch_all(t.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* p = t.data_ptr<T>();
    if (t.dim() > 0)
      torch_compat::print_elements(s, t, p, 0);
    else if constexpr (std::is_integral_v<T>)
      s << static_cast<int64_t>(*p) << '\n';
    else
      s << torch_compat::printable(*p) << '\n';
  });
  s << "[ " << t.type().toString() << '{';
  for (int64_t d = 0; d < t.dim(); ++d) s << (d > 0 ? "," : "") << t.size(d);
  return s << "} ]";
}

}  // namespace abi1
}  // namespace cograd
