// SPDX-License-Identifier: BSD-3-Clause
// TORCH_LIBRARY, TORCH_LIBRARY_FRAGMENT, TORCH_LIBRARY_IMPL and torch::RegisterOperators.
#pragma once
#include "cograd/torch_compat/impl/registry.h"

namespace cograd {
namespace torch_compat {

// A function, optionally with the dispatch key that it is for.
class CppFunction {
 public:
  CppFunction(Kernel kernel, DispatchKey key = DispatchKey::Undefined)  // NOLINT: implicit
      : kernel_(kernel), key_(key) {}
  template <class F, class = std::enable_if_t<IsCallable<std::decay_t<F>>::value>>
  CppFunction(F&& f)  // NOLINT: implicit
      : kernel_(make_kernel<std::decay_t<F>>(std::forward<F>(f))) {}
  const Kernel& kernel() const noexcept { return kernel_; }
  DispatchKey key() const noexcept { return key_; }
  // Kernels on a stack of boxed values do not exist here. A fallthrough kernel is never called.
  template <class... A>
  static CppFunction makeFromBoxedFunction(A&&...) = delete;
  static CppFunction makeFallthrough() { return CppFunction(Kernel{}, DispatchKey::Meta); }

 private:
  Kernel kernel_;
  DispatchKey key_ = DispatchKey::Undefined;
};

inline void set_kernel(Entry& e, DispatchKey key, const Kernel& k) {
  Kernel* place = nullptr;
  switch (key) {
    case DispatchKey::CPU:
      place = &e.cpu;
      break;
    case DispatchKey::CUDA:
      place = &e.cuda;
      break;
    case DispatchKey::Autograd:
    case DispatchKey::AutogradCPU:
    case DispatchKey::AutogradCUDA:
      place = &e.autograd;
      break;
    case DispatchKey::CompositeExplicitAutograd:
    case DispatchKey::CompositeExplicitAutogradNonFunctional:
      place = &e.explicit_;
      break;
    case DispatchKey::Undefined:
    case DispatchKey::CatchAll:
    case DispatchKey::CompositeImplicitAutograd:
      place = &e.implicit;
      break;
    default:
      return;  // a kernel for a device or feature that cograd does not have
  }
  if (*place) return refuse(e, "this kernel is registered twice");
  *place = k;
}

class Library {
 public:
  Library(const char* ns, DispatchKey key) : ns_(ns), key_(key) {}
  // Defines an op by its schema, "name(Tensor x) -> Tensor"; its kernels come from impl.
  Library& def(const char* schema) & {
    define(schema);
    return *this;
  }
  Library& def(const char* schema, const std::vector<::at::Tag>&) & { return def(schema); }
  // Defines an op by a name or schema and a function; without a key it is composed of other ops.
  Library& def(const char* name_or_schema, CppFunction f) & {
    Entry& e = define(name_or_schema);
    set_kernel(e, f.key(), f.kernel());
    return *this;
  }
  Library& impl(const char* name, CppFunction f) & {
    set_kernel(entry(name), f.key() == DispatchKey::Undefined ? key_ : f.key(), f.kernel());
    return *this;
  }
  Library& set_python_module(const char*, const char* = "") & { return *this; }
  Library& impl_abstract_pystub(const char*, const char* = "") & { return *this; }
  // Not supported: classes as op arguments, and kernels for all ops.
  template <class T>
  void class_(const std::string&) & = delete;
  template <class F>
  void fallback(F&&) & = delete;

 private:
  // Returns the entry of "other::name.overload", "name.overload" or "name".
  Entry& entry(std::string name) {
    const size_t colons = name.find("::");
    std::string ns = ns_;
    if (colons != std::string::npos) {
      ns = name.substr(0, colons);
      name = name.substr(colons + 2);
    }
    const size_t dot = name.find('.');
    if (dot != std::string::npos) name = joined_name(name.substr(0, dot), name.substr(dot + 1));
    return find_entry(ns, name);
  }
  Entry& define(const std::string& schema) {
    const size_t open = schema.find('(');
    Entry& e = entry(trimmed(schema.substr(0, open)));
    if (e.defined) {
      refuse(e, "m.def defines it twice");
      return e;
    }
    e.defined = true;
    if (open != std::string::npos) {
      e.schema = trimmed(schema.substr(open));
      e.parameters = parse_parameters(e.schema);
    }
    return e;
  }
  const char* ns_;
  DispatchKey key_;
};

inline bool run_block(const char* ns, DispatchKey key, void (*init)(Library&)) {
  Library m(ns, key);
  try {
    init(m);
  } catch (const std::exception& e) {
    Entry failed;
    failed.ns = ns;
    failed.name = "TORCH_LIBRARY";
    refuse(failed, e.what());
  }
  end_block();
  return true;
}

// torch's older way to register ops: torch::RegisterOperators().op("ns::name", &f).
class RegisterOperators {
 public:
  class Options {
   public:
    Options&& schema(const std::string& s) && {
      schema_ = s;
      return std::move(*this);
    }
    template <class Signature, Signature* F>
    Options&& kernel(DispatchKey key) && {
      kernels_.push_back(CppFunction(make_kernel<Signature*>(F), key));
      return std::move(*this);
    }
    template <class F>
    Options&& kernel(DispatchKey key, F&& f) && {
      kernels_.push_back(CppFunction(CppFunction(std::forward<F>(f)).kernel(), key));
      return std::move(*this);
    }
    template <class Signature, Signature* F>
    Options&& catchAllKernel() && {
      return std::move(*this).template kernel<Signature, F>(DispatchKey::CatchAll);
    }
    template <class F>
    Options&& catchAllKernel(F&& f) && {
      return std::move(*this).kernel(DispatchKey::CatchAll, std::forward<F>(f));
    }

   private:
    friend class RegisterOperators;
    std::string schema_;
    std::vector<CppFunction> kernels_;
  };
  static Options options() { return {}; }

  RegisterOperators() = default;
  template <class F>
  RegisterOperators(const std::string& name, F&& f) {  // NOLINT
    add(name, {CppFunction(std::forward<F>(f))});
  }
  template <class F, class = std::enable_if_t<IsCallable<std::decay_t<F>>::value>>
  RegisterOperators&& op(const std::string& name, F&& f) && {
    add(name, {CppFunction(std::forward<F>(f))});
    return std::move(*this);
  }
  RegisterOperators&& op(const std::string& name, Options&& o) && {
    add(name, o.kernels_);
    return std::move(*this);
  }
  RegisterOperators&& op(Options&& o) && {
    add(o.schema_, o.kernels_);
    return std::move(*this);
  }

 private:
  static void add(const std::string& schema, const std::vector<CppFunction>& kernels) {
    const size_t colons = schema.find("::");
    const std::string ns = trimmed(schema.substr(0, colons));
    const std::string rest = colons == std::string::npos ? schema : schema.substr(colons + 2);
    const size_t open = rest.find('(');
    auto& e = *new Entry;
    e.ns = ns;
    e.name = trimmed(rest.substr(0, open));
    if (open != std::string::npos) {
      e.schema = trimmed(rest.substr(open));
      e.parameters = parse_parameters(e.schema);
    }
    for (const CppFunction& f : kernels) set_kernel(e, f.key(), f.kernel());
    register_entry(e);
  }
};

}  // namespace torch_compat
}  // namespace cograd

namespace torch {
using ::cograd::torch_compat::CppFunction;
using ::cograd::torch_compat::Library;
using ::cograd::torch_compat::RegisterOperators;
namespace jit {
using ::cograd::IValue;
using ::cograd::torch_compat::RegisterOperators;
}  // namespace jit
template <class F>
CppFunction dispatch(::c10::DispatchKey key, F&& f) {
  return CppFunction(CppFunction(std::forward<F>(f)).kernel(), key);
}
template <class F>
CppFunction dispatch(::cograd::DeviceType t, F&& f) {
  return CppFunction(CppFunction(std::forward<F>(f)).kernel(), t == ::cograd::DeviceType::CUDA
                                                                   ? ::c10::DispatchKey::CUDA
                                                                   : ::c10::DispatchKey::CPU);
}
}  // namespace torch
namespace c10 {
using ::cograd::torch_compat::RegisterOperators;
}

#define COGRAD_TORCH_BLOCK_(ns, key, m, id)                                      \
  static void COGRAD_CAT(cograd_torch_##ns##_, id)(::torch::Library&);           \
  [[gnu::used, gnu::section("cograd_torch")]] static const char COGRAD_CAT(      \
      cograd_torch_block_##ns##_, id) = 1;                                       \
  [[maybe_unused]] static const bool COGRAD_CAT(cograd_torch_done_##ns##_, id) = \
      ::cograd::torch_compat::run_block(#ns, ::c10::DispatchKey::key,            \
                                        &COGRAD_CAT(cograd_torch_##ns##_, id));  \
  static void COGRAD_CAT(cograd_torch_##ns##_, id)([[maybe_unused]] ::torch::Library & m)
#define TORCH_LIBRARY(ns, m) COGRAD_TORCH_BLOCK_(ns, Undefined, m, 0)
#define TORCH_LIBRARY_FRAGMENT(ns, m) COGRAD_TORCH_BLOCK_(ns, Undefined, m, __COUNTER__)
#define TORCH_LIBRARY_FRAGMENT_THIS_API_IS_FOR_PER_OP_REGISTRATION_ONLY(ns, m) \
  TORCH_LIBRARY_FRAGMENT(ns, m)
#define TORCH_LIBRARY_IMPL(ns, k, m) COGRAD_TORCH_BLOCK_(ns, k, m, COGRAD_CAT(k, __COUNTER__))
#define TORCH_FN(f) (&f)
#define TORCH_SELECTIVE_NAME(n) n
#define TORCH_SELECTIVE_SCHEMA(n) n
