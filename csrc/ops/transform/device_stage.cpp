// SPDX-License-Identifier: BSD-3-Clause
// Finds the device of a call, moves its scalars and indices there, and copies between devices.
#include "ops/declare/device_stage.h"

#include "ops/compute/elementwise.h"
#include "ops/compute/strides.h"
#include "ops/declare/op.h"
#include "ops/declare/options.h"
#include "ops/declare/stages.h"
#include "ops/declare/start_copy.h"
#include "tensor/backend.h"

namespace cograd {

namespace {

// True if `t`, an argument of parameter i, goes to the device of the call's other tensors.
bool follows(const OpRecord& r, const Tensor& t, size_t i) {
  if (t->device != kHost) return false;
  return t.dim() == 0 ||
         (r.traits.host_indices && i < r.args.size() && r.args[i].kind == ArgKind::Tensors);
}

// Returns the device that the call names; none if it leaves the choice to its tensors.
std::optional<Device> asked_device(const OpRecord& r, const Value* args) {
  if ((r.spec.flags & kKindMask) == kCast) return {};
  for (size_t i = 0; i < r.args.size(); ++i)
    if (r.args[i].kind == ArgKind::Device && args[i].kind == COGRAD_DEVICE) return args[i].device();
  return {};
}

// Returns the name of parameter i, also for a record that is not in the table.
std::string parameter_name(const OpRecord& r, size_t i) {
  if (!r.args[i].name.empty()) return r.args[i].name;
  std::string_view text = r.spec.args;
  for (size_t at = 0;; ++at) {
    std::string_view one = text.substr(0, text.find(", "));
    text.remove_prefix(std::min(text.size(), one.size() + 2));
    if (one == "*") one = text.substr(0, text.find(", "));
    if (at == i || text.empty()) return std::string(one.substr(0, one.find('=')));
  }
}

[[noreturn, gnu::cold]] void fail_devices(const OpRecord& r, Device a, size_t first, Device b,
                                          size_t second) {
  const auto name = [&](size_t i) {
    return i < r.args.size() ? "argument '" + parameter_name(r, i) + "'" : std::string("out=");
  };
  detail::fail(ErrorKind::Runtime,
               "Expected all tensors to be on the same device, but found at least two devices, ",
               to_string(a), " and ", to_string(b), "! ", r.spec.name, "(): ", name(first),
               " is on ", to_string(a), ", ", name(second), " on ", to_string(b),
               "; move one of them by .to(device)");
}

}  // namespace

bool device_stage(const StagedCall& call) {
  const TensorList targets(call.form.target, call.form.form == Form::Out ? 1 : 0);
  const DeviceStage stage(call.record, call.args, targets);
  if (!stage.needed()) return false;
  if (call.form.form == Form::InPlace)
    COGRAD_CHECK((*call.form.target)->device == stage.device(),
                 "Expected all tensors to be on the same device, but found at least two devices, ",
                 to_string((*call.form.target)->device), " and ", to_string(stage.device()), "! ",
                 call.record.spec.name, "_(): the tensor is on ",
                 to_string((*call.form.target)->device), ", its arguments are on ",
                 to_string(stage.device()));
  const PlaceGuard here(stage.device());
  CallForm form = call.form;
  if (!form.values.empty()) form.values = {stage.args(), call.record.args.size()};
  run_stages(call.record, form, stage.args(), call.out);
  return true;
}

Device device_of_call(const OpRecord& r, const Value* args, TensorList targets) {
  if (const auto asked = asked_device(r, args)) return *asked;
  std::optional<Device> found;
  size_t first = 0;
  bool scalars = false;
  const auto look = [&](const Tensor& t, size_t i) {
    if (follows(r, t, i)) {
      scalars = true;
    } else if (!found) {
      found = t->device;
      first = i;
    } else if (*found != t->device) {
      fail_devices(r, *found, first, t->device, i);
    }
  };
  if (!r.traits.mixes_devices)
    each_tensor(r, args, [&](size_t i, const Tensor& t) { look(t, i); });
  else if (args[0].has_tensor())
    look(args[0].tensor(), 0);
  for (const Tensor& t : targets) look(t, r.args.size());
  return found ? *found : scalars ? kHost : thread_place.now;
}

DeviceStage::DeviceStage(const OpRecord& r, const Value* args, TensorList targets)
    : device_(device_of_call(r, args, targets)), args_(r, args) {
  if (device_ == kHost || r.traits.mixes_devices || asked_device(r, args)) return;
  // Other lists than those of indices may be written, as an optimizer's steps are.
  const auto moves = [&](size_t i, const Tensor& t) {
    return follows(r, t, i) && (r.traits.host_indices || args[i].kind != COGRAD_TENSORS);
  };
  each_tensor(r, args, [&](size_t i, const Tensor& t) { moved_ |= moves(i, t); });
  if (!moved_) return;
  args_.map([&](size_t i, const Tensor& t) { return moves(i, t) ? to_device(t, device_) : t; });
}

namespace {

bool has_gaps(const Tensor& x) {
  const Tensor* const one[1] = {&x};
  const Dims dense = result_strides(x.sizes(), one);
  return dense.empty() ? (x->flags & kContiguous) == 0 : !same(dense, x.strides());
}

bool started(Device d, const void* from, void* to, size_t bytes) {
  Backend* const b = backend_of(d.type);
  return b != nullptr && b->start_copy_from_host(d, from, to, bytes);
}

// Copies x to `out`, whose elements are dense in memory, where one of them is on a device whose
// kernels cannot access the other's memory.
void copy_across(const Tensor& out, const Tensor& x, bool non_blocking) {
  if (x.numel() == 0) return;
  Tensor from = x;
  if (!same(x.strides(), out.strides())) {
    const PlaceGuard at(x->device);
    from = empty_like_format("_to_device", x, x.dtype(), {});
    raw_copy(from, x);
  }
  const auto bytes = static_cast<size_t>(x.numel() * x.itemsize());
  const Device d = out->device;
  if (d == kHost)
    copy_to_host(x->device, from.bytes(), out.bytes(), bytes);
  else if (x->device == kHost && non_blocking && started(d, from.bytes(), out.bytes(), bytes))
    return;
  else if (x->device == kHost)
    copy_from_host(d, from.bytes(), out.bytes(), bytes);
  else if (Backend* b = backend_of(d.type); b != nullptr && x->device.type == d.type)
    b->copy_between(x->device, from.bytes(), d, out.bytes(), bytes);
  else
    detail::fail(ErrorKind::NotImplemented, "Tensor.to(): there is no copy from ",
                 to_string(x->device), " to ", to_string(d), "; copy to the CPU first");
}

struct DeviceCopy {
  struct State {
    Device from = kHost;
  };
  static constexpr OpSpec spec{"_to_device", "input, device, non_blocking=False", kInternal | kCast,
                               "A copy of the tensor on a device.",
                               "none: needs a device besides the CPU"};
  static constexpr BatchRule kBatch = pointwise();
  static Tensor forward(Ctx<DeviceCopy>& ctx, const Tensor& x, Device d, bool non_blocking) {
    COGRAD_CHECK_NOT_IMPLEMENTED(x->device.type != DeviceType::Meta,
                                 "Cannot copy out of meta tensor; no data! A module is moved off "
                                 "the meta device by to_empty(device=...), and then filled.");
    ctx->from = x->device;
    Tensor out;
    {
      const PlaceGuard to(d);
      out = empty_like_format("_to_device", x, x.dtype(), {});
    }
    out->flags |= x->flags & kWrappedNumber;
    if (d.type == DeviceType::Meta) return out;
    if (backend_of(d.type) != nullptr || backend_of(x->device.type) != nullptr) {
      copy_across(out, x, non_blocking);
      return out;
    }
    const PlaceGuard at(d == kHost ? x->device : d);  // copies are kernels of the device
    raw_copy(out, x);
    return out;
  }
  static void backward(Ctx<DeviceCopy>& ctx, const Tensor& g) {
    ctx.grad(0) = to_device(g, ctx->from);
  }
};
COGRAD_OP(DeviceCopy)

}  // namespace

bool start_copy_to(const Tensor& out, const Tensor& x) {
  Backend* const b = backend_of(x->device.type);
  if (b == nullptr || out.numel() == 0 || !b->is_pinned(out.bytes()) || has_gaps(out)) return false;
  Tensor from = x;
  const bool as_it_is =
      x.dtype() == out.dtype() && same(x.sizes(), out.sizes()) && same(x.strides(), out.strides());
  if (!as_it_is) {
    const PlaceGuard at(x->device);
    from = empty_with_strides(out.sizes(), out.strides(), out.dtype());
    raw_copy(from, x);
  }
  return b->start_copy_to_host(x->device, from.bytes(), out.bytes(),
                               static_cast<size_t>(out.numel() * out.itemsize()));
}

Tensor to_device(const Tensor& x, Device d) { return to_device(x, d, false); }
Tensor to_device(const Tensor& x, Device d, bool non_blocking) {
  return x->device == d ? x : apply<DeviceCopy>(x, d, non_blocking);
}

}  // namespace cograd
