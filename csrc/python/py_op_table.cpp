// SPDX-License-Identifier: BSD-3-Clause
// The op table as Python data.
#include "ops/core/out.h"
#include "python/py_ops.h"

namespace cograd::python {

// Everything the table says, for tests, stubs and docs.
py::list op_table_list() {
  py::list out;
  for (const OpRecord* r : op_table()) {
    py::dict d;
    const uint32_t f = r->spec.flags;
    d["name"] = r->spec.name;
    d["signature"] = r->spec.args;
    d["doc"] = r->spec.doc;
    d["function"] = (f & kFunction) != 0;
    d["method"] = (f & kMethod) != 0;
    d["inplace"] = r->call_inplace != nullptr;
    d["out"] = r->call_out != nullptr || takes_outs(*r);
    d["differentiable"] = r->differentiable;
    d["samples"] = r->spec.samples;
    d["ref"] = r->spec.ref;
    d["returns"] = r->spec.returns;
    d["internal"] = (f & kInternal) != 0;
    d["namespace"] = (f & kNN) != 0 ? "_nn" : "";
    constexpr const char* kKinds[] = {"Tensor", "TensorOrScalar", "Tensors", "Scalar", "Int",
                                      "Double", "Bool",           "Ints",    "DType",  "Device",
                                      "String", "Generator",      "Doubles", "Bools",  "Strings"};
    constexpr const char* kResults[] = {"None",   "Tensor", "Tuple", "List", "Int",
                                        "Double", "Bool",   "Text",  "Items"};
    d["result"] = kResults[static_cast<int>(r->result)];
    d["num_results"] = static_cast<int>(r->num_results);
    py::list args;
    for (const ArgInfo& a : r->args) {
      py::dict arg;
      arg["name"] = a.name;
      arg["kind"] = kKinds[static_cast<int>(a.kind)];
      arg["nullable"] = a.nullable;
      arg["keyword_only"] = a.keyword_only;
      arg["variadic"] = a.variadic;
      arg["default"] = a.has_default ? py::object(py::str(a.default_text)) : py::object(py::none());
      args.append(arg);
    }
    d["args"] = args;
    out.append(d);
  }
  return out;
}

}  // namespace cograd::python
