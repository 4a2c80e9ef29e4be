// SPDX-License-Identifier: BSD-3-Clause
// The op mechanism: one struct (spec, forward, backward) defines the C++ call, the graph node, the
// in-place and out= forms, and the boxed record from which bindings, stubs and tests are derived.
//
//   struct Hypot {
//     static constexpr OpSpec spec{"hypot", "input, other", kForms, "sqrt(a^2 + b^2).", ...};
//     static constexpr int kSaved = 2;                     // slots for saved tensors
//     struct State { double scale; };                      // optional: plain values for backward
//     static Tensor forward(Ctx<Hypot>& ctx, const Tensor& a, const Tensor& b);
//     static void backward(Ctx<Hypot>& ctx, const Tensor& g);   // ctx.grad(i) = ...
//     static void backward_fused(Ctx<Hypot>& ctx, const Tensor& g);  // optional: no graph is made
//   };
//   COGRAD_OP(Hypot)
// A forward without Ctx is a composition of other ops and needs no backward. If those ops save its
// first input, `static constexpr bool kCopiesTarget = true` lets its in-place form be recorded.
// A forward that takes a CallForm only checks its arguments and runs one op in the same form.
#pragma once
#include <array>

#include "autograd/graph/saved_tensor.h"
#include "autograd/graph/tensor_set.h"
#include "ops/declare/boxed.h"

namespace cograd {

namespace detail {
struct NoState {};
template <class Op>
struct StateOf {
  using type = NoState;
};
template <class Op>
  requires requires { typename Op::State; }
struct StateOf<Op> {
  using type = typename Op::State;
};
template <class Op>
constexpr int saved_of() {
  if constexpr (requires { Op::kSaved; })
    return Op::kSaved;
  else
    return 0;
}
}  // namespace detail

template <class Op>
class OpNode;

// The part of forward's and backward's context that does not depend on the op; see Ctx.
class CtxBase {
 public:
  // True if a node is being recorded; otherwise save() does nothing.
  bool recording() const noexcept { return node_ != nullptr; }
  // True if input i's gradient is needed: in this run in backward, possibly in some run in forward.
  bool needs(size_t i) const noexcept {
    if (args_ != nullptr) return args_->needs(i);
    return node_ != nullptr && i < node_->edges().size() && node_->edges()[i].node != nullptr;
  }
  // Returns the slot in which backward stores input i's gradient.
  Tensor& grad(size_t i) const noexcept { return args_->out[i]; }
  size_t num_inputs() const noexcept { return args_->out.size(); }
  const BackwardArgs& args() const noexcept { return *args_; }
  Node* node() const noexcept { return node_; }
  const OutputMeta& output_meta(size_t i) const noexcept { return node_->output(i); }

  // Returns the tensor for an elementwise result: the target of an in-place or out= call if it fits
  // (this checks broadcasting and casting), otherwise a new one. Do not call save() afterwards.
  Tensor out(IntList sizes, DType dtype) {
    if (target_ == nullptr) [[likely]]
      return empty(sizes, dtype);
    return out_target(sizes, dtype);
  }
  // Returns out(sizes, dtype), but a new tensor takes its order of dims from the inputs' strides.
  Tensor out(IntList sizes, DType dtype, std::span<const Tensor* const> inputs);
  // Returns the tensor that an in-place call writes, or null.
  const Tensor* inplace_target() const noexcept { return inplace_ ? target_ : nullptr; }
  // Returns the tensor that an in-place or out= call writes, or null.
  const Tensor* target() const noexcept { return target_; }
  // Sets the tensor that this call writes. `args` are checked for partial overlap with it.
  void set_target(const Tensor* t, bool inplace, const char* op, std::span<const Value> args) {
    target_ = t;
    inplace_ = inplace;
    op_ = op;
    values_ = args;
  }
  // Sets the arguments that saved-tensor hooks see as soon as they are saved; hooks see all other
  // saved tensors after forward.
  void set_arguments(const TensorSet* arguments) noexcept { arguments_ = arguments; }

 protected:
  Tensor out_target(IntList sizes, DType dtype);
  // Returns what to save for `t` in an in-place call: a clone if `t` is the target, whose memory is
  // about to be overwritten; a tensor with the current history if it shares the target's; else `t`.
  Tensor kept(const Tensor& t);
  // Saves `t` in a call that writes in place or runs under hooks: the hooks then see `t` now if it
  // is an argument or a view of one.
  void save_specially(SavedTensor& slot, const Tensor& t);
  Node* node_ = nullptr;
  BackwardArgs* args_ = nullptr;
  const Tensor* target_ = nullptr;
  const TensorSet* arguments_ = nullptr;
  const char* op_ = "";
  std::span<const Value> values_;
  bool inplace_ = false;
};

template <class Op>
class Ctx : public CtxBase {
 public:
  using State = typename detail::StateOf<Op>::type;
  Ctx() noexcept : state_(&local_) {}
  explicit Ctx(OpNode<Op>* n) noexcept;
  Ctx(OpNode<Op>* n, BackwardArgs& args) noexcept : Ctx(n) { args_ = &args; }

  // Accesses the op's State.
  State* operator->() const noexcept { return state_; }
  // Saves tensors for backward in the next free slots. Use save_output for results.
  template <class... T>
  void save(const T&... tensors) {
    if (node_ != nullptr) (save_one(tensors), ...);
  }
  void save_output(const Tensor& t, uint32_t output_nr = 0);
  // Returns saved tensor i after checking that no in-place write has changed it.
  Tensor saved(int i) const;
  // True in backward if the gradient may itself be differentiated. Backward must then use
  // differentiable ops, not saved intermediate results or loops over values.
  bool differentiated() const;

 private:
  void save_one(const Tensor& t);
  void save_one(const TensorOrScalar& t) { save_one(t.is_tensor() ? t.tensor() : Tensor()); }
  int used_ = 0;
  State* state_;
  [[no_unique_address]] State local_{};
};

namespace detail {

inline bool any_complex(std::span<const Tensor> list) noexcept {
  for (const Tensor& t : list)
    if (t.defined() && is_complex(t.dtype())) return true;
  return false;
}
// Conjugates gradients by the Wirtinger convention: for a holomorphic f, the gradient is
// g * conj(f').
class COGRAD_API Conjugated {
 public:
  explicit Conjugated(BackwardArgs& args);
  BackwardArgs& args() noexcept { return inner_; }
  void finish() const;  // conjugates the results

 private:
  BackwardArgs inner_;
  SmallVec<Tensor, 2> grads_;
};

}  // namespace detail

// The nodes of all ops with the same number of saved tensors share this base.
template <int kSlots>
class SavingNode : public Node {
 public:
  // Not inline: an op's node adds only its State, which seldom has anything to destroy.
  [[gnu::noinline]] ~SavingNode() override {}  // NOLINT(modernize-use-equals-default)
  void release_saved() noexcept override {
    if constexpr (kSlots > 0) {
      SavedTensor dropped[kSlots];
      lock();
      released = true;
      for (int i = 0; i < kSlots; ++i) saved[static_cast<size_t>(i)].swap(dropped[i]);
      unlock();
    }
  }
  void visit(GraphVisitor& v) const override {
    Node::visit(v);
    for (const SavedTensor& s : saved) s.visit(v);
  }
  size_t num_saved() const noexcept override { return kSlots; }
  SavedTensor* saved_slot(size_t i) noexcept override { return saved.data() + i; }

  std::array<SavedTensor, static_cast<size_t>(kSlots)> saved;
};

template <class Op>
class OpNode final : public SavingNode<detail::saved_of<Op>()> {
 public:
  static constexpr int kSaved = detail::saved_of<Op>();
  std::string name() const override {
    if constexpr (requires { Op::node_name(state); })
      return Op::node_name(state);
    else if constexpr (requires { Op::kNodeName; })
      return Op::kNodeName;
    else
      return node_name(Op::spec.name);
  }
  void backward(BackwardArgs& args) override {
    if constexpr (traits_of<Op>().holomorphic && (traits_of<Op>().dtypes & kComplexTypes) != 0) {
      if (detail::any_complex(args.grads) && !args.of_tangents) [[unlikely]] {
        detail::Conjugated conjugated(args);
        real_backward(conjugated.args());
        return conjugated.finish();
      }
    }
    real_backward(args);
  }
  // Runs the op's formulas without conjugation.
  void real_backward(BackwardArgs& args) {
    if constexpr (requires(Ctx<Op>& c, std::span<Tensor> gs) { Op::backward(c, gs); }) {
      Ctx<Op> ctx(this, args);
      Op::backward(ctx, args.grads);
    } else if constexpr (requires(Ctx<Op>& c, const Tensor& g) { Op::backward(c, g); }) {
      if (!args.grads[0].defined()) return;
      Ctx<Op> ctx(this, args);
      if constexpr (requires { Op::backward_fused(ctx, args.grads[0]); }) {
        if (!ctx.differentiated())
          return put_gradient(args, [&] { return Op::backward_fused(ctx, args.grads[0]); });
      }
      put_gradient(args, [&] { return Op::backward(ctx, args.grads[0]); });
    }
  }
  OpText op_text() const noexcept override {
    return {Op::spec.name, Op::spec.args, Op::spec.returns};
  }
  static std::string node_name(const char* op_name);

  [[no_unique_address]] typename Ctx<Op>::State state{};

 private:
  // Stores the result of a backward that returns its single gradient instead of assigning it.
  template <class F>
  static void put_gradient(BackwardArgs& args, F&& f) {
    if constexpr (std::is_void_v<decltype(f())>)
      f();
    else
      args.out[0] = f();
  }
};

// True if a transform handles a tensor that this call of backward reads; fused gradients see only
// values. Unpacks saved tensors that hooks packed.
COGRAD_API bool reads_transformed(Node& node, BackwardArgs& args);
// Converts "leaky_relu" to "LeakyReluBackward0".
COGRAD_API std::string camel_backward(const char* op_name);
template <class Op>
std::string OpNode<Op>::node_name(const char* op_name) {
  return camel_backward(op_name);
}

template <class Op>
Ctx<Op>::Ctx(OpNode<Op>* n) noexcept : state_(&n->state) {
  node_ = n;
}
template <class Op>
void Ctx<Op>::save_one(const Tensor& t) {
  auto* n = static_cast<OpNode<Op>*>(node_);
  static_assert(OpNode<Op>::kSaved > 0, "declare kSaved to save tensors");
  SavedTensor& slot = n->saved[static_cast<size_t>(used_++)];
  if (!inplace_ && arguments_ == nullptr) [[likely]]
    return slot.save(t);
  save_specially(slot, t);
}
template <class Op>
void Ctx<Op>::save_output(const Tensor& t, uint32_t output_nr) {
  if (node_ == nullptr) return;
  auto* n = static_cast<OpNode<Op>*>(node_);
  n->saved[static_cast<size_t>(used_++)].save_output(t, output_nr);
}
template <class Op>
bool Ctx<Op>::differentiated() const {
  return thread_state.grad_enabled || (transforms_open() && reads_transformed(*node_, *args_));
}
template <class Op>
Tensor Ctx<Op>::saved(int i) const {
  auto* n = static_cast<OpNode<Op>*>(node_);
  SavedTensor& slot = n->saved[static_cast<size_t>(i)];
  if (!slot.packed()) [[likely]]
    return unpack_saved(n, slot);
  return unpack_once(n, slot, static_cast<size_t>(i), *args_);
}

namespace detail {

// Calls f on every tensor among the arguments; one call per edge, undefined tensors included.
template <class F>
void each_edge(F&&) {}
template <class F, class... Rest>
void each_edge(F&& f, const Tensor& t, const Rest&... rest);
template <class F, class... Rest>
void each_edge(F&& f, const TensorOrScalar& t, const Rest&... rest);
template <class F, class... Rest>
void each_edge(F&& f, const std::optional<TensorOrScalar>& t, const Rest&... rest);
template <class F, class... Rest>
void each_edge(F&& f, const TensorList& t, const Rest&... rest);
template <class F, class T, class... Rest>
void each_edge(F&& f, const T&, const Rest&... rest);

template <class F, class... Rest>
void each_edge(F&& f, const Tensor& t, const Rest&... rest) {
  f(&t);
  each_edge(f, rest...);
}
template <class F, class... Rest>
void each_edge(F&& f, const TensorOrScalar& t, const Rest&... rest) {
  f(t.tensor_or_null());
  each_edge(f, rest...);
}
template <class F, class... Rest>
void each_edge(F&& f, const std::optional<TensorOrScalar>& t, const Rest&... rest) {
  f(t ? t->tensor_or_null() : nullptr);
  each_edge(f, rest...);
}
template <class F, class... Rest>
void each_edge(F&& f, const TensorList& t, const Rest&... rest) {
  for (const Tensor& x : t) f(&x);
  each_edge(f, rest...);
}
template <class F, class T, class... Rest>
void each_edge(F&& f, const T&, const Rest&... rest) {
  each_edge(f, rest...);
}

template <class... Args>
bool any_requires_grad(const Args&... args) {
  bool any = false;
  each_edge([&](const Tensor* t) { any |= t != nullptr && requires_grad(*t); }, args...);
  return any;
}
template <class... Args>
bool any_transformed(const Args&... args) {
  bool any = false;
  each_edge([&](const Tensor* t) { any |= t != nullptr && transformed(*t); }, args...);
  return any;
}
// True if the device stage must handle this call: it asks for another device than this thread's
// place, or has a tensor on one.
template <class... A>
bool BoxedArgs<std::tuple<A...>>::elsewhere(GateTraits traits, RecordOf record, const A&... args) {
  if ((traits & kAsksForDevice) != 0) {
    const auto v = values(args...);
    return device_of_call(record(), v.data(), {}) != thread_place.now;
  }
  bool any = false, first = true;
  each_edge(
      [&](const Tensor* t) {
        if (first || (traits & kMixesDevices) == 0)
          any |= t != nullptr && t->defined() && (*t)->device != thread_place.now;
        first = false;
      },
      args...);
  return any;
}
// True if a stage in front of the op may have to handle this call. Transforms leave a composition
// to the ops that it consists of, unless it reads values.
template <class... A>
bool BoxedArgs<std::tuple<A...>>::to_stages(GateTraits traits, RecordOf record,
                                            const CallForm& call, const A&... args) {
  if (call.passed) return false;
  if (thread_state.observer != nullptr || may_lack_kernels(thread_place.now)) return true;
  if (elsewhere(traits, record, args...)) return true;
  const bool draws = (traits & kDraws) != 0 && thread_state.vmaps > 0;
  if (call.form == Form::Out)
    return (*call.target)->device != thread_place.now || transformed(*call.target) || draws ||
           any_transformed(args...);
  return (traits & kLeaves) == 0 && (draws || any_transformed(args...));
}
[[noreturn]] COGRAD_API void fail_dtype(const char* op, DType t);
// How an op that does not claim complex dtypes treats the wide unsigned integers.
enum class Unsigned : uint8_t { Refused, Taken, Ordered };
// Raises if `v` has a refused dtype. True if `v` is unsigned and must be mapped to signed order.
template <Unsigned kUnsigned, class T>
bool needs_signed_order([[maybe_unused]] const char* op, [[maybe_unused]] const T& v) {
  if constexpr (std::is_same_v<T, Tensor>) {
    if (!v.defined()) return false;
    const DType t = v.dtype();
    if constexpr (kUnsigned == Unsigned::Taken) {
      if (is_complex(t)) [[unlikely]]
        fail_dtype(op, t);
    } else if (is_in(kComplexDTypes | kWideUnsignedDTypes, t)) [[unlikely]] {
      if (kUnsigned == Unsigned::Refused || is_complex(t)) fail_dtype(op, t);
      return true;
    }
  } else if constexpr (std::is_same_v<T, Scalar>) {
    if (v.is_complex()) [[unlikely]]
      fail_dtype(op, DType::Complex128);
  } else if constexpr (std::is_same_v<T, TensorOrScalar>) {
    return v.is_tensor() ? needs_signed_order<kUnsigned>(op, v.tensor())
                         : needs_signed_order<kUnsigned>(op, v.scalar());
  } else if constexpr (std::is_same_v<T, TensorList>) {
    for (const Tensor& t : v) needs_signed_order<kUnsigned>(op, t);
  } else if constexpr (requires { v.has_value(); }) {
    if (v.has_value()) return needs_signed_order<kUnsigned>(op, *v);
  }
  return false;
}
template <class Op>
constexpr bool ordered() {
  return traits_of<Op>().unsigned_rule.ordered;
}
// Raises if complex or wide unsigned tensors reach an op that does not claim them. True if the op
// must run on signed integers in the same order. Rows are exempt: they have no loop for such
// dtypes.
template <class Op, class... Args>
bool check_claims(const Args&... args) {
  constexpr DTypeSet kClaims = traits_of<Op>().dtypes;
  if constexpr ((kClaims & kComplexTypes) == 0 && !requires { Op::kKernel; }) {
    constexpr Unsigned kRule = ordered<Op>()                     ? Unsigned::Ordered
                               : (kClaims & kUnsignedTypes) != 0 ? Unsigned::Taken
                                                                 : Unsigned::Refused;
    return (needs_signed_order<kRule>(Op::spec.name, args) | ... | false);
  }
  return false;
}
template <class... Args>
bool any_inference(const Args&... args) {
  bool any = false;
  each_edge(
      [&](const Tensor* t) {
        any |= t != nullptr && t->defined() && ((*t)->flags & kInference) != 0;
      },
      args...);
  return any;
}
template <class... Args>
bool any_tainted(const Args&... args) {
  bool any = false;
  each_edge(
      [&](const Tensor* t) {
        any |= t != nullptr && t->defined() &&
               (((*t)->flags & kTaint) != 0 || requires_grad(*t) ||
                (transformed(*t) && has_tangent(*t)));
      },
      args...);
  return any;
}

inline void connect(Node* n, const Tensor* t) {
  Edge e{};
  if (t != nullptr && t->defined()) e = gradient_edge(t->impl());
  n->add_edge(e.node, e.input_nr);
}
// Connects `t`, also without a history if it is in `wanted`: a transform's rule needs its gradient.
COGRAD_API void connect_extra(Node* n, const Tensor* t, const TensorSet& wanted);

template <class F>
void each_output(const Tensor& out, F&& f) {
  f(out, 0u);
}
template <class F>
void each_output(const std::vector<Tensor>& out, F&& f) {
  for (uint32_t i = 0; i < out.size(); ++i) f(out[i], i);
}
template <class F, class... T>
void each_output(const std::tuple<T...>& out, F&& f) {
  uint32_t i = 0;
  std::apply([&](const auto&... t) { (f(t, i++), ...); }, out);
}
inline size_t count_outputs(const Tensor&) { return 1; }
inline size_t count_outputs(const std::vector<Tensor>& v) { return v.size(); }
template <class... T>
size_t count_outputs(const std::tuple<T...>&) {
  return sizeof...(T);
}

}  // namespace detail

namespace detail {

// Sets `flags` on a result that the op has made: no view, and none of its arguments.
COGRAD_API void mark_output(const Tensor& t, uint32_t flags);

template <class... Args>
bool is_argument(const Tensor& t, const Args&... args) {
  bool any = false;
  each_edge([&](const Tensor* arg) { any |= arg != nullptr && arg->is(t); }, args...);
  return any;
}
template <class Out, class... Args>
void mark_outputs(const Out& out, uint32_t flags, const Args&... args) {
  each_output(out, [&](const Tensor& t, uint32_t) {
    if (!is_argument(t, args...)) mark_output(t, flags);
  });
}

// Marks the results of a composition under inference_mode: it may create tensors without an op.
template <class F, class... Args>
auto marked_inference(F&& f, const Args&... args) {
  if constexpr (std::is_void_v<decltype(f())>) {
    f();
  } else {
    auto out = f();
    if constexpr (requires { each_output(out, [](const Tensor&, uint32_t) {}); })
      mark_outputs(out, kInference, args...);
    return out;
  }
}

// Copies `result` into `target` if the op did not write it itself; checks shape and casting.
// `past_stages`: what is written is a result of the stages.
void finish_target(const OpSpec& op, const Tensor& target, const Tensor& result, bool inplace,
                   bool past_stages = false);
// Does what finish_target does, under transforms: it uses copy_, which transforms handle.
void copy_result(const OpSpec& op, const Tensor& target, const Tensor& result);
// Raises if out= would lose a gradient, or if a tensor in it overlaps itself or partially overlaps
// an argument. It may be identical to an argument unless kOutApart or kOutIsInput forbids it.
COGRAD_API void check_outs(const OpSpec& spec, TensorList outs, std::span<const Value> args,
                           bool any_grad);
// Raises if a result of dtype `result` cannot be written into `target`.
void check_result(const OpSpec& op, const Tensor& target, DType result, bool exact);
// Returns a node for an in-place op without a gradient: it sends zeros to the old value of `self`.
COGRAD_API NodeRef overwriting_node(const char* op, const Tensor& self);

// Holds a node until its op has returned: a node whose forward throws was never part of a graph.
struct NodeGuard {
  explicit NodeGuard(Node* n) noexcept : node(n) {}
  NodeGuard(const NodeGuard&) = delete;
  NodeGuard& operator=(const NodeGuard&) = delete;
  ~NodeGuard() {
    if (arguments != nullptr) [[unlikely]]
      drop_arguments();
    node->release();
  }
  COGRAD_API void make_arguments();
  COGRAD_API void drop_arguments() noexcept;
  COGRAD_API void add_argument(const Tensor* t);

  Node* node;
  // The tensors among the arguments of a call under pack hooks, which see these when they are
  // saved and everything else when forward is done; null without hooks.
  TensorSet* arguments = nullptr;
};
template <class... Args>
[[gnu::noinline, gnu::cold]] const TensorSet* collect_arguments(NodeGuard& guard,
                                                                const Args&... args) {
  guard.make_arguments();
  each_edge([&](const Tensor* t) { guard.add_argument(t); }, args...);
  return guard.arguments;
}

}  // namespace detail

}  // namespace cograd

#include "ops/declare/enter.h"
#include "ops/declare/op_record.h"
