// SPDX-License-Identifier: BSD-3-Clause
// The text of elementwise rows.
#include <algorithm>

#include "cuda/jit/rows.h"

namespace cograd::cuda {

namespace {

// Parts of the names that special.h has, and nothing else.
constexpr std::string_view kSpecial[] = {
    "gamma_p", "gamma_q",   "digamma",   "trigamma", "polygamma", "zeta", "erfinv",
    "bessel",  "airy",      "erfcx(",    "ndtr",     "i0(",       "i0e(", "i1(",
    "i1e(",    "chebyshev", "hermite_h", "laguerre", "legendre"};

bool names_special(std::string_view formula) {
  return std::any_of(std::begin(kSpecial), std::end(kSpecial), [&](std::string_view part) {
    return formula.find(part) != std::string_view::npos;
  });
}

// Returns the name of the struct of an optimizer's rule (kernels/optim/optim_rules.h).
std::string rule_struct(std::string_view name) {
  constexpr std::pair<std::string_view, const char*> kStructs[] = {
      {"sgd", "SgdRule"},         {"adam", "AdamRule"},         {"rmsprop", "RmsPropRule"},
      {"adagrad", "AdagradRule"}, {"adadelta", "AdadeltaRule"}, {"adamax", "AdamaxRule"},
      {"nadam", "NAdamRule"},     {"radam", "RAdamRule"},       {"rprop", "RpropRule"},
      {"asgd", "AsgdRule"}};
  for (const auto& [of, rule] : kStructs)
    if (of == name) return rule;
  return "";
}

}  // namespace

const char* stored_type(DType t) noexcept {
  constexpr const char* kNames[] = {"bool",     "uint8_t",  "int8_t",         "int16_t",
                                    "int32_t",  "int64_t",  "Half",           "BFloat16",
                                    "float",    "double",   "Complex<float>", "Complex<double>",
                                    "uint16_t", "uint32_t", "uint64_t"};
  return kNames[static_cast<int>(t)];
}
const char* computed_type(DType t) noexcept { return stored_type(wide_dtype(t)); }

const char* why_no_kernel(const LoopRow& row) noexcept {
  if (row.kind == LoopKind::Optim) return nullptr;
  return row.formula.empty() ? "the row has no formula" : nullptr;
}

std::string row_headers(const LoopRow& row) {
  if (row.kind == LoopKind::Optim) return "#include \"optim.h\"\n";
  std::string all;
  if (is_complex(row.type) || is_complex(row.out)) all += "#include \"complex.h\"\n";
  if (names_special(row.formula)) all += "#include \"special.h\"\n";
  return all + "#include \"loops.h\"\n";
}

std::string row_op(const LoopRow& row, const std::string& name) {
  if (row.kind == LoopKind::Optim) return "";
  std::string type = computed_type(row.type), stored = stored_type(row.type);
  std::string first = stored_type(row.first), out = stored_type(row.out);
  std::string formula(row.formula);
  if (row.name == "nextafter" && is_half(row.type)) {
    type = stored = first = out = "uint16_t";
    formula = row.type == DType::Float16 ? "next_bits(a, b, 0x7c00)" : "next_bits(a, b, 0x7f80)";
  }
  if (row.kind == LoopKind::Copy || row.kind == LoopKind::Fill) {
    // Only the size matters; Complex<double> has 16 bytes.
    constexpr const char* kOfSize[] = {"uint8_t", "uint16_t", "uint32_t", "uint64_t"};
    const int size = dtype_size(row.type);
    type = size == 16 ? "Complex<double>"
                      : kOfSize[size == 1   ? 0
                                : size == 2 ? 1
                                : size == 4 ? 2
                                            : 3];
    stored = first = out = type;
  }
  const bool far = row.name.starts_with("pow_far");
  const std::string params = far ? "double" : type;
  std::string text = "struct " + name + " {\n  using T = " + params + ";\n  using Out = " + out +
                     ";\n  using First = " + first + ";\n  using In = " + stored +
                     ";\n  static constexpr int kInputs = " + std::to_string(row.inputs.size()) +
                     ";\n  static constexpr bool kDivides = " + (row.divides ? "true" : "false") +
                     ";\n  static auto f(";
  for (size_t k = 0; k < row.inputs.size(); ++k) {
    text += k == 0 && row.first != row.type ? "compute_t<First> " : "compute_t<In> ";
    text += row.inputs[k];
    text += ", ";
  }
  text += "T p0, T p1, T p2) {\n";
  if (row.formula.find("lit(") != std::string_view::npos)
    text += "    const auto lit = [](double value) { return compute_t<In>(value); };\n";
  return text + "    return compute_t<Out>(" + formula + ");\n  }\n};\n";
}

std::string row_kernel(const LoopRow& row, Driver driver, const std::string& op,
                       const std::string& name) {
  const std::string threads = ", kLoopThreads)";
  if (row.kind == LoopKind::Optim) {
    return "COGRAD_KERNEL(" + name + ", OptimArgs" + threads +
           " { run_optim<kernels::" + rule_struct(row.name) + ", " + std::to_string(row.flags) +
           "u, " + stored_type(row.type) + ">(a); }\n";
  }
  if (driver == Driver::Flat)
    return "COGRAD_KERNEL(" + name + ", FlatArgs" + threads + " { run_flat<" + op + ">(a); }\n";
  return "COGRAD_KERNEL(" + name + ", StridedArgs" + threads + " { run_strided<" + op + ", " +
         (driver == Driver::Strided ? "uint32_t" : "int64_t") + ">(a); }\n";
}

std::string row_program(const LoopRow& row, Driver driver) {
  return row_headers(row) + "namespace cograd::device {\n" + row_op(row, "Op") +
         row_kernel(row, driver, "Op", "loop") + "}\n";
}

}  // namespace cograd::cuda
