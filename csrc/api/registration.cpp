// SPDX-License-Identifier: BSD-3-Clause
// The table of registered ops, and calls of ops with or without a registered gradient.
#include "api/registration.h"

#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>

#include "api/devices.h"
#include "api/op_call.h"
#include "autograd/run/backward_job.h"
#include "cograd/c_devices.h"
#include "ops/declare/fallback.h"
#include "ops/declare/op.h"

namespace cograd::api {

namespace {

struct Table {
  std::mutex mutex;
  std::map<std::string, ForeignOp*, std::less<>> ops;
};
Table& table() {
  static auto* t = new Table;
  return *t;
}

struct Loading {
  bool active = false;
  std::string owner;
  Loaded done;
};
thread_local Loading loading;

bool is_name(const char* s) {
  if (s == nullptr || *s == '\0' || (*s >= '0' && *s <= '9')) return false;
  for (; *s != '\0'; ++s)
    if (std::isalnum(static_cast<unsigned char>(*s)) == 0 && *s != '_') return false;
  return true;
}

void check_abi(const cograd_op_desc& d) {
  COGRAD_CHECK(d.abi_major == COGRAD_ABI_MAJOR && d.abi_minor <= COGRAD_ABI_MINOR,
               "an op was built against cograd's ABI ", d.abi_major, ".", d.abi_minor,
               ", this library has ", COGRAD_ABI_MAJOR, ".", COGRAD_ABI_MINOR,
               ": rebuild the extension");
}

std::string node_name(const std::string& op) {
  std::string s = camel_backward(op.c_str());
  s.pop_back();  // drops the "0" at the end, which only built-in ops have
  return s;
}

void add(const cograd_op_desc& given) {
  cograd_op_desc d{};
  std::memcpy(&d, &given, std::min(given.struct_size, sizeof d));
  check_abi(d);  // before reading fields that may have another layout
  COGRAD_CHECK_VALUE(is_name(d.library) && is_name(d.name),
                     "an op needs a library and a name made "
                     "of letters, digits and '_', got '",
                     d.library == nullptr ? "" : d.library, "' and '",
                     d.name == nullptr ? "" : d.name, "'");
  auto op = std::make_unique<ForeignOp>();
  op->library = d.library;
  op->name = d.name;
  op->qualified = op->library + "::" + op->name;
  COGRAD_CHECK_VALUE(d.forward != nullptr, "op '", op->qualified, "' has no forward function");
  op->doc = d.doc == nullptr ? "" : d.doc;
  op->flags = d.flags;
  op->forward = d.forward;
  op->backward = d.backward;
  op->jvp = d.jvp;
  op->batch = d.batch;
  op->user = op->backward_user = d.user;
  op->batch_user = d.batch_user != nullptr ? d.batch_user : d.user;
  op->node_name = node_name(op->name);
  op->owner = loading.owner;
  op->record.foreign = op.get();
  op->record.run = [](const OpRecord& r, const CallForm&, const Value* v, Result& out) {
    run_foreign(*r.foreign, v, out);
  };
  if (d.kinds != nullptr) given_list(d.kinds, d.n_params, "op_register", "kinds");
  parse_schema(*op, d.schema, d.kinds, d.n_params);
  const bool records = (op->flags & COGRAD_OP_DIFFERENTIABLE) != 0;
  op->composed = records;
  op->opaque = d.backward == nullptr && d.jvp == nullptr && !records;
  op->record.differentiable = d.backward != nullptr || records;
  for (const ArgInfo& a : op->record.args) op->writes |= a.mutated;
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  const auto found = t.ops.find(op->qualified);
  const auto& names = loading.done.names;
  const bool again = std::find(names.begin(), names.end(), op->qualified) != names.end();
  COGRAD_CHECK(
      found == t.ops.end() || (!again && !op->owner.empty() && found->second->owner == op->owner),
      "op '", op->qualified, "' is registered already",
      found != t.ops.end() && !found->second->owner.empty() ? ", by '" + found->second->owner + "'"
                                                            : std::string(),
      ": a name can be defined once");
  std::string name = op->qualified;
  t.ops[name] = op.release();  // a replaced op is not freed: callers may still refer to it
  if (loading.active) loading.done.names.push_back(std::move(name));
}

// --- calls ---------------------------------------------------------------------------------------

// The tensors that an op declares to write, Tensor(a!), and their versions before the call.
class Written {
 public:
  Written(const ForeignOp& op, const Value* values) : op_(op) {
    if (!op.writes || (op.flags & COGRAD_OP_DIFFERENTIABLE) != 0) return;
    tracked_ = thread_state.grad_enabled && any_requires_grad(op.record, values);
    for (size_t i = 0; i < op.record.args.size(); ++i) {
      if (!op.record.args[i].mutated) continue;
      const Value& v = values[i];
      if (v.has_tensor()) add(v.tensor());
      if (v.kind == COGRAD_TENSORS)
        for (const Tensor& t : v.tensors()) add(t);
    }
  }
  const std::vector<Tensor>& tensors() const noexcept { return tensors_; }
  bool tracked() const noexcept { return tracked_; }
  // True if differentiable ops wrote tensor i, so that its history is already right.
  bool recorded(size_t i) const { return history_of(tensors_[i]) != histories_[i].get(); }
  // Bumps the versions of tensors whose version did not change: they were written by data pointer.
  void bump() const {
    for (size_t i = 0; i < tensors_.size(); ++i)
      if (tensors_[i]->current_version() == versions_[i]) tensors_[i]->bump_version();
  }

 private:
  // Returns the grad_fn, for a view that of its base: a write to either replaces it.
  static Node* history_of(const Tensor& t) noexcept {
    return t->base != nullptr ? t->base->grad_fn : t->grad_fn;
  }
  static bool any_requires_grad(const OpRecord& r, const Value* values) {
    bool any = false;
    each_tensor(r, values, [&](const Tensor& t) { any |= requires_grad(t); });
    return any;
  }
  void add(const Tensor& t) {
    if (!t.defined()) return;
    check_inplace(t, op_.qualified.c_str(), tracked_);
    tensors_.push_back(t);
    versions_.push_back(t->current_version());
    histories_.push_back(NodeRef::borrow(history_of(t)));
  }
  const ForeignOp& op_;
  bool tracked_ = false;
  std::vector<Tensor> tensors_;
  std::vector<uint32_t> versions_;
  std::vector<NodeRef> histories_;
};

thread_local int opaque_forwards = 0;

void run_forward(const ForeignOp& op, UserNode* node, std::span<const cograd_value> args,
                 cograd_results_s& results) {
  struct Running {
    explicit Running(bool opaque) : count(opaque ? 1 : 0) { opaque_forwards += count; }
    ~Running() { opaque_forwards -= count; }
    int count;
  } const running(op.opaque);
  const cograd_status s = op.forward(node == nullptr ? nullptr : handle(node), op.user, args.data(),
                                     args.size(), &results);
  if (s != COGRAD_OK) raise(s, op.qualified);
  forget();
}

cograd_status run_backward_fn(cograd_context ctx, void* state, const cograd_tensor* grads,
                              size_t n_grads, cograd_tensor* out, size_t n_inputs) {
  const ForeignOp* op = node_of(ctx)->call_data();
  (void)state;
  return op->backward(ctx, op->backward_user, grads, n_grads, out, n_inputs);
}
cograd_status run_jvp_fn(cograd_context ctx, void* state, const cograd_tensor* tangents,
                         size_t n_inputs, cograd_tensor* out, size_t n_outputs) {
  const ForeignOp* op = node_of(ctx)->call_data();
  (void)state;
  return op->jvp(ctx, op->user, tangents, n_inputs, out, n_outputs);
}

void call_with_gradient(const ForeignOp& op, const Value* values,
                        std::span<const cograd_value> args, const Written& written,
                        cograd_results_s& results) {
  SmallVec<Tensor, 4> inputs;
  each_tensor(op.record, values, [&](const Tensor& t) { inputs.push_back(t); });
  cograd_function f{};
  f.struct_size = sizeof f;
  f.name = op.node_name.c_str();
  f.backward = op.backward != nullptr ? run_backward_fn : nullptr;
  f.jvp = op.jvp != nullptr ? run_jvp_fn : nullptr;
  if ((op.flags & COGRAD_OP_ONCE_DIFFERENTIABLE) != 0)
    f.flags |= COGRAD_FUNCTION_ONCE_DIFFERENTIABLE;
  if ((op.flags & COGRAD_OP_TAKES_SAMPLES) != 0) f.flags |= COGRAD_FUNCTION_TAKES_SAMPLES;
  const NodeRef hold = UserNode::begin(
      f, nullptr, reinterpret_cast<const cograd_tensor*>(inputs.data()), inputs.size());
  auto* node = static_cast<UserNode*>(hold.get());
  node->set_call_data(&op);
  try {
    run_forward(op, node, args, results);
    node->mark_dirty(written.tensors());
  } catch (...) {
    node->abort();
    throw;
  }
  SmallVec<Tensor*, 4> slots;
  SmallVec<Tensor, 2> outputs;
  for (Result& r : results.items) {
    each_tensor(r, [&](Tensor& t) {
      slots.push_back(&t);
      outputs.push_back(std::move(t));
    });
    if (r.kind != Result::Kind::None) continue;
    slots.push_back(&r.tensor);  // None counts as an output
    outputs.push_back(Tensor());
  }
  node->finish({outputs.data(), outputs.size()});
  for (size_t i = 0; i < outputs.size(); ++i) *slots[i] = std::move(outputs[i]);
}

// Makes a backward through an op that computes without recording and has no gradient raise.
void guard_outputs(const ForeignOp& op, const Value* values, const Written& written,
                   cograd_results_s& results) {
  if (!thread_state.grad_enabled) return;
  OwnedEdges edges;
  SmallVec<TensorImpl*, 4> inputs;
  each_tensor(op.record, values, [&](const Tensor& t) {
    if (!t.defined()) return;
    inputs.push_back(t.impl());
    if (requires_grad(t)) edges.add(physical_tensor(t));
  });
  if (edges.empty()) return;
  const bool by_nature = (op.flags & COGRAD_OP_NON_DIFFERENTIABLE) != 0;
  const std::string why =
      by_nature ? detail::concat("op '", op.qualified,
                                 "' wrote this tensor, and is marked as not differentiable")
                : detail::concat("op '", op.qualified,
                                 "' has no gradient: register one (autograd::Function, or a "
                                 "backward), or mark it with .non_differentiable() if its result "
                                 "does not depend on its inputs smoothly");
  for (size_t i = 0; i < written.tensors().size(); ++i) {
    const Tensor& t = written.tensors()[i];
    if (!is_differentiable(t.dtype()) || (by_nature && !requires_grad(t)) || written.recorded(i))
      continue;
    rebase_history(t, error_node(why, edges.list()).get());
  }
  if (by_nature) return;
  for (Result& r : results.items)
    each_tensor(r, [&](Tensor& t) {
      if (!is_differentiable(t.dtype()) || requires_grad(t)) return;
      if (std::find(inputs.begin(), inputs.end(), t.impl()) != inputs.end()) return;
      t = batched_like(t, poisoned(physical_tensor(t), edges.list(), why));
    });
}

// Raises if an op without a gradient returned results whose tangents are unknown.
void guard_tangents(const ForeignOp& op, const Value* values, cograd_results_s& results) {
  if (!transforms_open() || (op.flags & COGRAD_OP_NON_DIFFERENTIABLE) != 0) return;
  std::shared_ptr<TangentLevel> level;
  each_tensor(op.record, values, [&](const Tensor& t) {
    if (level == nullptr && t.defined() && transformed(t)) level = tangent_level(t);
  });
  if (level == nullptr) return;
  for (Result& r : results.items)
    each_tensor(r, [&](Tensor& t) {
      COGRAD_CHECK_KIND(
          NotImplemented,
          !is_differentiable(t.dtype()) || (transformed(t) && tangent_of(t, level->id()).defined()),
          "forward AD through op '", op.qualified,
          "': it computes without recording and has neither a jvp nor a backward to derive the "
          "tangent from. Register one of them: cograd.library.register_jvp(\"",
          op.qualified,
          "\", jvp) with jvp(ctx, *input_tangents), or register_autograd; in C++ an "
          "autograd::Function with `static variable_list jvp(AutogradContext* ctx, variable_list "
          "tangents)`; in C the entry `jvp` of its cograd_op_desc. Or mark it with "
          ".non_differentiable() if its result does not depend on its inputs smoothly");
    });
}

}  // namespace

bool in_opaque_op() noexcept { return opaque_forwards > 0; }

const ForeignOp* find_foreign(std::string_view qualified) {
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  const auto it = t.ops.find(qualified);
  return it == t.ops.end() ? nullptr : it->second;
}

std::vector<const ForeignOp*> foreign_ops() {
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  std::vector<const ForeignOp*> out;
  for (const auto& [name, op] : t.ops) out.push_back(op);
  return out;
}

void begin_loading(std::string owner) {
  loading = Loading{};
  loading.active = true;
  loading.owner = std::move(owner);
}

Loaded end_loading() {
  Loaded done = std::move(loading.done);
  loading = Loading{};
  return done;
}

namespace {

// Expands the argument of a parameter int[N], which accepts N integers or one for all.
cograd_value sized(const ForeignOp& op, size_t i, cograd_value v, OwnedLists& lists) {
  const size_t n = op.record.args[i].count;
  if (n == 0 || v.kind == COGRAD_NONE || v.length == n) return v;
  COGRAD_CHECK_VALUE(v.kind == COGRAD_INTS && v.length == 1, op.qualified, "(): argument '",
                     op.record.args[i].name, "' has ", v.length, " elements, expected ", n);
  v.u.list = lists.emplace_front(n, *static_cast<const int64_t*>(v.u.list)).data();
  v.length = n;
  return v;
}

}  // namespace

SmallVec<cograd_value, 8> boxed_args(const ForeignOp& op, const Value* values, OwnedLists& lists) {
  SmallVec<cograd_value, 8> args;
  for (size_t i = 0; i < op.record.args.size(); ++i) {
    args.push_back(sized(op, i, values[i].to_c(), lists));
    if (args[i].kind == COGRAD_DEVICE)
      args[i].u.integer = device_type_to_c(values[i].device().type);
  }
  return args;
}

void set_result(const ForeignOp& op, std::vector<Result>& items, Result& out) {
  const bool list = (op.flags & COGRAD_OP_LIST) != 0, tuple = (op.flags & COGRAD_OP_TUPLE) != 0;
  if (items.empty() && !list && !tuple) return;
  if (items.size() == 1 && !list && !tuple) {
    out = std::move(items[0]);
    return;
  }
  // A C++ function pushes its list as one value; a C function pushes the elements.
  if (list && items.size() == 1 && items[0].kind == Result::Kind::Items && !items[0].more->tuple) {
    out = std::move(items[0]);
    return;
  }
  bool tensors = true;
  for (const Result& r : items)
    tensors &= r.kind == Result::Kind::Tensor || r.kind == Result::Kind::None;
  if (tensors) {
    out.kind = list ? Result::Kind::List : Result::Kind::Tuple;
    for (Result& r : items) out.tensors.push_back(std::move(r.tensor));
    return;
  }
  out.kind = Result::Kind::Items;
  out.more = std::make_shared<ResultItems>();
  out.more->items = std::move(items);
  out.more->tuple = !list;
}

namespace {
bool runs_on(const ForeignOp& op, DeviceType t) {
  return t == DeviceType::CUDA && (op.flags & COGRAD_OP_CUDA) != 0;
}

[[maybe_unused]] const bool named = [] {
  foreign_facts = {[](const ForeignOp& op) { return op.qualified; }, &runs_on};
  return true;
}();

[[noreturn, gnu::cold]] void fail_place(const ForeignOp& op) {
  detail::fail(ErrorKind::NotImplemented, "op '", op.qualified,
               "' computes on the CPU only, but a ", "tensor among its arguments is on '",
               to_string(thread_place.now), "': move it by .to(\"cpu\")");
}
}  // namespace

void call_foreign(const ForeignOp& op, const Value* values, Result& out) {
  if (stages_open()) [[unlikely]]
    return run_stages(op.record, kPlainCall, values, out);
  run_foreign(op, values, out);
}

void run_foreign(const ForeignOp& op, const Value* values, Result& out) {
  if (!on_host()) [[unlikely]] {
    if (!op.composed && !runs_on(op, thread_place.now.type)) fail_place(op);
    const PlaceGuard host(kHost);  // code of users creates on the host unless it names a device
    return run_foreign(op, values, out);
  }
  if (thread_state.vmaps > 0 && call_foreign_samples(op, values, out)) [[unlikely]]
    return;
  OwnedLists lists;
  const auto args = boxed_args(op, values, lists);
  const std::span<const cograd_value> given(args.data(), args.size());
  cograd_results_s results;
  const Written written(op, values);
  if (op.backward != nullptr || op.jvp != nullptr) {
    call_with_gradient(op, values, given, written, results);
  } else {
    run_forward(op, nullptr, given, results);
    written.bump();
    if (op.opaque && (op.writes || (op.flags & COGRAD_OP_NON_DIFFERENTIABLE) == 0))
      guard_outputs(op, values, written, results);
    if (op.opaque && (op.flags & COGRAD_OP_TAKES_SAMPLES) == 0)  // otherwise it is composed of ops
      guard_tangents(op, values, results);
  }
  set_result(op, results.items, out);
}

}  // namespace cograd::api

using namespace cograd;
using namespace cograd::api;

cograd_status cograd_op_register(const cograd_op_desc* desc) noexcept {
  const cograd_status s = guarded([&] { add(given(desc, "op_register", "desc")); });
  if (s == COGRAD_OK) return s;
  if (loading.active)
    guarded([&] { loading.done.errors.emplace_back(cograd_last_error()); });
  else
    std::fprintf(stderr, "cograd: %s\n", cograd_last_error());
  return s;
}

cograd_status cograd_op_set_backward(const char* name, decltype(cograd_op_desc::backward) backward,
                                     void* user) noexcept {
  return guarded([&] {
    given(name, "op_set_backward", "name");
    COGRAD_CHECK_TYPE(backward != nullptr, "op_set_backward(): backward is NULL");
    Table& t = api::table();
    const std::lock_guard lock(t.mutex);
    const auto it = t.ops.find(std::string_view(name));
    COGRAD_CHECK(it != t.ops.end(), "there is no registered op '", name, "' to give a gradient");
    it->second->backward = backward;
    it->second->backward_user = user;
    it->second->opaque = false;
    it->second->record.differentiable = true;
  });
}

cograd_status cograd_results_push(cograd_results results, const cograd_value* v) noexcept {
  return guarded([&] {
    auto& items = given(results, "results_push", "results").items;
    Result r;
    result_from_c(given(v, "results_push", "v"), r);
    items.push_back(std::move(r));
  });
}

cograd_status cograd_results_set_dims(cograd_results results, const int32_t* dims,
                                      size_t n) noexcept {
  return guarded([&] {
    cograd_results_s& r = given(results, "results_set_dims", "results");
    const auto list = given_list(dims, n, "results_set_dims", "dims");
    r.dims.assign(list.begin(), list.end());
    r.has_dims = true;
  });
}

cograd_status cograd_results_push_tensor(cograd_results results, cograd_tensor t) noexcept {
  return guarded([&] {
    Result& r = given(results, "results_push_tensor", "results").items.emplace_back();
    r.kind = t == nullptr ? Result::Kind::None : Result::Kind::Tensor;
    r.tensor = borrow(t);
  });
}

namespace {
const cograd_python_bridge* python_bridge = nullptr;
}
const cograd_python_bridge* cograd_python(void) noexcept { return python_bridge; }
void cograd_set_python(const cograd_python_bridge* bridge) noexcept { python_bridge = bridge; }
