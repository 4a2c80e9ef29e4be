// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/libraries/onednn_plan.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "cograd/error.h"

namespace cograd::kernels::onednn {
namespace {

constexpr int kMissing = 3;  // status: not implemented
constexpr int kWrong = 2;    // status: sizes that the library does not support
constexpr size_t kMostPlans = 256;

using Sizes = std::vector<int64_t>;

// Returns the first dim that is passed to the library: one-dimensional images have one row.
int first_dim(const ConvShape& s) { return s.in[0] == 1 && s.kernel[0] == 1 && s.out[0] == 1; }

Sizes spatial(const ConvShape& s, const int64_t (&values)[3], int64_t plus = 0) {
  Sizes out;
  for (int d = first_dim(s); d < 3; ++d) out.push_back(values[d] + plus);
  return out;
}

// Sizes and strides of the array of an image or of the weights.
struct Form {
  Sizes sizes, strides;
};
Form form(const ConvShape& s, Sizes outer, Sizes outer_strides, const int64_t (&inner)[3]) {
  Form f{std::move(outer), std::move(outer_strides)};
  int64_t step = inner[0] * inner[1] * inner[2];
  for (int d = first_dim(s); d < 3; ++d) {
    step = d == 0 ? inner[1] * inner[2] : d == 1 ? inner[2] : 1;
    f.sizes.push_back(inner[d]);
    f.strides.push_back(step);
  }
  return f;
}

Layout plain(const Form& f) {
  Layout l;
  check(api().layout_with_strides(&l.object, static_cast<int>(f.sizes.size()), f.sizes.data(),
                                  kFloat32, f.strides.data()),
        "a layout");
  return l;
}
Layout any(const Form& f) {
  Layout l;
  check(api().layout_with_tag(&l.object, static_cast<int>(f.sizes.size()), f.sizes.data(), kFloat32,
                              kAnyLayout),
        "a layout");
  return l;
}

struct Forms {
  Form x, w, y, bias;
  explicit Forms(const Piece& p) {
    const ConvShape& s = p.shape;
    x = form(s, {s.batch, s.groups * s.in_channels}, {p.x_step, s.in_size()}, s.in);
    y = form(s, {s.batch, s.groups * s.out_channels}, {p.y_step, s.out_size()}, s.out);
    const int64_t taps = s.taps();
    w = s.groups == 1 ? form(s, {s.out_channels, s.in_channels}, {p.w_step, taps}, s.kernel)
                      : form(s, {s.groups, s.out_channels, s.in_channels},
                             {s.out_channels * p.w_step, p.w_step, taps}, s.kernel);
    bias = {{s.groups * s.out_channels}, {1}};
  }
};

void make_reorder(Object from, Object to, Primitive& primitive) {
  if (api().layout_equal(from, to) != 0) return;
  Description d;
  check(api().reorder(&d.object, from, api().engine, to, api().engine, nullptr),
        "a change of layout");
  check(api().primitive_create(&primitive.object, d.object), "a change of layout");
}

void make_array(Array& a, int name, const Form& f, const Description& d, int what, bool result) {
  a.name = name;
  a.plain = plain(f);
  a.wanted = api().desc_layout(d.object, what, 0);
  COGRAD_CHECK(a.wanted != nullptr, "oneDNN does not report the layout of a convolution's array");
  a.bytes = api().layout_bytes(a.wanted);
  make_reorder(result ? a.wanted : a.plain.object, result ? a.plain.object : a.wanted, a.reorder);
}

// Returns null if the library has no implementation.
Description describe(const Piece& p, const Forms& forms, const Layout& bias) {
  const ConvShape& s = p.shape;
  const Layout x = any(forms.x), w = any(forms.w), y = any(forms.y);
  const Sizes strides = spatial(s, s.stride), dilations = spatial(s, s.dilation, -1);
  const Sizes padding = spatial(s, s.padding);
  const Api& a = api();
  const auto made = [](int status) {
    if (status == kMissing || status == kWrong) return false;
    check(status, "a convolution");
    return true;
  };
  Description forward, d;
  if (!made(a.forward(&forward.object, a.engine, kForward, kDirect, x.object, w.object, bias.object,
                      y.object, strides.data(), dilations.data(), padding.data(), padding.data(),
                      a.attr)))
    return {};
  if (p.kind == Kind::forward) return forward;
  const bool found =
      p.kind == Kind::input_grad
          ? made(a.source_grad(&d.object, a.engine, kDirect, x.object, w.object, y.object,
                               strides.data(), dilations.data(), padding.data(), padding.data(),
                               forward.object, a.attr))
          : made(a.weights_grad(&d.object, a.engine, kDirect, x.object, w.object, nullptr, y.object,
                                strides.data(), dilations.data(), padding.data(), padding.data(),
                                forward.object, a.attr));
  return found ? std::move(d) : Description{};
}

std::shared_ptr<const Plan> make_plan(const Piece& p) {
  const OneThread one;
  const Forms forms(p);
  auto plan = std::make_shared<Plan>();
  if (p.bias) plan->bias = plain(forms.bias);
  plan->description = describe(p, forms, plan->bias);
  const Description& d = plan->description;
  if (d.object == nullptr) return nullptr;
  check(api().primitive_create(&plan->primitive.object, d.object), "a convolution");
  switch (p.kind) {
    case Kind::forward:
      make_array(plan->first, kSource, forms.x, d, kAskSource, false);
      make_array(plan->second, kWeights, forms.w, d, kAskWeights, false);
      make_array(plan->result, kOutput, forms.y, d, kAskOutput, true);
      break;
    case Kind::input_grad:
      make_array(plan->first, kOutputGrad, forms.y, d, kAskOutputGrad, false);
      make_array(plan->second, kWeights, forms.w, d, kAskWeights, false);
      make_array(plan->result, kSourceGrad, forms.x, d, kAskSourceGrad, true);
      break;
    case Kind::weight_grad:
      make_array(plan->first, kSource, forms.x, d, kAskSource, false);
      make_array(plan->second, kOutputGrad, forms.y, d, kAskOutputGrad, false);
      make_array(plan->result, kWeightsGrad, forms.w, d, kAskWeightsGrad, true);
      break;
  }
  plan->scratch = api().desc_layout(d.object, kAskScratch, 0);
  plan->scratch_bytes = plan->scratch == nullptr ? 0 : api().layout_bytes(plan->scratch);
  return plan;
}

using Key = std::array<int64_t, 29>;
Key key_of(const Piece& p) {
  const ConvShape& s = p.shape;
  Key key{static_cast<int64_t>(p.kind),
          p.bias,
          p.x_step,
          p.y_step,
          p.w_step,
          s.batch,
          s.groups,
          s.in_channels,
          s.out_channels};
  auto to = key.begin() + 9;
  for (const auto* values : {&s.in, &s.out, &s.kernel, &s.stride, &s.padding, &s.dilation})
    to = std::copy(std::begin(*values), std::end(*values), to);
  return key;
}

// Held while plans are made, so that no fork happens meanwhile.
std::mutex plans_mutex;

std::map<Key, std::shared_ptr<const Plan>>& plans() {
  static auto* made = [] {
    pthread_atfork([] { plans_mutex.lock(); }, [] { plans_mutex.unlock(); },
                   [] { plans_mutex.unlock(); });
    return new std::map<Key, std::shared_ptr<const Plan>>;
  }();
  return *made;
}

Memory memory(Object layout, const void* data) {
  Memory m;
  check(api().memory_create(&m.object, layout, api().engine, const_cast<void*>(data)), "memory");
  return m;
}

}  // namespace

std::shared_ptr<const Plan> plan_of(const Piece& piece) {
  auto& made = plans();
  const Key key = key_of(piece);
  const std::lock_guard lock(plans_mutex);
  const auto found = made.find(key);
  if (found != made.end()) return found->second;
  if (made.size() >= kMostPlans) made.clear();
  return made[key] = make_plan(piece);
}

Runner::Runner() {
  check(api().stream_create(&stream_.object, api().engine, kInOrder), "a stream");
}

void Runner::execute(Object primitive, const Argument* arguments, int count) {
  check(api().primitive_execute(primitive, stream_.object, count, arguments), "a convolution");
}

const void* Runner::convert(const Array& array, const void* data, Buffer& buffer) {
  if (array.reorder.object == nullptr) return data;
  void* to = buffer.get(array.bytes);
  const Memory a = memory(array.plain.object, data), b = memory(array.wanted, to);
  const Argument arguments[] = {{kSource, a.object}, {kOutput, b.object}};
  execute(array.reorder.object, arguments, 2);
  return to;
}

void Runner::run(const Plan& plan, const void* first, const void* second, const void* bias,
                 void* result) {
  first = convert(plan.first, first, first_);
  const bool converts = plan.result.reorder.object != nullptr;
  void* to = converts ? result_.get(plan.result.bytes) : result;
  const Memory a = memory(plan.first.wanted, first), b = memory(plan.second.wanted, second);
  const Memory c = memory(plan.result.wanted, to);
  Memory added, scratch;
  Argument arguments[5] = {
      {plan.first.name, a.object}, {plan.second.name, b.object}, {plan.result.name, c.object}};
  int count = 3;
  if (plan.scratch_bytes > 0) {
    scratch = memory(plan.scratch, scratch_.get(plan.scratch_bytes));
    arguments[count++] = {kScratch, scratch.object};
  }
  if (bias != nullptr) {
    added = memory(plan.bias.object, bias);
    arguments[count++] = {kBias, added.object};
  }
  execute(plan.primitive.object, arguments, count);
  if (!converts) return;
  const Memory d = memory(plan.result.plain.object, result);
  const Argument back[] = {{kSource, c.object}, {kOutput, d.object}};
  execute(plan.result.reorder.object, back, 2);
}

}  // namespace cograd::kernels::onednn
