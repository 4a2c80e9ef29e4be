// SPDX-License-Identifier: BSD-3-Clause
// The ops of one shared object while its TORCH_LIBRARY blocks run: collects schemas and kernels,
// and registers the ops after the last block.
#pragma once
#include "cograd/torch_compat/impl/boxing.h"

namespace c10 {

// Keys of devices and features that cograd does not have can be used; their kernels are not called.
enum class DispatchKey : uint8_t {
  Undefined,
  CatchAll,
  CPU,
  Autograd,
  AutogradCPU,
  CompositeImplicitAutograd,
  CompositeExplicitAutograd,
  CompositeExplicitAutogradNonFunctional,
  ADInplaceOrView,
  CUDA,
  HIP,
  XLA,
  MPS,
  XPU,
  HPU,
  IPU,
  MTIA,
  Meta,
  PrivateUse1,
  SparseCPU,
  SparseCUDA,
  QuantizedCPU,
  QuantizedCUDA,
  MkldnnCPU,
  NestedTensorCPU,
  NestedTensorCUDA,
  AutogradCUDA,
  AutogradXLA,
  AutogradMPS,
  AutogradXPU,
  AutogradPrivateUse1,
  Autocast,
  AutocastCPU,
  AutocastCUDA,
  AutocastXPU,
  AutocastMPS,
  Functionalize,
  FuncTorchBatched,
  Batched,
  Python,
};

}  // namespace c10

// Each block puts one byte into this section, so its size is the number of blocks.
extern "C" {
extern const char __start_cograd_torch[] __attribute__((weak, visibility("hidden")));
extern const char __stop_cograd_torch[] __attribute__((weak, visibility("hidden")));
}

namespace cograd {
namespace torch_compat {

using ::c10::DispatchKey;

struct Parameter {
  std::string type, name;
  bool written = false;
};

// An op, collected from m.def and m.impl.
struct Entry {
  std::string ns, name, schema;  // schema: "(Tensor a) -> Tensor", or empty
  std::vector<Parameter> parameters;
  bool defined = false;
  Kernel autograd, cpu, cuda, explicit_, implicit;
  std::string qualified() const { return ns + "::" + name; }
  bool differentiable() const { return autograd || (implicit && !cpu && !explicit_); }
  const Kernel* any() const {
    for (const Kernel* k : {&cpu, &explicit_, &implicit, &autograd, &cuda})
      if (*k) return k;
    return nullptr;
  }
};

struct Registry {
  std::vector<Entry*> entries;
  std::ptrdiff_t blocks_done = 0;
};
COGRAD_COMPAT_LOCAL inline Registry& registry() {
  static auto* r = new Registry;
  return *r;
}

// --- schemas ---

inline std::string trimmed(std::string s) {
  const size_t begin = s.find_first_not_of(" \t\n\r");
  if (begin == std::string::npos) return {};
  return s.substr(begin, s.find_last_not_of(" \t\n\r") - begin + 1);
}

// Parses "Tensor(a!) out=None". The type excludes sizes and aliases: int[2] becomes int[].
inline Parameter parse_parameter(const std::string& item) {
  Parameter p;
  int depth = 0;
  size_t end = 0;
  for (; end < item.size(); ++end) {
    const char c = item[end];
    if (c == '(' || c == '[') ++depth;
    if (depth == 0 && std::isspace(static_cast<unsigned char>(c))) break;
    const bool alias = depth > 0 && item.find('[') > end;
    if (alias && c == '!') p.written = true;
    if (!(alias || (c >= '0' && c <= '9') || c == ')')) p.type += c;
    if (c == ')' || c == ']') --depth;
  }
  p.name = trimmed(item.substr(end));
  p.name = trimmed(p.name.substr(0, p.name.find('=')));
  return p;
}

inline std::vector<Parameter> parse_parameters(const std::string& schema) {
  std::vector<Parameter> out;
  int depth = 0;
  std::string item;
  for (const char c : schema) {
    if (c == ')' || c == ']') --depth;
    if (depth == 0 && c == ')') break;
    if (depth == 1 && c == ',') {
      out.push_back(parse_parameter(trimmed(item)));
      item.clear();
    } else if (depth > 0) {
      item += c;
    }
    if (c == '(' || c == '[') ++depth;
  }
  if (!trimmed(item).empty()) out.push_back(parse_parameter(trimmed(item)));
  out.erase(
      std::remove_if(out.begin(), out.end(), [](const Parameter& p) { return p.type == "*"; }),
      out.end());
  return out;
}

inline int32_t kind_of(std::string type) {
  int32_t nullable = 0;
  if (!type.empty() && type.back() == '?') {
    nullable = COGRAD_NULLABLE;
    type.pop_back();
  }
  static const std::unordered_map<std::string, int32_t> kKinds = {
      {"Tensor", COGRAD_TENSOR}, {"Tensor[]", COGRAD_TENSORS}, {"Tensor?[]", COGRAD_TENSORS},
      {"int", COGRAD_INT},       {"SymInt", COGRAD_INT},       {"int[]", COGRAD_INTS},
      {"SymInt[]", COGRAD_INTS}, {"float", COGRAD_FLOAT},      {"float[]", COGRAD_FLOATS},
      {"bool", COGRAD_BOOLEAN},  {"bool[]", COGRAD_BOOLEANS},  {"str", COGRAD_STRING},
      {"str[]", COGRAD_STRINGS}, {"Scalar", COGRAD_NUMBER},    {"ScalarType", COGRAD_DTYPE},
      {"Device", COGRAD_DEVICE}};
  const auto it = kKinds.find(type);
  return it == kKinds.end() ? -1 : it->second | nullable;
}

// Returns why the kernel does not fit the schema; empty if it fits. A kernel may declare Tensor for
// an optional Tensor (undefined stands for None), and the reverse.
inline std::string mismatch(const Entry& e, const Kernel& k) {
  if (e.schema.empty()) return {};
  if (k.count != e.parameters.size())
    return text("the schema has ", e.parameters.size(), " parameters, the C++ function ", k.count);
  for (size_t i = 0; i < k.count; ++i) {
    const Parameter& p = e.parameters[i];
    const int32_t wanted = kind_of(p.type);
    const int32_t base = wanted & ~COGRAD_NULLABLE;
    if (wanted == -1) return text("the type ", p.type, " of '", p.name, "' is not known");
    const bool fits =
        base == COGRAD_TENSOR ? (k.kinds[i] & ~COGRAD_NULLABLE) == base : k.kinds[i] == wanted;
    if (!fits)
      return text("parameter '", p.name, "' is ", p.type,
                  " in the schema, but the C++ function takes another type");
  }
  return {};
}

// --- calls ---

inline bool any_on_gpu(const cograd_value* args, size_t n) {
  const auto on_gpu = [](cograd_tensor t) { return t != nullptr && Tensor::borrow(t).is_cuda(); };
  for (size_t i = 0; i < n; ++i) {
    if (args[i].kind == COGRAD_TENSOR && on_gpu(args[i].u.tensor)) return true;
    if (args[i].kind != COGRAD_TENSORS) continue;
    const auto* list = static_cast<const cograd_tensor*>(args[i].u.list);
    for (size_t k = 0; k < args[i].length; ++k)
      if (on_gpu(list[k])) return true;
  }
  return false;
}

inline cograd_status run_entry(cograd_context, void* user, const cograd_value* args, size_t n,
                               cograd_results results) {
  return cograd::ext::guarded([&] {
    const Entry& e = *static_cast<const Entry*>(user);
    if (e.autograd && below_autograd() == 0)
      return e.autograd.call(e.autograd.function, args, results);
    const Kernel& k = e.cuda && any_on_gpu(args, n) ? e.cuda
                      : e.cpu                       ? e.cpu
                      : e.explicit_                 ? e.explicit_
                                                    : e.implicit;
    if (!k)
      cograd::ext::fail(ErrorKind::NotImplemented, "Could not run '", e.qualified(),
                        "' on the CPU: no kernel was registered for it. "
                        "m.impl in TORCH_LIBRARY_IMPL(",
                        e.ns, ", CPU, m) registers one");
    if (&k == &e.implicit) return k.call(k.function, args, results);
    const auto written = [&](auto&& f) {
      for (size_t i = 0; i < n && i < e.parameters.size(); ++i)
        if (e.parameters[i].written && args[i].kind == COGRAD_TENSOR && args[i].u.tensor != nullptr)
          f(e.parameters[i], reinterpret_cast<const Tensor&>(args[i].u.tensor));
    };
    if (!e.autograd && cograd_grad_enabled() != 0)
      written([&](const Parameter& p, const Tensor& t) {
        COGRAD_CHECK(!t.requires_grad(), "the argument '", p.name,
                     "' is written and requires grad, but the op has no gradient: call it under "
                     "no_grad, or on a detached tensor");
      });
    {
      const NoGradGuard guard;
      k.call(k.function, args, results);
    }
    written([](const Parameter&, const Tensor& t) { t.bump_version(); });
  });
}

// --- registration ---

inline Entry& find_entry(const std::string& ns, const std::string& name) {
  for (Entry* e : registry().entries)
    if (e->ns == ns && e->name == name) return *e;
  registry().entries.push_back(new Entry{});
  registry().entries.back()->ns = ns;
  registry().entries.back()->name = name;
  return *registry().entries.back();
}

// Initialisers cannot throw. Reports an error to the loader by registering an op whose schema is
// invalid and has the message as its text.
inline void refuse(const Entry& e, std::string why) {
  for (char& c : why)
    if (c == '(' || c == ')') c = '\'';
  cograd_op_desc d{};
  d.struct_size = sizeof d;
  d.library = e.ns.c_str();
  d.name = e.name.c_str();
  d.schema = why.c_str();
  d.abi_major = COGRAD_ABI_MAJOR;
  d.abi_minor = COGRAD_ABI_MINOR;
  d.forward = run_entry;
  cograd_op_register(&d);
}

inline void register_entry(const Entry& e) {
  for (const Kernel* k : {&e.cpu, &e.cuda, &e.explicit_, &e.implicit, &e.autograd}) {
    const std::string why = *k ? mismatch(e, *k) : std::string();
    if (!why.empty()) return refuse(e, why);
  }
  const Kernel* k = e.any();
  if (k == nullptr && e.schema.empty()) return;  // it only has kernels for other devices
  cograd_op_desc d{};
  d.struct_size = sizeof d;
  d.library = e.ns.c_str();
  d.name = e.name.c_str();
  const std::string parameters = e.schema.substr(0, e.schema.rfind("->"));
  d.schema = parameters.c_str();
  if (e.schema.empty()) {
    d.kinds = k->kinds;
    d.n_params = k->count;
  }
  d.flags = (k == nullptr ? 0 : k->flags) | (e.differentiable() ? COGRAD_OP_DIFFERENTIABLE : 0u) |
            (e.cuda ? COGRAD_OP_CUDA : 0u);
  d.forward = run_entry;
  d.user = const_cast<Entry*>(&e);
  d.abi_major = COGRAD_ABI_MAJOR;
  d.abi_minor = COGRAD_ABI_MINOR;
  cograd_op_register(&d);
}

inline void end_block() {
  Registry& r = registry();
  if (++r.blocks_done != __stop_cograd_torch - __start_cograd_torch) return;
  for (const Entry* e : r.entries) register_entry(*e);
}

}  // namespace torch_compat
}  // namespace cograd
