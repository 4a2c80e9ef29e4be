// SPDX-License-Identifier: BSD-3-Clause
// Exports the op table as Python data.
#include "ops/declare/autocast.h"
#include "ops/declare/out.h"
#include "ops/declare/stages.h"
#include "python/ops/call.h"

namespace cograd::python {

py::dict describe_argument(const ArgInfo& a) {
  py::dict d;
  d["name"] = a.name;
  d["kind"] = kind_name(a.kind);
  d["type"] = a.type;
  d["nullable"] = a.nullable;
  d["keyword_only"] = a.keyword_only;
  d["variadic"] = a.variadic;
  d["mutated"] = a.mutated;
  d["default"] = a.has_default ? py::object(py::str(a.default_text)) : py::object(py::none());
  return d;
}

py::list describe_arguments(const std::vector<ArgInfo>& args) {
  py::list out;
  for (const ArgInfo& a : args) out.append(describe_argument(a));
  return out;
}

namespace {

constexpr const char* kResults[] = {"None",   "Tensor", "Tuple", "List", "Int",
                                    "Double", "Bool",   "Text",  "Items"};
constexpr const char* kTangents[] = {"double_vjp", "linear", "multilinear", "self_adjoint"};
constexpr const char* kBatches[] = {"loop",    "pointwise", "by_dims", "by_shape",
                                    "leading", "through",   "own"};

void describe_traits(const OpTraits& f, py::dict& d) {
  py::list dtypes;
  for (int i = 0; i < kNumDTypes; ++i)
    if ((f.dtypes >> i & 1) != 0) dtypes.append(dtype_name(static_cast<DType>(i)));
  d["dtypes"] = dtypes;
  d["tangent"] = kTangents[static_cast<int>(f.tangent.rule)];
  d["tangent_inputs"] = f.tangent.inputs;
  d["batch"] = kBatches[static_cast<int>(f.batch.rule)];
  d["holomorphic"] = f.holomorphic;
  py::list constants;
  for (int i = 0; i < 32; ++i)
    if ((f.constants >> i & 1) != 0) constants.append(i);
  d["constants"] = constants;
}

py::dict describe_record(const OpRecord& r) {
  py::dict d;
  const uint32_t f = r.spec.flags;
  d["name"] = r.spec.name;
  d["signature"] = r.spec.args;
  d["doc"] = r.spec.doc;
  d["kind"] = kind_name(f);
  d["function"] = (f & kFunction) != 0;
  d["method"] = (f & kMethod) != 0;
  d["inplace"] = r.has_inplace;
  d["out"] = r.has_out || takes_outs(r);
  d["exact_out"] = (f & kExactOut) != 0;
  d["reads_bytes"] = (f & kReadsBytes) != 0;
  d["cpp"] = (f & kNoCpp) == 0;
  d["differentiable"] = r.differentiable;
  d["samples"] = r.spec.samples;
  d["ref"] = r.spec.ref;
  d["returns"] = r.spec.returns;
  d["internal"] = (f & kInternal) != 0;
  d["namespace"] = (f & kNN) != 0 ? "_nn" : "";
  d["result"] = kResults[static_cast<int>(r.result)];
  d["num_results"] = static_cast<int>(r.num_results);
  d["autocast"] = (f & kAutocastLow) != 0 ? "low" : (f & kAutocastWide) != 0 ? "float32" : "";
  describe_traits(r.traits, d);
  d["args"] = describe_arguments(r.args);
  return d;
}

}  // namespace

// Returns the whole table, for tests, stubs and docs.
py::list op_table_list() {
  py::list out;
  for (const OpRecord* r : op_table()) out.append(describe_record(*r));
  return out;
}

namespace {
// Lists the calls that pass the last stage, by name and form.
class ListCalls final : public CallObserver {
 public:
  void saw(const OpRecord& r, const CallForm& form, const Value* /*args*/) override {
    constexpr const char* kForms[] = {"", "_", ".out"};
    names.push_back(r.spec.name + std::string(kForms[static_cast<int>(form.form)]));
  }
  std::vector<std::string> names;
};
}  // namespace

py::list observed_calls(const py::object& f) {
  ListCalls calls;
  {
    const ObserveCalls here(calls);
    f();
  }
  py::list names;
  for (const std::string& name : calls.names) names.append(name);
  return names;
}

py::dict parse_schema(const std::string& text) {
  const Schema s = read_schema(text, "schema '" + text + "'");
  py::dict d;
  d["name"] = s.name;
  d["args"] = describe_arguments(s.args);
  py::list returns;
  for (const std::string& type : s.returns) returns.append(type);
  d["returns"] = returns;
  d["has_result"] = text.find("->") != std::string::npos;
  return d;
}

}  // namespace cograd::python
