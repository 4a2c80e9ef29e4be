// SPDX-License-Identifier: BSD-3-Clause
// Conversions between statuses and exceptions, boxing of arguments, unboxing of results, and calls
// of ops by name.
#pragma once
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "cograd/c_api.h"
#include "cograd/types.h"

namespace cograd {
inline namespace abi1 {
namespace ext {

using cograd::detail::concat;
using cograd::detail::fail;

[[noreturn, gnu::cold, gnu::noinline]] inline void throw_last_error(cograd_status s) {
  const char* text = "";
  size_t n = 0;
  uint64_t token = 0;
  cograd_error_get(&text, &n, &token);
  const int kind = s >= COGRAD_RUNTIME_ERROR && s <= COGRAD_MEMORY_ERROR ? s - 1 : 0;
  Error e(static_cast<ErrorKind>(kind), std::string(text, n));
  e.set_token(token);
  throw e;
}
inline void check(cograd_status s) {
  if (__builtin_expect(s != COGRAD_OK, 0)) throw_last_error(s);
}

inline cograd_status set_error(cograd_status s, const char* text, uint64_t token = 0) noexcept {
  return cograd_error_set(s, text, __builtin_strlen(text), token);
}
// Called in a catch block: stores the exception as the last error, with the status of the Python
// exception class that pybind11 would choose.
[[gnu::cold, gnu::noinline]] inline cograd_status capture_exception() noexcept {
  try {
    throw;
  } catch (const Error& e) {
    return set_error(static_cast<cograd_status>(e.kind()) + 1, e.what(), e.token());
  } catch (const std::bad_alloc& e) {
    return set_error(COGRAD_MEMORY_ERROR, "out of memory");
  } catch (const std::out_of_range& e) {
    return set_error(COGRAD_INDEX_ERROR, e.what());
  } catch (const std::logic_error& e) {  // invalid_argument, domain_error, length_error
    return set_error(COGRAD_VALUE_ERROR, e.what());
  } catch (const std::range_error& e) {
    return set_error(COGRAD_VALUE_ERROR, e.what());
  } catch (const std::exception& e) {
    return set_error(COGRAD_RUNTIME_ERROR, e.what());
  } catch (...) {
    return set_error(COGRAD_RUNTIME_ERROR, "an exception that is no std::exception was thrown");
  }
}
// Runs f and returns a status: no exception passes the C boundary.
template <class F>
cograd_status guarded(F&& f) noexcept {
  try {
    f();
    return COGRAD_OK;
  } catch (...) {
    return capture_exception();
  }
}

// --- arguments ---
inline cograd_value boxed_integer(int32_t kind, int64_t i) noexcept {
  cograd_value v{};
  v.kind = kind;
  v.u.integer = i;
  return v;
}
inline cograd_value boxed_list(int32_t kind, const void* list, size_t n) noexcept {
  cograd_value v{};
  v.kind = kind;
  v.u.list = list;
  v.length = n;
  return v;
}
// Stands for the parameter's default.
inline cograd_value boxed() noexcept { return boxed_integer(COGRAD_DEFAULT, 0); }
inline cograd_value boxed(std::nullopt_t) noexcept { return cograd_value{}; }
inline cograd_value boxed(bool b) noexcept { return boxed_integer(COGRAD_BOOLEAN, b); }
inline cograd_value boxed(int64_t i) noexcept { return boxed_integer(COGRAD_INT, i); }
inline cograd_value boxed(double d) noexcept {
  cograd_value v{};
  v.kind = COGRAD_FLOAT;
  v.u.number = d;
  return v;
}
inline cograd_value boxed(const Scalar& s) noexcept {
  if (s.is_float()) return boxed(s.to_double());
  if (s.is_complex()) {
    cograd_value v = boxed(s.to_double());
    const double imag = s.imag();
    static_assert(sizeof v.length == sizeof imag);
    __builtin_memcpy(&v.length, &imag, sizeof imag);
    v.kind = COGRAD_COMPLEX;
    return v;
  }
  return s.is_bool() ? boxed(s.to_bool()) : boxed(s.to_int());
}
inline cograd_value boxed(DType t) noexcept {
  return boxed_integer(COGRAD_DTYPE, static_cast<int64_t>(t));
}
inline cograd_value boxed(Device d) noexcept {
  cograd_value v = boxed_integer(COGRAD_DEVICE, static_cast<int64_t>(d.type()));
  v.length = static_cast<size_t>(d.index() + 1);
  return v;
}
inline cograd_value boxed(std::string_view s) noexcept {
  return boxed_list(COGRAD_STRING, s.data(), s.size());
}
inline cograd_value boxed(const char* s) noexcept {  // which would convert to bool
  return boxed(std::string_view(s));
}
inline cograd_value boxed(const Ints& l) noexcept {
  return boxed_list(COGRAD_INTS, l.data(), l.size());
}
inline cograd_value boxed(const OptInts& l) noexcept {
  return l.has_value() ? boxed(static_cast<const Ints&>(l)) : cograd_value{};
}
inline cograd_value boxed(const Tensor& t) noexcept;
inline cograd_value boxed(const TensorOrScalar& t) noexcept;
inline cograd_value boxed(ArrayRef<Tensor> l) noexcept;
template <class T>
cograd_value boxed(const std::optional<T>& o) noexcept {
  return o ? boxed(*o) : cograd_value{};
}

// The generated functions of ops.h call these: names instead of overloads of boxed().
inline cograd_value box_default() noexcept { return boxed(); }
inline cograd_value box_tensor(const Tensor& t) noexcept;
inline cograd_value box_operand(const TensorOrScalar& t) noexcept;
inline cograd_value box_opt_operand(const std::optional<TensorOrScalar>& t) noexcept;
inline cograd_value box_tensors(ArrayRef<Tensor> l) noexcept;
inline cograd_value box_scalar(const Scalar& s) noexcept { return boxed(s); }
inline cograd_value box_opt_scalar(const std::optional<Scalar>& s) noexcept { return boxed(s); }
inline cograd_value box_int(int64_t i) noexcept { return boxed(i); }
inline cograd_value box_opt_int(std::optional<int64_t> i) noexcept { return boxed(i); }
inline cograd_value box_double(double d) noexcept { return boxed(d); }
inline cograd_value box_opt_double(std::optional<double> d) noexcept { return boxed(d); }
inline cograd_value box_bool(bool b) noexcept { return boxed(b); }
inline cograd_value box_opt_bool(std::optional<bool> b) noexcept { return boxed(b); }
inline cograd_value box_ints(const Ints& l) noexcept { return boxed(l); }
inline cograd_value box_opt_ints(const OptInts& l) noexcept { return boxed(l); }
inline cograd_value box_dtype(DType t) noexcept { return boxed(t); }
inline cograd_value box_opt_dtype(std::optional<DType> t) noexcept { return boxed(t); }
// The device of a new tensor; the parameter's default if the options state none.
inline cograd_value box_device(const TensorOptions& o) noexcept {
  return o.stated_device() ? boxed(*o.stated_device()) : boxed();
}
inline cograd_value box_string(std::string_view s) noexcept { return boxed(s); }
inline cograd_value box_opt_string(std::optional<std::string_view> s) noexcept { return boxed(s); }

// --- results ---
inline void expect(cograd_value& v, int32_t kind, const char* what) {
  if (__builtin_expect(v.kind == kind, 1)) return;
  const int32_t got = v.kind;
  cograd_value_free(&v);
  fail(ErrorKind::Type, "an op returned a result of kind ", got, ", but its type must be ", what);
}
template <class T>
struct Unboxed;  // get(v) takes over the contents of the result
template <class R>
R unboxed(cograd_value v) {
  return Unboxed<R>::get(v);
}
template <>
struct Unboxed<bool> {
  static bool get(cograd_value& v) {
    expect(v, COGRAD_BOOLEAN, "bool");
    return v.u.integer != 0;
  }
};
template <>
struct Unboxed<int64_t> {
  static int64_t get(cograd_value& v) {
    expect(v, COGRAD_INT, "int");
    return v.u.integer;
  }
};
template <>
struct Unboxed<double> {
  static double get(cograd_value& v) {
    expect(v, COGRAD_FLOAT, "float");
    return v.u.number;
  }
};

// Refers to an op by name. The first call, which several threads may make, looks it up.
class OpRef {
 public:
  constexpr explicit OpRef(const char* name) noexcept : name_(name) {}
  cograd_value call(const cograd_value* args, size_t n) {
    cograd_op op = __atomic_load_n(&op_, __ATOMIC_ACQUIRE);
    if (__builtin_expect(op == nullptr, 0)) {
      check(cograd_op_find(name_, __builtin_strlen(name_), &op));
      __atomic_store_n(&op_, op, __ATOMIC_RELEASE);
    }
    cograd_value result;
    check(cograd_op_call(op, args, n, &result));
    return result;
  }
  cograd_value run_any(std::initializer_list<cograd_value> args) {
    return call(args.begin(), args.size());
  }
  Tensor tensor(std::initializer_list<cograd_value> args);
  void run(std::initializer_list<cograd_value> args) {
    cograd_value r = run_any(args);
    cograd_value_free(&r);
  }

 private:
  const char* name_;
  cograd_op op_ = nullptr;
};
template <class R, class... A>
R call(OpRef& op, const A&... args) {
  const cograd_value values[sizeof...(A) + 1] = {boxed(args)...};
  cograd_value result = op.call(values, sizeof...(A));
  return Unboxed<R>::get(result);
}

}  // namespace ext
}  // namespace abi1
}  // namespace cograd
