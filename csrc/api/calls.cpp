// SPDX-License-Identifier: BSD-3-Clause
// The C interface to calls of ops by name.
#include <map>
#include <mutex>

#include "api/registration.h"
#include "api/values.h"
#include "ops/declare/arguments.h"
#include "tensor/alloc.h"

// All records of one name; a call uses the first one that fits the arguments.
struct cograd_op_s {
  std::string name, signature;
  bool inplace = false;
  std::vector<const cograd::OpRecord*> records;
};

namespace cograd::api {

namespace {

struct Table {
  std::mutex mutex;
  std::map<std::string, const cograd_op_s*, std::less<>> ops;
};
Table& table() {
  static auto* t = new Table;
  return *t;
}

void describe(cograd_op_s& op) {
  for (const OpRecord* r : op.records) {
    if (!op.signature.empty()) op.signature += '\n';
    op.signature += op.name + "(" + r->spec.args + ")";
  }
}

// Adds the records of a built-in op; "name_" is the in-place form of "name".
void add_builtins(cograd_op_s& op, std::string_view name) {
  for (const OpRecord* r : op_table())
    if (name == r->spec.name) op.records.push_back(r);
  if (!op.records.empty() || !name.ends_with('_')) return;
  op.inplace = true;
  name.remove_suffix(1);
  for (const OpRecord* r : op_table())
    if (name == r->spec.name && r->has_inplace) op.records.push_back(r);
}

const cograd_op_s* find(std::string_view name) {
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  // A rebuilt extension may have replaced its op: look it up each time.
  const bool foreign = name.find("::") != std::string_view::npos;
  const auto known = t.ops.find(name);
  const ForeignOp* f = foreign ? find_foreign(name) : nullptr;
  if (known != t.ops.end() &&
      (!foreign || (f != nullptr && known->second->records[0] == &f->record)))
    return known->second;
  auto op = std::make_unique<cograd_op_s>();
  op->name = name;
  if (f != nullptr)
    op->records.push_back(&f->record);
  else if (!foreign)
    add_builtins(*op, name);
  if (op->records.empty())
    detail::fail(ErrorKind::Runtime, "there is no op '", name, "' in this cograd",
                 foreign ? "; is the library that defines it loaded?" : "");
  describe(*op);
  return t.ops.insert_or_assign(std::string(name), op.release()).first->second;
}

constexpr size_t kMaxArgs = 32;

// Raises if a list has an undefined tensor; built-in ops reject those unless declared otherwise.
void check_elements(const OpRecord& r, const ArgInfo& a, const Value& v) {
  if ((r.spec.flags & (kAbsentTensors | kInternal)) != 0) return;
  const TensorList list = v.tensors();
  for (size_t i = 0; i < list.size(); ++i)
    COGRAD_CHECK_TYPE(list[i].defined(), r.spec.name, "(): element ", i, " of ", a.name,
                      " is None (an undefined Tensor), expected a Tensor");
}

bool fill(const OpRecord& r, std::span<const cograd_value> args, OwnedLists& lists, Value* out) {
  if (args.size() > r.args.size()) return false;
  for (size_t i = 0; i < r.args.size(); ++i) {
    const ArgInfo& a = r.args[i];
    if (i < args.size() && args[i].kind != COGRAD_DEFAULT) {
      if (!fit(a, args[i], lists, out[i])) return false;
      if (r.foreign == nullptr && a.kind == ArgKind::Tensors) check_elements(r, a, out[i]);
    } else if (!fill_missing(a, out[i])) {
      return false;
    }
  }
  return true;
}

const char* kind_name(int32_t kind) noexcept {
  constexpr const char* kName[] = {"None",
                                   "Tensor",
                                   "bool",
                                   "int",
                                   "float",
                                   "str",
                                   "dtype",
                                   "device",
                                   "list of Tensors",
                                   "list of ints",
                                   "list of floats",
                                   "list of bools",
                                   "list of strs",
                                   "list",
                                   "tuple",
                                   "number",
                                   "Tensor or number",
                                   "default"};
  return kind >= 0 && kind < static_cast<int32_t>(std::size(kName)) ? kName[kind] : "?";
}

[[noreturn]] void fail_arguments(const cograd_op_s& op, std::span<const cograd_value> args) {
  std::string got;
  for (const cograd_value& v : args)
    got += (got.empty() ? "" : ", ") + std::string(kind_name(v.kind));
  detail::fail(ErrorKind::Type, op.name, "(): cannot be called with (", got, "); expected ",
               op.signature);
}

void run(const cograd_op_s& op, std::span<const cograd_value> args, cograd_value& result) {
  for (const OpRecord* r : op.records) {
    COGRAD_CHECK(r->args.size() <= kMaxArgs, op.name, "(): has too many parameters");
    alignas(Value) unsigned char bytes[kMaxArgs * sizeof(Value)];
    auto* values = reinterpret_cast<Value*>(bytes);
    for (size_t i = 0; i < r->args.size(); ++i) new (values + i) Value;
    OwnedLists lists;
    if (!fill(*r, args, lists, values)) continue;
    if (op.inplace) {
      if (args.empty() || args[0].kind != COGRAD_TENSOR || args[0].u.tensor == nullptr) continue;
      const Tensor& self = view_of(args[0].u.tensor, op.name.c_str());
      r->call_inplace(self, values);
      cograd_tensor_retain(args[0].u.tensor);
      result = cograd_value{};
      result.kind = COGRAD_TENSOR;
      result.u.tensor = args[0].u.tensor;
      result.owned = 1;
      return;
    }
    Result out;
    if (r->foreign != nullptr)
      call_foreign(*r->foreign, values, out);
    else
      r->call(values, out);
    result = result_to_c(out);
    return;
  }
  fail_arguments(op, args);
}

}  // namespace

}  // namespace cograd::api

cograd_status cograd_op_find(const char* name, size_t length, cograd_op* out) noexcept {
  using namespace cograd::api;
  return guarded([&] {
    given_list(name, length, "op_find", "name");
    cograd_op& place = given(out, "op_find", "out");
    place = find({name, length});
  });
}

cograd_status cograd_op_call(cograd_op op, const cograd_value* args, size_t n,
                             cograd_value* result) noexcept {
  using namespace cograd::api;
  return guarded([&] {
    run(given(op, "op_call", "op"), given_list(args, n, "op_call", "args"),
        given(result, "op_call", "result"));
  });
}

const char* cograd_op_signature(cograd_op op) noexcept {
  return op == nullptr ? "" : op->signature.c_str();
}
