// SPDX-License-Identifier: BSD-3-Clause
// The table of ops, filled while the library is loaded.
#include "ops/declare/registry.h"

#include <cstdio>
#include <cstdlib>
#include <iterator>

namespace cograd {

namespace {

std::vector<OpRecord*>& table() {
  static auto* t = new std::vector<OpRecord*>;
  return *t;
}

struct AliasName {
  const char* name;
  const char* of;
};
std::vector<AliasName>& pending_aliases() {
  static auto* v = new std::vector<AliasName>;
  return *v;
}

void make_aliases() {
  const std::vector<AliasName> aliases = std::move(pending_aliases());
  pending_aliases().clear();
  const std::vector<OpRecord*> known = table();
  for (const AliasName& alias : aliases) {
    for (const OpRecord* r : known) {
      if (std::string_view(r->spec.name) != alias.of) continue;
      auto* copy = new OpRecord(*r);
      copy->spec.name = alias.name;
      table().push_back(copy);
    }
  }
}

void read_parameters(OpRecord& r) {
  read_names(r.args, r.spec.args, detail::concat("op '", r.spec.name, "'"));
  for (ArgInfo& a : r.args) {
    // A Tensor parameter accepts None exactly if None is its default.
    if (a.kind == ArgKind::Tensor) a.nullable = a.has_default;
  }
}

constexpr const char* kArgKindNames[] = {"Tensor", "TensorOrScalar", "Tensors", "Scalar", "Int",
                                         "Double", "Bool",           "Ints",    "DType",  "Device",
                                         "String", "Generator",      "Doubles", "Bools",  "Strings",
                                         "Dim",    "Dims",           "Shape",   "Opaque"};
static_assert(std::size(kArgKindNames) == kNumArgKinds);

constexpr const char* kOpKindNames[] = {
    "other",  "elementwise", "reduction", "view",    "shape",         "contraction", "index",
    "random", "creation",    "loss",      "sorting", "decomposition", "cast"};

}  // namespace

const char* kind_name(ArgKind k) noexcept { return kArgKindNames[static_cast<int>(k)]; }
const char* kind_name(uint32_t flags) noexcept { return kOpKindNames[(flags & kKindMask) >> 16]; }

namespace detail {

std::vector<ArgInfo> arg_infos(std::span<const ArgShape> shapes) {
  std::vector<ArgInfo> infos(shapes.size());
  for (size_t i = 0; i < shapes.size(); ++i) {
    infos[i].kind = shapes[i].kind;
    infos[i].nullable = shapes[i].nullable;
  }
  return infos;
}

OpRecord* new_record(const OpSpec& spec, const RecordTraits& derived,
                     std::span<const ArgShape> args, OpRecord::Call call_plain, OpRecord::Run run) {
  auto* r = new OpRecord;
  r->spec = spec;
  r->args = arg_infos(args);
  r->differentiable = derived.differentiable;
  r->composite = derived.composite;
  r->looped = derived.looped;
  r->traits = derived.traits;
  r->result = derived.result;
  r->num_results = derived.num_results;
  r->has_inplace = derived.has_inplace;
  r->has_out = derived.has_out;
  r->call_plain = call_plain;
  r->run = run;
  return r;
}

const OpRecord& made_once(std::atomic<const OpRecord*>& slot, OpRecord* (*make)()) {
  const OpRecord* record = slot.load(std::memory_order_acquire);
  if (record == nullptr) {
    const OpRecord* made = make();
    if (slot.compare_exchange_strong(record, made, std::memory_order_acq_rel))
      record = made;
    else
      delete made;
  }
  return *record;
}

}  // namespace detail

const std::vector<OpRecord*>& op_table() {
  if (!pending_aliases().empty()) make_aliases();
  return table();
}

bool add_alias(const char* name, const char* of) {
  pending_aliases().push_back({name, of});
  return true;
}

bool add_record(OpRecord* record) {
  try {
    read_parameters(*record);
  } catch (const Error& e) {  // a bug in a declaration, found at the first import
    std::fprintf(stderr, "cograd: %s\n", e.what());
    std::abort();
  }
  table().push_back(record);
  return true;
}

}  // namespace cograd
