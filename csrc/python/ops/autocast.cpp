// SPDX-License-Identifier: BSD-3-Clause
// Holds the per-thread state of autocast and casts the arguments of ops.
#include "python/ops/autocast.h"

#include <mutex>
#include <unordered_map>

#include "autograd/modes/watch.h"
#include "ops/declare/autocast.h"
#include "python/ops/call.h"
#include "python/runtime/class.h"

namespace cograd::python {

namespace {

// A parameter cast to the lower precision; cached until the outermost autocast block ends.
struct Cached {
  Tensor source;  // kept alive, so that no other tensor gets its address
  uint32_t version;
  Tensor cast;
};

std::mutex count_mutex;
int threads_under_autocast = 0;

struct ThreadAutocast {
  bool enabled = false;
  bool cache = true;
  DType type = DType::BFloat16;
  int depth = 0;
  std::unordered_map<TensorImpl*, Cached> casts;

  void enable(bool on) {
    if (on == enabled) return;
    enabled = on;
    const std::lock_guard lock(count_mutex);
    threads_under_autocast += on ? 1 : -1;
    set_watch(kWatchAutocast, threads_under_autocast > 0);
  }
  ~ThreadAutocast() { enable(false); }
};
thread_local ThreadAutocast here;

DType autocast_type(py::handle dtype) {
  DType type;
  COGRAD_CHECK_TYPE(parse_dtype(dtype.ptr(), &type) && is_differentiable(type) && !is_complex(type),
                    "set_autocast_dtype(): expected a floating dtype, got ",
                    py::cast<std::string>(py::repr(dtype)));
  return type;
}

bool casts(const Tensor& t, DType to) {
  if (!t.defined()) return false;
  const DType from = t.dtype();
  return (is_half(from) || from == DType::Float32) && from != to;
}

// Parameters are cast once for all their uses. A cast made without a gradient must not be reused
// where one is needed, so casts are cached only while recording.
bool cacheable(const Tensor& t, DType to) {
  return here.cache && here.depth > 0 && to == here.type && t.dtype() == DType::Float32 &&
         t->base == nullptr && requires_grad(t) && grad_fn(t.impl()) == nullptr &&
         thread_state.grad_enabled && !thread_state.inference && thread_state.vmaps == 0 &&
         (t->flags & (kDual | kBatched)) == 0;
}

Tensor cast_to(const Tensor& t, DType to) {
  static const OpRecord* const cast = find_op("_cast");
  Value type;
  type.set_dtype(to);
  if (!cacheable(t, to)) return call_op(cast, {tensor_value(t), type});
  const auto known = here.casts.find(t.impl());
  if (known != here.casts.end() && known->second.version == t->write_count() &&
      known->second.cast.dtype() == to)
    return known->second.cast;
  Tensor made = call_op(cast, {tensor_value(t), type});
  // Destroy the old entry last: destroying its nodes may run code that changes the cache.
  const auto dropped = std::exchange(here.casts[t.impl()], {t, t->write_count(), made});
  return made;
}

// Implements __enter__ of the autocast manager, in C++ for the same reason as the grad modes
// (python/autograd/grad_modes.cpp). Pushes the previous state, which __exit__ restores, on the
// manager's list.
py::object enter_autocast(const py::object& manager) {
  auto before = py::cast<py::list>(manager.attr("_before"));
  const bool cpu = py::cast<std::string>(manager.attr("device")) == "cpu";
  const bool on = py::cast<bool>(manager.attr("_enabled"));
  const py::object cache = manager.attr("_cache");
  const bool keep = cache.is_none() ? here.cache : py::cast<bool>(cache);
  const DType type = cpu && on ? autocast_type(manager.attr("fast_dtype")) : here.type;
  before.append(py::make_tuple(
      here.enabled, py::reinterpret_borrow<py::object>(dtype_object(here.type)), here.cache));
  ++here.depth;
  if (cpu) here.enable(on);
  here.type = type;
  here.cache = keep;
  return manager;
}

void exit_autocast(const py::object& manager) {
  const auto before = py::cast<py::tuple>(take_before(manager));
  here.enable(py::cast<bool>(before[0]));
  here.type = autocast_type(before[1]);
  here.cache = py::cast<bool>(before[2]);
  if (--here.depth == 0) const auto dropped = std::exchange(here.casts, {});
}

}  // namespace

const Value* AutocastArguments::of(const OpRecord& r, const Value* given) {
  if (!here.enabled || (r.spec.flags & (kAutocastLow | kAutocastWide)) == 0) return given;
  const DType to = (r.spec.flags & kAutocastLow) != 0 ? here.type : DType::Float32;
  const size_t n = r.args.size();
  values_.assign(given, given + n);
  made_.reserve(n);
  lists_.reserve(n);
  for (Value& v : values_) {
    if (v.has_tensor() && casts(v.tensor(), to)) {
      made_.push_back(cast_to(v.tensor(), to));
      v.set_tensor(made_.back().impl());
    } else if (v.kind == COGRAD_TENSORS) {
      const TensorList list = v.tensors();
      auto& copies = lists_.emplace_back(list.begin(), list.end());
      for (Tensor& t : copies)
        if (casts(t, to)) t = cast_to(t, to);
      v.u.list = copies.data();
    }
  }
  return values_.data();
}

void init_autocast(py::module_& m) {
  m.def("_autocast_enabled", [] { return here.enabled; });
  m.def("_set_autocast_enabled", [](bool on) { here.enable(on); });
  m.def("_autocast_dtype",
        [] { return py::reinterpret_borrow<py::object>(dtype_object(here.type)); });
  m.def("_set_autocast_dtype", [](py::handle dtype) { here.type = autocast_type(dtype); });
  m.attr("_enter_autocast") = enter_method(&enter_autocast);
  m.attr("_exit_autocast") = exit_method(&exit_autocast);
  m.def(
      "_autocast_wide",
      [](const py::args& given) {
        py::tuple out(given.size());
        for (size_t i = 0; i < given.size(); ++i) {
          PyObject* o = given[i].ptr();
          const bool wide = here.enabled && is_tensor(o) && casts(unwrap(o), DType::Float32);
          out[i] = wide ? py::cast(cast_to(unwrap(o), DType::Float32)) : py::object(given[i]);
        }
        return out;
      },
      "Under autocast, casts floating tensors below float64 to float32; returns others unchanged.");
  m.def("_autocast_cache_enabled", [] { return here.cache; });
  m.def("_set_autocast_cache_enabled", [](bool on) { here.cache = on; });
  m.def("_autocast_nest", [](int by) { return here.depth += by; });
  m.def("_clear_autocast_cache", [] {
    const auto dropped = std::exchange(here.casts, {});  // their nodes may run code when destroyed
  });
}

}  // namespace cograd::python
