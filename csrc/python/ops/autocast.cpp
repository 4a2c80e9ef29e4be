// SPDX-License-Identifier: BSD-3-Clause
// Holds the per-thread state of autocast and casts the arguments of ops.
#include "python/ops/autocast.h"

#include <mutex>
#include <optional>
#include <unordered_map>

#include <pybind11/stl.h>

#include "autograd/modes/watch.h"
#include "ops/declare/autocast.h"
#include "ops/declare/stages.h"
#include "python/ops/call.h"
#include "python/runtime/class.h"
#include "tensor/thread_locals.h"

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

// The state of one kind of device.
struct KindAutocast {
  bool enabled = false;
  DType type = DType::BFloat16;

  void enable(bool on) {
    if (on == enabled) return;
    enabled = on;
    const std::lock_guard lock(count_mutex);
    threads_under_autocast += on ? 1 : -1;
    set_watch(kWatchAutocast, threads_under_autocast > 0);
  }
  ~KindAutocast() { enable(false); }
};

struct ThreadAutocast {
  KindAutocast cpu, cuda{false, DType::Float16};
  bool cache = true;
  int depth = 0;
  std::unordered_map<TensorImpl*, Cached> casts;

  KindAutocast& of(const Tensor& t) { return t->device.type == DeviceType::CUDA ? cuda : cpu; }
  KindAutocast& of(bool gpu) { return gpu ? cuda : cpu; }
};
constinit thread_local ThreadValue<ThreadAutocast> own_autocast;
ThreadAutocast& here() noexcept { return own_autocast.get(); }
const OnEachThread free_casts(nullptr, []() noexcept { own_autocast.clear(); });

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
  return here().cache && here().depth > 0 && to == here().of(t).type &&
         t.dtype() == DType::Float32 && t->base == nullptr && requires_grad(t) &&
         grad_fn(t.impl()) == nullptr && thread_state.grad_enabled && !thread_state.inference &&
         thread_state.vmaps == 0 && (t->flags & (kDual | kBatched)) == 0;
}

Tensor cast_to(const Tensor& t, DType to) {
  static const OpRecord* const cast = find_op("_cast");
  Value type;
  type.set_dtype(to);
  if (!cacheable(t, to)) return call_op(cast, {tensor_value(t), type});
  const auto known = here().casts.find(t.impl());
  if (known != here().casts.end() && known->second.version == t->write_count() &&
      known->second.cast.dtype() == to)
    return known->second.cast;
  Tensor made = call_op(cast, {tensor_value(t), type});
  // Destroy the old entry last: destroying its nodes may run code that changes the cache.
  const auto dropped = std::exchange(here().casts[t.impl()], {t, t->write_count(), made});
  return made;
}

// Implements __enter__ of the autocast manager, in C++ for the same reason as the grad modes
// (python/autograd/grad_modes.cpp). Pushes the previous state, which __exit__ restores, on the
// manager's list.
py::object enter_autocast(const py::object& manager) {
  auto before = py::cast<py::list>(manager.attr("_before"));
  const auto device = py::cast<std::string>(manager.attr("device"));
  const bool known = device == "cpu" || device == "cuda";
  KindAutocast& kind = here().of(device == "cuda");
  const bool on = py::cast<bool>(manager.attr("_enabled"));
  const py::object cache = manager.attr("_cache");
  const bool keep = cache.is_none() ? here().cache : py::cast<bool>(cache);
  const DType type = known && on ? autocast_type(manager.attr("fast_dtype")) : kind.type;
  before.append(py::make_tuple(
      kind.enabled, py::reinterpret_borrow<py::object>(dtype_object(kind.type)), here().cache));
  ++here().depth;
  if (known) kind.enable(on);
  kind.type = type;
  here().cache = keep;
  return manager;
}

void exit_autocast(const py::object& manager) {
  const auto before = py::cast<py::tuple>(take_before(manager));
  KindAutocast& kind = here().of(py::cast<std::string>(manager.attr("device")) == "cuda");
  kind.enable(py::cast<bool>(before[0]));
  kind.type = autocast_type(before[1]);
  here().cache = py::cast<bool>(before[2]);
  if (--here().depth == 0) const auto dropped = std::exchange(here().casts, {});
}

// The ops that torch computes in float32 on GPUs but not on the CPU.
constexpr std::string_view kWideOnGpu =
    " acos asin binary_cross_entropy_with_logits cosh cosine_embedding_loss cosine_similarity "
    "cumprod cumsum dist erfinv exp expm1 group_norm hinge_embedding_loss huber_loss kl_div "
    "l1_loss "
    "layer_norm log log10 log1p log2 log_softmax logsumexp margin_ranking_loss mse_loss "
    "multi_margin_loss multilabel_margin_loss nll_loss norm linalg_vector_norm linalg_matrix_norm "
    "nuclear_norm pdist poisson_nll_loss pow prod reciprocal renorm rms_norm rsqrt sinh "
    "smooth_l1_loss soft_margin_loss softmax softmin softplus sum tan triplet_margin_loss ";
// The ops that it computes in the widest dtype of their tensors.
constexpr std::string_view kWidestOnGpu =
    " addcdiv addcmul atan2 bilinear cross dot grid_sample index_put scatter_add tensordot vdot ";
constexpr OpFlags kWidest = 1;  // not a flag of a declaration

OpFlags gpu_treatment(const OpRecord& r) {
  static auto* const known = new std::unordered_map<const OpRecord*, OpFlags>;
  const auto [it, is_new] = known->try_emplace(&r, r.spec.flags & (kAutocastLow | kAutocastWide));
  if (!is_new || it->second == kAutocastLow) return it->second;
  std::string_view name = r.spec.name;
  if (name.starts_with('_')) name.remove_prefix(1);
  const std::string word = detail::concat(' ', name, ' ');
  if (kWideOnGpu.find(word) != std::string_view::npos) it->second = kAutocastWide;
  if (kWidestOnGpu.find(word) != std::string_view::npos) it->second = kWidest;
  return it->second;
}

bool names_a_dtype(const OpRecord& r, const Value* given) {
  for (size_t i = 0; i < r.args.size(); ++i)
    if (r.args[i].kind == ArgKind::DType && !given[i].none()) return true;
  return false;
}

// Returns the dtype to which a call casts tensors of a kind of device; none if it does not.
std::optional<DType> target(const OpRecord& r, const Value* given, bool gpu) {
  const KindAutocast& kind = here().of(gpu);
  if (!kind.enabled) return {};
  const OpFlags how = gpu ? gpu_treatment(r) : r.spec.flags & (kAutocastLow | kAutocastWide);
  if ((how & kAutocastLow) != 0) return kind.type;
  if ((how & kAutocastWide) != 0 && !(gpu && names_a_dtype(r, given))) return DType::Float32;
  if (!gpu || how != kWidest) return {};
  bool wide = false;
  each_tensor(r, given, [&](size_t, const Tensor& t) { wide |= t.dtype() == DType::Float32; });
  return wide ? std::optional(DType::Float32) : std::nullopt;
}

}  // namespace

const Value* AutocastArguments::of(const OpRecord& r, const Value* given) {
  const std::optional<DType> to[] = {target(r, given, false), target(r, given, true)};
  if (!to[0] && !to[1]) return given;
  const auto goal = [&to](const Tensor& t) -> std::optional<DType> {
    if (!t.defined()) return {};
    const auto type = to[t->device.type == DeviceType::CUDA ? 1 : 0];
    return type && casts(t, *type) ? type : std::nullopt;
  };
  const size_t n = r.args.size();
  values_.assign(given, given + n);
  made_.reserve(n);
  lists_.reserve(n);
  for (Value& v : values_) {
    if (v.has_tensor() && goal(v.tensor())) {
      made_.push_back(cast_to(v.tensor(), *goal(v.tensor())));
      v.set_tensor(made_.back().impl());
    } else if (v.kind == COGRAD_TENSORS) {
      const TensorList list = v.tensors();
      auto& copies = lists_.emplace_back(list.begin(), list.end());
      for (Tensor& t : copies)
        if (const auto type = goal(t)) t = cast_to(t, *type);
      v.u.list = copies.data();
    }
  }
  return values_.data();
}

void init_autocast(py::module_& m) {
  m.def(
      "_autocast_enabled",
      [](std::optional<bool> gpu) {
        return gpu ? here().of(*gpu).enabled : here().cpu.enabled || here().cuda.enabled;
      },
      py::arg("gpu") = py::none(), "On the CPU or on GPUs; None: on either.");
  m.def(
      "_set_autocast_enabled", [](bool on, bool gpu) { here().of(gpu).enable(on); }, py::arg("on"),
      py::arg("gpu"));
  m.def(
      "_autocast_dtype",
      [](bool gpu) {
        return py::reinterpret_borrow<py::object>(dtype_object(here().of(gpu).type));
      },
      py::arg("gpu") = false);
  m.def(
      "_set_autocast_dtype",
      [](py::handle dtype, bool gpu) { here().of(gpu).type = autocast_type(dtype); },
      py::arg("dtype"), py::arg("gpu"));
  m.attr("_enter_autocast") = enter_method(&enter_autocast);
  m.attr("_exit_autocast") = exit_method(&exit_autocast);
  m.def(
      "_autocast_wide",
      [](const py::args& given) {
        py::tuple out(given.size());
        for (size_t i = 0; i < given.size(); ++i) {
          PyObject* o = given[i].ptr();
          const bool wide =
              is_tensor(o) && here().of(unwrap(o)).enabled && casts(unwrap(o), DType::Float32);
          out[i] = wide ? py::cast(cast_to(unwrap(o), DType::Float32)) : py::object(given[i]);
        }
        return out;
      },
      "Under autocast, casts floating tensors below float64 to float32; returns others unchanged.");
  m.def("_autocast_cache_enabled", [] { return here().cache; });
  m.def("_set_autocast_cache_enabled", [](bool on) { here().cache = on; });
  m.def("_autocast_nest", [](int by) { return here().depth += by; });
  m.def("_clear_autocast_cache", [] {
    const auto dropped =
        std::exchange(here().casts, {});  // their nodes may run code when destroyed
  });
}

}  // namespace cograd::python
