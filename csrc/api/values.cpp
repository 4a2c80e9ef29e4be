// SPDX-License-Identifier: BSD-3-Clause
// Conversion of boxed arguments and results at the C boundary.
#include "api/values.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace cograd::api {

namespace {

Scalar scalar_of(const cograd_value& v) noexcept {
  if (v.kind == COGRAD_FLOAT) return Scalar(v.u.number);
  if (v.kind == COGRAD_BOOLEAN) return Scalar(v.u.integer != 0);
  return Scalar(static_cast<long>(v.u.integer));
}
bool is_number(const cograd_value& v) noexcept {
  return v.kind == COGRAD_BOOLEAN || v.kind == COGRAD_INT || v.kind == COGRAD_FLOAT;
}
void set_list(Value& out, Value::Kind kind, const void* list, size_t n) noexcept {
  out.kind = kind;
  out.list = list;
  out.length = n;
}
void set_tensor(Value& out, cograd_tensor t) noexcept {
  out.kind = t == nullptr ? Value::Kind::None : Value::Kind::Tensor;
  out.tensor = impl(t);
}

cograd_value make(int32_t kind) noexcept {
  cograd_value v{};
  v.kind = kind;
  return v;
}
cograd_value list_value(int32_t kind, const void* list, size_t n) noexcept {
  cograd_value v = make(kind);
  v.u.list = list;
  v.length = n;
  return v;
}
cograd_value scalar_value(const Scalar& s) noexcept {
  cograd_value v = make(s.is_float() ? COGRAD_FLOAT : s.is_bool() ? COGRAD_BOOLEAN : COGRAD_INT);
  if (s.is_float())
    v.u.number = s.to_double();
  else
    v.u.integer = s.to_int();
  return v;
}

bool ints_from_c(const cograd_value& v, Room& room, Value& out) {
  if (v.kind == COGRAD_INT) {
    auto& list = room.ints();
    list.push_back(v.u.integer);
    set_list(out, Value::Kind::Ints, list.data(), 1);
    return true;
  }
  set_list(out, Value::Kind::Ints, v.u.list, v.length);
  return v.kind == COGRAD_INTS;
}

}  // namespace

namespace {
// A list of some elements at NULL: neither arguments nor results may be that.
bool is_dangling(const cograd_value& v) noexcept {
  const bool list = v.kind == COGRAD_STRING || (v.kind >= COGRAD_TENSORS && v.kind <= COGRAD_TUPLE);
  return list && v.u.list == nullptr && v.length > 0;
}
}  // namespace

bool from_c(const ArgInfo& a, const cograd_value& v, Room& room, Value& out) {
  COGRAD_CHECK_TYPE(!is_dangling(v), "argument '", a.name, "' is a list of ", v.length,
                    " elements at NULL");
  if (v.kind == COGRAD_NONE || (v.kind == COGRAD_TENSOR && v.u.tensor == nullptr)) {
    out.kind = Value::Kind::None;
    out.tensor = nullptr;
    return a.nullable || (a.has_default && a.default_value.none());
  }
  switch (a.kind) {
    case ArgKind::Tensor:
      if (v.kind != COGRAD_TENSOR) return false;
      set_tensor(out, v.u.tensor);
      return true;
    case ArgKind::TensorOrScalar:
      if (v.kind == COGRAD_TENSOR) {
        set_tensor(out, v.u.tensor);
        return true;
      }
      [[fallthrough]];
    case ArgKind::Scalar:
      out.kind = Value::Kind::Scalar;
      out.scalar = scalar_of(v);
      return is_number(v);
    case ArgKind::Tensors:
      set_list(out, Value::Kind::Tensors, v.u.list, v.length);
      return v.kind == COGRAD_TENSORS;
    case ArgKind::Int:
      out.kind = Value::Kind::Int;
      out.integer = v.u.integer;
      return v.kind == COGRAD_INT;
    case ArgKind::Double:
      out.kind = Value::Kind::Double;
      out.number = is_number(v) ? scalar_of(v).to_double() : 0;
      return is_number(v);
    case ArgKind::Bool:
      out.kind = Value::Kind::Bool;
      out.truth = v.u.integer != 0;
      return v.kind == COGRAD_BOOLEAN;
    case ArgKind::Ints:
      return ints_from_c(v, room, out);
    case ArgKind::DType:
      out.kind = Value::Kind::DType;
      out.dtype = static_cast<DType>(v.u.integer);
      return v.kind == COGRAD_DTYPE && v.u.integer >= 0 && v.u.integer < kNumDTypes;
    case ArgKind::Device:
      out.kind = Value::Kind::Device;
      out.device = Device{DeviceType::CPU, -1};
      return v.kind == COGRAD_DEVICE && v.u.integer == COGRAD_CPU;
    case ArgKind::String:
      set_list(out, Value::Kind::String, v.u.list, v.length);
      return v.kind == COGRAD_STRING;
    case ArgKind::Doubles:
      set_list(out, Value::Kind::Doubles, v.u.list, v.length);
      return v.kind == COGRAD_FLOATS;
    case ArgKind::Bools:
      set_list(out, Value::Kind::Bools, v.u.list, v.length);
      return v.kind == COGRAD_BOOLEANS;
    case ArgKind::Strings: {
      if (v.kind != COGRAD_STRINGS) return false;
      auto& list = room.views();
      const auto* s = static_cast<const cograd_string*>(v.u.list);
      for (size_t i = 0; i < v.length; ++i) list.emplace_back(s[i].data, s[i].length);
      set_list(out, Value::Kind::Strings, list.data(), list.size());
      return true;
    }
    case ArgKind::Generator:
      return false;
  }
  return false;
}

cograd_value to_c(const ArgInfo& a, const Value& v, Room& room) {
  switch (v.kind) {
    case Value::Kind::None:
      return make(a.kind == ArgKind::Tensor ? COGRAD_TENSOR : COGRAD_NONE);
    case Value::Kind::Tensor: {
      cograd_value r = make(COGRAD_TENSOR);
      r.u.tensor = handle(v.tensor);
      return r;
    }
    case Value::Kind::Tensors:
      return list_value(COGRAD_TENSORS, v.list, v.length);
    case Value::Kind::Scalar:
      return scalar_value(v.scalar);
    case Value::Kind::Int:
      return scalar_value(Scalar(static_cast<long>(v.integer)));
    case Value::Kind::Double:
      return scalar_value(Scalar(v.number));
    case Value::Kind::Bool:
      return scalar_value(Scalar(v.truth));
    case Value::Kind::Ints:
      return list_value(COGRAD_INTS, v.list, v.length);
    case Value::Kind::DType: {
      cograd_value r = make(COGRAD_DTYPE);
      r.u.integer = static_cast<int64_t>(v.dtype);
      return r;
    }
    case Value::Kind::Device:
      return make(COGRAD_DEVICE);
    case Value::Kind::String:
      return list_value(COGRAD_STRING, v.list, v.length);
    case Value::Kind::Doubles:
      return list_value(COGRAD_FLOATS, v.list, v.length);
    case Value::Kind::Bools:
      return list_value(COGRAD_BOOLEANS, v.list, v.length);
    case Value::Kind::Strings: {
      auto& list = room.strings();
      const auto* s = static_cast<const std::string_view*>(v.list);
      for (size_t i = 0; i < v.length; ++i) list.push_back({s[i].data(), s[i].size()});
      return list_value(COGRAD_STRINGS, list.data(), list.size());
    }
    case Value::Kind::Generator:
      break;
  }
  return make(COGRAD_NONE);
}

namespace {

template <class T>
T* owned_list(cograd_value& v, int32_t kind, size_t n) {
  auto* p = static_cast<T*>(std::calloc(n + 1, sizeof(T)));
  if (p == nullptr) throw std::bad_alloc();
  v = list_value(kind, p, n);
  v.owned = 1;
  return p;
}

}  // namespace

cograd_value result_to_c(Result& r) {
  cograd_value v = make(COGRAD_NONE);
  switch (r.kind) {
    case Result::Kind::None:
      break;
    case Result::Kind::Tensor:
      v.kind = COGRAD_TENSOR;
      v.u.tensor = give(std::move(r.tensor));
      v.owned = 1;
      break;
    case Result::Kind::Tuple:
    case Result::Kind::List: {
      auto* list = owned_list<cograd_tensor>(v, COGRAD_TENSORS, r.tensors.size());
      for (size_t i = 0; i < r.tensors.size(); ++i) list[i] = give(std::move(r.tensors[i]));
      break;
    }
    case Result::Kind::Int:
      return scalar_value(Scalar(static_cast<long>(r.integer)));
    case Result::Kind::Double:
      return scalar_value(Scalar(r.number));
    case Result::Kind::Bool:
      return scalar_value(Scalar(r.truth));
    case Result::Kind::Text: {
      const std::string& s = r.more->text;
      std::memcpy(owned_list<char>(v, COGRAD_STRING, s.size()), s.data(), s.size());
      break;
    }
    case Result::Kind::Items: {
      auto& items = r.more->items;
      const bool tensors = std::all_of(items.begin(), items.end(), [](const Result& x) {
        return x.kind == Result::Kind::Tensor || x.kind == Result::Kind::None;
      });
      if (tensors) {
        auto* list = owned_list<cograd_tensor>(v, COGRAD_TENSORS, items.size());
        for (size_t i = 0; i < items.size(); ++i) list[i] = give(std::move(items[i].tensor));
        break;
      }
      auto* list =
          owned_list<cograd_value>(v, r.more->tuple ? COGRAD_TUPLE : COGRAD_ITEMS, items.size());
      for (size_t i = 0; i < items.size(); ++i) list[i] = result_to_c(items[i]);
      break;
    }
  }
  return v;
}

namespace {

void set_items(Result& r, std::vector<Result> items, bool tuple) {
  r.kind = Result::Kind::Items;
  r.more = std::make_shared<ResultItems>();
  r.more->items = std::move(items);
  r.more->tuple = tuple;
}

template <class T, class F>
void list_from_c(const cograd_value& v, Result& r, F&& one) {
  std::vector<Result> items(v.length);
  for (size_t i = 0; i < v.length; ++i) one(static_cast<const T*>(v.u.list)[i], items[i]);
  set_items(r, std::move(items), false);
}

}  // namespace

void result_from_c(const cograd_value& v, Result& r) {
  COGRAD_CHECK_TYPE(!is_dangling(v), "a result is a list of ", v.length, " elements at NULL");
  switch (v.kind) {
    case COGRAD_NONE:
    case COGRAD_DEFAULT:
      r.kind = Result::Kind::None;
      return;
    case COGRAD_TENSOR:
      r.kind = v.u.tensor == nullptr ? Result::Kind::None : Result::Kind::Tensor;
      r.tensor = borrow(v.u.tensor);
      return;
    case COGRAD_BOOLEAN:
      return box(r, v.u.integer != 0);
    case COGRAD_INT:
    case COGRAD_DTYPE:
    case COGRAD_DEVICE:
      return box(r, v.u.integer);
    case COGRAD_FLOAT:
      return box(r, v.u.number);
    case COGRAD_STRING:
      r.kind = Result::Kind::Text;
      r.more = std::make_shared<ResultItems>();
      r.more->text.assign(static_cast<const char*>(v.u.list), v.length);
      return;
    case COGRAD_TENSORS:
      return list_from_c<cograd_tensor>(v, r, [](cograd_tensor t, Result& one) {
        one.kind = t == nullptr ? Result::Kind::None : Result::Kind::Tensor;
        one.tensor = borrow(t);
      });
    case COGRAD_INTS:
      return list_from_c<int64_t>(v, r, [](int64_t x, Result& one) { box(one, x); });
    case COGRAD_FLOATS:
      return list_from_c<double>(v, r, [](double x, Result& one) { box(one, x); });
    case COGRAD_BOOLEANS:
      return list_from_c<uint8_t>(v, r, [](uint8_t x, Result& one) { box(one, x != 0); });
    case COGRAD_STRINGS:
      return list_from_c<cograd_string>(v, r, [](const cograd_string& s, Result& one) {
        one.kind = Result::Kind::Text;
        one.more = std::make_shared<ResultItems>();
        one.more->text.assign(s.data, s.length);
      });
    case COGRAD_ITEMS:
    case COGRAD_TUPLE:
      list_from_c<cograd_value>(v, r,
                                [](const cograd_value& x, Result& one) { result_from_c(x, one); });
      r.more->tuple = v.kind == COGRAD_TUPLE;
      return;
    default:
      detail::fail(ErrorKind::Type, "a result has unknown kind ", v.kind);
  }
}

}  // namespace cograd::api

using namespace cograd;
using namespace cograd::api;

void cograd_value_free(cograd_value* v) noexcept {
  if (v == nullptr || v->owned == 0) return;
  void* list = const_cast<void*>(v->u.list);
  if (v->kind == COGRAD_TENSOR) {
    cograd_tensor_release(v->u.tensor);
  } else {
    if (v->kind == COGRAD_TENSORS)
      for (size_t i = 0; i < v->length; ++i)
        cograd_tensor_release(static_cast<cograd_tensor*>(list)[i]);
    if (v->kind == COGRAD_ITEMS || v->kind == COGRAD_TUPLE)
      for (size_t i = 0; i < v->length; ++i)
        cograd_value_free(static_cast<cograd_value*>(list) + i);
    std::free(list);
  }
  *v = cograd_value{};
}
