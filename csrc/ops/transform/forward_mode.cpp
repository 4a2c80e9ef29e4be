// SPDX-License-Identifier: BSD-3-Clause
// Forward mode, by the rule that an op declares: linear, multilinear, gradients applied to
// tangents, or the derivative of its backward.
#include "ops/transform/forward_mode.h"

#include <algorithm>
#include <utility>

#include "ops/declare/ops.h"

namespace cograd {

namespace {

using Rule = TangentRule::Rule;

struct Values {
  static constexpr OpSpec spec{"_values",
                               "input",
                               kInternal | kOther | kAlias,
                               "The same memory, but not a view for autograd.",
                               "T(3, 4)",
                               "input"};
  static constexpr const char* kNodeName = "AliasBackward0";
  static constexpr DTypeSet kDTypes = kEveryType;
  static constexpr bool kHolomorphic = false;  // nothing to conjugate
  static constexpr TangentRule kTangent = linear({0});
  static constexpr BatchRule kBatch = pointwise();
  static Tensor forward(Ctx<Values>&, const Tensor& x) {
    return alias_strided(x, x.sizes(), x.strides(), x.bytes());
  }
  static Tensor backward(Ctx<Values>&, const Tensor& g) { return g; }
};
COGRAD_OP(Values)

// One call: its tensors in the order of the node's edges, and their tangents at one level.
class TangentCall {
 public:
  TangentCall(const OpRecord& r, const CallForm& form, const Value* args,
              const std::shared_ptr<TangentLevel>& level)
      : r_(r), form_(form), args_(args), level_(level) {
    each([&](size_t, size_t, const Tensor* t) {
      Tensor tangent;
      if (t != nullptr && t->defined() && is_differentiable(t->dtype()) && transformed(*t))
        tangent = tangent_of(*t, level->id());
      tangents_.push_back(std::move(tangent));
    });
  }
  void run(Result& out);

 private:
  // Calls f(parameter, edge, tensor or null) for each tensor argument.
  template <class F>
  void each(F&& f) const {
    size_t edge = 0;
    for (size_t i = 0; i < r_.args.size(); ++i) {
      const ArgKind k = r_.args[i].kind;
      if (k == ArgKind::Tensor || k == ArgKind::TensorOrScalar)
        f(i, edge++, args_[i].has_tensor() ? &args_[i].tensor() : nullptr);
      else if (k == ArgKind::Tensors)
        for (const Tensor& t : args_[i].tensors()) f(i, edge++, &t);
    }
  }
  bool concerns(size_t parameter) const {
    bool any = false;
    each([&](size_t p, size_t edge, const Tensor*) {
      any |= p == parameter && tangents_[edge].defined();
    });
    return any;
  }
  void by_replacing(uint32_t parameters, uint32_t left_out, Result& tangent) const;
  bool fits_opaque() const;
  void linear(Result& out) const;
  void multilinear(Result& out) const;
  void by_node(Result& out) const;
  std::vector<Tensor> from_node(Node& node, std::span<const Tensor> outputs, bool record) const;
  std::vector<Tensor> gradients_of_tangents(Node& node, const Tensor& out, bool record) const;
  static void keep_tangents_of_outputs(Node& node, std::span<const Tensor> outputs);
  void put(const Tensor& out, Tensor tangent) const;
  void put_all(Result& out, Result& tangent) const;

  const OpRecord& r_;
  const CallForm& form_;
  const Value* args_;
  const std::shared_ptr<TangentLevel>& level_;
  SmallVec<Tensor, 4> tangents_;  // by edge
};

std::span<Tensor> tensors_of(Result& r) {
  if (r.kind == Result::Kind::Tensor) return {&r.tensor, 1};
  return r.tensors;
}

// Runs the op with the given parameters replaced by their tangents, or by zeros if they have none.
void TangentCall::by_replacing(uint32_t parameters, uint32_t left_out, Result& tangent) const {
  ChangedArguments own(r_, args_);
  for (size_t i = 0; i < r_.args.size(); ++i)
    if ((left_out >> i & 1) != 0) own[i] = Value();
  std::vector<Tensor> list;
  each([&](size_t p, size_t edge, const Tensor* t) {
    if ((parameters >> p & 1) == 0 || t == nullptr) return;
    const bool in_list = r_.args[p].kind == ArgKind::Tensors;
    if (t->defined()) {
      Tensor value = tangents_[edge].defined() ? tangents_[edge] : zeros_like(*t);
      if (!in_list) return own.set(p, std::move(value));
      list.push_back(std::move(value));
    }
    if (in_list && t == &args_[p].tensors().back() && !list.empty())
      own.set(p, std::exchange(list, {}));
  });
  own.call(tangent);
}

// False if the call names places in memory, or an opaque argument may, that the tangents do not
// have: their strides differ.
bool TangentCall::fits_opaque() const {
  const bool places = (r_.spec.flags & kReadsBytes) != 0;
  bool opaque = places, same_strides = true;
  for (const ArgInfo& a : r_.args) opaque |= a.kind == ArgKind::Opaque;
  each([&](size_t, size_t edge, const Tensor* t) {
    const Tensor& own = tangents_[edge];
    if (own.defined())
      same_strides &= same(own.strides(), t->strides()) && same(own.sizes(), t->sizes()) &&
                      (!places || own.storage_offset() == t->storage_offset());
  });
  return !opaque || same_strides;
}

void TangentCall::linear(Result& out) const {
  const TangentRule& rule = r_.traits.tangent;
  if (!fits_opaque() || (rule.holds != nullptr && !rule.holds(args_))) return by_node(out);
  run_stages(r_, form_, args_, out);
  Result tangent;
  by_replacing(rule.inputs, 0, tangent);
  put_all(out, tangent);
}

void TangentCall::multilinear(Result& out) const {
  run_stages(r_, form_, args_, out);
  Tensor sum;
  for (uint32_t rest = r_.traits.tangent.inputs; rest != 0; rest &= rest - 1) {
    const auto parameter = static_cast<size_t>(__builtin_ctz(rest));
    if (!concerns(parameter)) continue;
    Result part;
    by_replacing(1u << parameter, r_.traits.tangent.added, part);
    sum = sum.defined() ? add(sum, part.tensor) : std::move(part.tensor);
  }
  each([&](size_t p, size_t edge, const Tensor*) {
    if ((r_.traits.tangent.added >> p & 1) == 0 || !tangents_[edge].defined()) return;
    sum = sum.defined() ? add(sum, tangents_[edge]) : tangents_[edge];
  });
  put(out.tensor, std::move(sum));
}

// Returns the sum of the gradient formulas applied to the tangents: the tangent rule of rows.
std::vector<Tensor> TangentCall::gradients_of_tangents(Node& node, const Tensor& out,
                                                       bool record) const {
  Tensor sum;
  std::vector<Tensor> found(node.edges().size());
  for (size_t i = 0; i < found.size(); ++i) {
    if (!tangents_[i].defined()) continue;
    Tensor t = cast(tangents_[i], out.dtype());
    const GradGuard grad(record);
    if (!same(t.sizes(), out.sizes())) t = expand(t, out.sizes());
    BackwardArgs args;
    args.grads = {&t, 1};
    args.out = found;
    args.needs_mask = uint64_t{1} << i;
    args.of_tangents = true;
    node.backward(args);
    Tensor part = std::move(found[i]);
    found[i] = Tensor();
    if (part.defined()) sum = sum.defined() ? add(sum, part) : std::move(part);
  }
  return {sum};
}

std::vector<Tensor> TangentCall::from_node(Node& node, std::span<const Tensor> outputs,
                                           bool record) const {
  if (r_.traits.tangent.rule == Rule::SelfAdjoint)
    return gradients_of_tangents(node, outputs[0], record);
  return tangents_of_node(node, {tangents_.data(), tangents_.size()}, outputs, record);
}

void TangentCall::by_node(Result& out) const {
  TensorSet wanted(form_.wanted);
  const bool recording = wanted.recording();
  bool real = false;
  bool tangents_recorded = false;
  each([&](size_t, size_t edge, const Tensor* t) {
    if (t == nullptr || !t->defined()) return;
    real |= recording && requires_grad(*t);
    if (!tangents_[edge].defined()) return;
    tangents_recorded |= recording && requires_grad(tangents_[edge]);
    wanted.add(t->impl());
  });
  const bool requested_outside = form_.wanted != nullptr;
  {
    const GradGuard grad(true);
    CallForm form = form_;
    form.wanted = &wanted;
    run_stages(r_, form, args_, out);
  }
  const std::span<Tensor> outputs = tensors_of(out);
  NodeRef node;
  for (const Tensor& t : outputs)
    if (t.defined() && t->grad_fn != nullptr) node = NodeRef::borrow(t->grad_fn);
  if (!node) return;
  const std::vector<Tensor> found = from_node(*node.get(), outputs, real || tangents_recorded);
  if (!requested_outside) {  // otherwise the level above continues with the node
    drop_wanted_edges(*node.get());
    for (const Tensor& t : outputs) {
      if (real || !t.defined() || t->grad_fn == nullptr) continue;
      std::exchange(t->grad_fn, nullptr)->release();
      t->output_nr = 0;
    }
  }
  for (size_t i = 0; i < outputs.size() && i < found.size(); ++i) put(outputs[i], found[i]);
  if (!real && !requested_outside) return;
  keep_tangents_of_outputs(*node.get(), outputs);
  if (!requested_outside) pack_saved(*node.get());  // hooks see all tangents of what is saved
}

// Gives the node's saved outputs their tangents, for forward over reverse.
void TangentCall::keep_tangents_of_outputs(Node& node, std::span<const Tensor> outputs) {
  for (size_t i = 0; i < node.num_saved(); ++i) {
    const SavedTensor* s = node.saved_slot(i);
    if (s == nullptr || !s->is_output() || s->packed() || !s->raw().defined()) continue;
    for (const Tensor& t : outputs)
      if (t.defined() && t->data == s->raw()->data && transformed(t)) copy_tangents(t, s->raw());
  }
}

void TangentCall::put(const Tensor& out, Tensor tangent) const {
  if (!tangent.defined() || !out.defined() || !is_differentiable(out.dtype())) return;
  if (!same(tangent.sizes(), out.sizes())) tangent = expand(tangent, out.sizes());
  if ((r_.spec.flags & kKindMask) != kView) {  // a write to `out` must not reach an input's memory
    bool shared = false;
    for (const Tensor& t : tangents_) shared |= t.defined() && t->storage == tangent->storage;
    if (shared) tangent = clone(tangent);
  }
  set_tangent(out, level_, std::move(tangent));
}

void TangentCall::put_all(Result& out, Result& tangent) const {
  const std::span<Tensor> values = tensors_of(out), tangents = tensors_of(tangent);
  for (size_t i = 0; i < values.size() && i < tangents.size(); ++i)
    put(values[i], std::move(tangents[i]));
}

void TangentCall::run(Result& out) {
  const LevelsBelow mask(level_->id());
  const bool any =
      std::any_of(tangents_.begin(), tangents_.end(), [](const Tensor& t) { return t.defined(); });
  if (!any || !r_.differentiable) return run_stages(r_, form_, args_, out);
  switch (r_.traits.tangent.rule) {
    case Rule::Linear:
      return linear(out);
    case Rule::Multilinear:
      return multilinear(out);
    default:
      return by_node(out);
  }
}

}  // namespace

Tensor values_of(const Tensor& x) { return apply<Values>(x); }

void call_with_tangents(const OpRecord& r, const CallForm& form, const Value* args, Result& out,
                        const std::shared_ptr<TangentLevel>& level) {
  TangentCall(r, form, args, level).run(out);
}

}  // namespace cograd
