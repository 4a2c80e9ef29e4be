// SPDX-License-Identifier: BSD-3-Clause
// Conversions of boxed arguments and results at the C boundary.
#include "api/values.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>

#include "api/devices.h"

namespace cograd::api {

namespace {

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

size_t item_size(int32_t kind) noexcept {
  switch (kind) {
    case COGRAD_STRING:
    case COGRAD_BOOLEANS:
      return 1;
    case COGRAD_STRINGS:
      return sizeof(cograd_string);
    case COGRAD_ITEMS:
    case COGRAD_TUPLE:
      return sizeof(cograd_value);
    default:
      return 8;
  }
}

// Returns the error of a list of `n` elements at `list`; null if there is none.
const char* memory_fault(const void* list, size_t n, size_t itemsize) noexcept {
  if (!is_count(n, itemsize)) return "elements, expected a number that fits in memory";
  return list == nullptr && n > 0 ? "elements at NULL" : nullptr;
}
// Returns the error of a value's list, or of a string in it; null if there is none.
const char* list_fault(const cograd_value& v) noexcept {
  if (v.kind != COGRAD_STRING && (v.kind < COGRAD_TENSORS || v.kind > COGRAD_TUPLE)) return nullptr;
  const char* fault = memory_fault(v.u.list, v.length, item_size(v.kind));
  if (fault != nullptr || v.kind != COGRAD_STRINGS) return fault;
  for (const cograd_string& s : std::span(static_cast<const cograd_string*>(v.u.list), v.length))
    if (memory_fault(s.data, s.length, 1) != nullptr) return "texts, one of them at NULL";
  return nullptr;
}
}  // namespace

bool fit(const ArgInfo& a, const cograd_value& given, OwnedLists& lists, Value& v) {
  const char* fault = list_fault(given);
  COGRAD_CHECK_TYPE(fault == nullptr, "argument '", a.name, "' is a list of ",
                    static_cast<int64_t>(given.length), " ", fault);
  v = Value::from_c(given);
  if (v.none()) {
    v = Value();
    if (a.kind == ArgKind::Tensor) v.set_tensor(nullptr);
    return a.nullable || (a.has_default && a.default_value.none());
  }
  switch (a.kind) {
    case ArgKind::Tensor:
      return v.kind == COGRAD_TENSOR;
    case ArgKind::TensorOrScalar:
      return v.kind == COGRAD_TENSOR || v.is_number();
    case ArgKind::Scalar:
      return v.is_number();
    case ArgKind::Tensors:
      return v.kind == COGRAD_TENSORS;
    case ArgKind::Int:
    case ArgKind::Dim:
      return v.kind == COGRAD_INT;
    case ArgKind::Double:
      if (!v.is_number() || v.scalar().imag() != 0) return false;
      v.set_number(v.scalar().to_double());
      return true;
    case ArgKind::Bool:
      return v.kind == COGRAD_BOOLEAN;
    case ArgKind::Ints:
    case ArgKind::DimList:
    case ArgKind::Shape:
      if (v.kind == COGRAD_INT)
        v.set_list(COGRAD_INTS, lists.emplace_front(1, v.integer()).data(), 1);
      return v.kind == COGRAD_INTS;
    case ArgKind::DType:
      return v.kind == COGRAD_DTYPE && v.integer() >= 0 && v.integer() < kNumDTypes;
    case ArgKind::Device:
      if (v.kind != COGRAD_DEVICE) return false;
      v.set_device(device_from_c(static_cast<int32_t>(v.integer()),
                                 static_cast<int64_t>(v.length) - 1, "device"));
      return true;
    case ArgKind::String:
      return v.kind == COGRAD_STRING;
    case ArgKind::Doubles:
      return v.kind == COGRAD_FLOATS;
    case ArgKind::Bools:
      return v.kind == COGRAD_BOOLEANS;
    case ArgKind::Strings:
      return v.kind == COGRAD_STRINGS;
    case ArgKind::Generator:
    case ArgKind::Opaque:
      return false;
  }
  return false;
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
  Value number;
  switch (r.kind) {
    case Result::Kind::None:
      break;
    case Result::Kind::Tensor:
      v.kind = COGRAD_TENSOR;
      v.u.tensor = owned_handle(std::move(r.tensor));
      v.owned = 1;
      break;
    case Result::Kind::Tuple:
    case Result::Kind::List: {
      auto* list = owned_list<cograd_tensor>(v, COGRAD_TENSORS, r.tensors.size());
      for (size_t i = 0; i < r.tensors.size(); ++i) list[i] = owned_handle(std::move(r.tensors[i]));
      break;
    }
    case Result::Kind::Int:
      number.set_integer(r.integer);
      return number.to_c();
    case Result::Kind::Double:
      number.set_number(r.number);
      return number.to_c();
    case Result::Kind::Bool:
      number.set_truth(r.truth);
      return number.to_c();
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
        for (size_t i = 0; i < items.size(); ++i)
          list[i] = owned_handle(std::move(items[i].tensor));
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
  const char* fault = list_fault(v);
  COGRAD_CHECK_TYPE(fault == nullptr, "a result is a list of ", static_cast<int64_t>(v.length), " ",
                    fault);
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
