// SPDX-License-Identifier: BSD-3-Clause
// Scopes of transformed functions, and the search for leaves that results depend on.
#include "transforms/function_inputs.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <unordered_set>

#include "autograd/modes/watch.h"
#include "tensor/thread_locals.h"
#include "transforms/batch.h"

namespace cograd {

namespace {

// A transformed function that is running on this thread.
struct Scope {
  uint32_t number;
  uint32_t begin;                         // capture_clock when the function began
  uint32_t vmaps;                         // number of vmaps of this thread when the function began
  std::vector<const Storage*> may_write;  // older storages that the function may write
  std::vector<NodeRef> inputs;  // the nodes that receive the gradients of the function's inputs
};

constinit thread_local ThreadValue<std::vector<Scope>> own_scopes;
std::vector<Scope>& my_scopes() { return own_scopes.get(); }
const OnEachThread free_scopes(nullptr, []() noexcept { own_scopes.clear(); });

// The functions that run on any thread. While there are some, in-place writes are checked.
struct RunningFunctions {
  std::mutex mutex;
  std::vector<uint32_t> numbers;
};
RunningFunctions& running_functions() {
  static auto* all = new RunningFunctions;  // threads may outlive static objects
  return *all;
}
void begin_function(uint32_t number) {
  RunningFunctions& all = running_functions();
  const std::lock_guard lock(all.mutex);
  all.numbers.push_back(number);
  set_watch(kWatchCaptures, true);
}
void end_function(uint32_t number) noexcept {
  RunningFunctions& all = running_functions();
  const std::lock_guard lock(all.mutex);
  std::erase(all.numbers, number);
  set_watch(kWatchCaptures, !all.numbers.empty());
}

// Calls f(level, tangent) for each visible tangent of `t`.
template <class F>
void each_tangent(const Tensor& t, F&& f) {
  if (!transforms_open() || !transformed(t)) return;
  for (const auto& level : entered_levels()) {
    if (level->id() >= thread_state.max_visible_level) break;
    if (const Tensor tangent = tangent_of(t, level->id()); tangent.defined()) f(level, tangent);
  }
}

// Searches graphs for a leaf that requires grad and is not in `apart_from`.
class LeafSearch {
 public:
  explicit LeafSearch(std::span<const Tensor> apart_from) : apart_from_(apart_from) {}
  bool from(const Tensor& handle, bool tangents) {
    const Tensor& t = physical_tensor(handle);
    if (requires_grad(t)) {
      Node* node = grad_fn(t.impl());
      if (node == nullptr ? counts(t.impl()) : walk(node)) return true;
    }
    bool found = false;
    if (tangents)
      each_tangent(t, [&](const auto&, const Tensor& tangent) { found |= from(tangent, true); });
    return found;
  }

 private:
  bool counts(const TensorImpl* leaf) const {
    return (leaf->flags & kRequiresGrad) != 0 &&
           std::none_of(apart_from_.begin(), apart_from_.end(),
                        [leaf](const Tensor& t) { return physical_tensor(t).impl() == leaf; });
  }
  bool walk(Node* root) {
    if (seen_.insert(root).second) todo_.push_back(root);
    while (!todo_.empty()) {
      Node* node = todo_.back();
      todo_.pop_back();
      if (node->is_accumulator()) {
        if (counts(static_cast<AccumulateGrad*>(node)->variable_impl())) return true;
        continue;
      }
      bool end = true;
      for (const Edge& e : node->edges()) {
        if (e.node == nullptr) continue;
        end = false;
        if (seen_.insert(e.node).second) todo_.push_back(e.node);
      }
      if (end) return true;  // an ErrorNode, for example: keep the history so that backward raises
    }
    return false;
  }

  std::span<const Tensor> apart_from_;
  std::unordered_set<const Node*> seen_;
  std::vector<Node*> todo_;
};

}  // namespace

void enter_function(std::span<const Tensor> may_write) {
  static std::atomic<uint32_t> last_number{0};
  uint32_t number = last_number.fetch_add(1, std::memory_order_relaxed) + 1;
  if (number == 0) number = last_number.fetch_add(1, std::memory_order_relaxed) + 1;
  Scope scope{number,
              capture_clock.fetch_add(1, std::memory_order_relaxed) + 1,
              thread_state.vmaps,
              {},
              {}};
  for (const Tensor& t : may_write) scope.may_write.push_back(t->storage);
  my_scopes().push_back(std::move(scope));
  begin_function(number);
}

void leave_function() noexcept {
  if (my_scopes().empty()) return;
  end_function(my_scopes().back().number);
  my_scopes().pop_back();
}

struct OnlyFunctions::Scopes {
  std::vector<Scope> list;
};
OnlyFunctions::OnlyFunctions(std::span<const uint32_t> numbers) : all_(new Scopes) {
  std::vector<Scope> some;
  for (const Scope& s : my_scopes())
    if (std::find(numbers.begin(), numbers.end(), s.number) != numbers.end()) some.push_back(s);
  all_->list = std::exchange(my_scopes(), std::move(some));
}
OnlyFunctions::~OnlyFunctions() { my_scopes().swap(all_->list); }

void set_function_inputs(std::span<const Tensor> inputs) {
  if (my_scopes().empty()) return;
  for (const Tensor& t : inputs)
    if (Node* n = gradient_edge(physical_tensor(t).impl()).node)
      my_scopes().back().inputs.push_back(NodeRef(n));
}

bool function_runs(uint32_t number) noexcept {
  RunningFunctions& all = running_functions();
  const std::lock_guard lock(all.mutex);
  return std::find(all.numbers.begin(), all.numbers.end(), number) != all.numbers.end();
}

uint32_t innermost_function() noexcept {
  return my_scopes().empty() ? 0 : my_scopes().back().number;
}

void append_function_ids(std::vector<uint32_t>& to) {
  for (const Scope& s : my_scopes()) to.push_back(s.number);
}

namespace {
// Packs a result of scope_of() for the cache; it is valid while the same function is innermost.
uint64_t answer(uint32_t found) { return uint64_t{my_scopes().back().number} << 32 | found; }
std::optional<uint32_t> known_scope(const Node& n) {
  const NodeExtra* extra = n.extra_or_null();
  if (extra == nullptr) return std::nullopt;
  const uint64_t known = extra->scope_known.load(std::memory_order_relaxed);
  if (known >> 32 != my_scopes().back().number) return std::nullopt;
  return static_cast<uint32_t>(known);
}

// True if `n` depends on an input of the function. Visits newest nodes first: those that the
// function recorded come before older ones.
bool depends_on(Node& n, const Scope& scope) {
  const auto is_input = [&](const Node* p) {
    return std::any_of(scope.inputs.begin(), scope.inputs.end(),
                       [p](const auto& i) { return i.get() == p; });
  };
  const auto older = [](const Node* a, const Node* b) { return a->sequence < b->sequence; };
  std::unordered_set<const Node*> seen{&n};
  std::vector<Node*> heap{&n};
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), older);
    Node* at = heap.back();
    heap.pop_back();
    if (is_input(at)) return true;
    // Without the cached results, a chain of hooks would take quadratic time. The cached function
    // is not an inner one: scope_of() tries inner functions first and would have found it here.
    if (const auto known = known_scope(*at)) {
      if (*known == scope.number) return true;
      continue;
    }
    for (const Edge& e : at->edges()) {
      if (e.node == nullptr || !seen.insert(e.node).second) continue;
      heap.push_back(e.node);
      std::push_heap(heap.begin(), heap.end(), older);
    }
  }
  return false;
}
}  // namespace

uint32_t scope_of(Node& n) {
  const auto& scopes = my_scopes();
  if (scopes.empty()) return 0;
  if (const auto known = known_scope(n)) return *known;
  uint32_t found = 0;
  for (size_t i = scopes.size(); i-- > 0 && found == 0;)
    if (!scopes[i].inputs.empty() && depends_on(n, scopes[i])) found = scopes[i].number;
  n.extra().scope_known.store(answer(found), std::memory_order_relaxed);
  return found;
}

bool within_function() noexcept { return !my_scopes().empty(); }

bool backward_within_vmaps() noexcept {
  const uint32_t before = my_scopes().empty() ? 0 : my_scopes().front().vmaps;
  return thread_state.vmaps == before;
}

bool function_within_vmaps(uint32_t number) noexcept {
  for (const Scope& s : my_scopes())
    if (s.number == number) return thread_state.vmaps == s.vmaps;
  return false;
}

void check_captured(const Tensor& t, const char* op) {
  if (my_scopes().empty()) return;
  const Scope& scope = my_scopes().back();
  const Storage* s = t->storage;
  // Compare by difference, as the clock may wrap around.
  if (s == nullptr || static_cast<int32_t>(s->born - scope.begin) >= 0) return;
  const auto& allowed = scope.may_write;
  if (std::find(allowed.begin(), allowed.end(), s) != allowed.end()) return;
  detail::fail(ErrorKind::Runtime,
               "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to "
               "call in-place operation (",
               op,
               ") that would mutate a captured Tensor. This is not supported; please rewrite the "
               "function being transformed to explicitly accept the mutated Tensor(s) as inputs. "
               "Buffers of a module, such as the running statistics of BatchNorm, are captured: "
               "pass them to functional_call as well, or use a layer without them, such as "
               "GroupNorm.");
}

MayWrite::MayWrite(const Tensor& t) : within_(within_function()) {
  const Tensor memory = physical_tensor(t);
  if (within_) enter_function({&memory, 1});
}
MayWrite::~MayWrite() {
  if (within_) leave_function();
}

bool is_of_function(const Tensor& t) {
  if (my_scopes().empty() || !requires_grad(t)) return false;
  const NodeRef n(gradient_edge(physical_tensor(t).impl()).node);
  return n && scope_of(*n.get()) == my_scopes().back().number;
}

Tensor recordable(const Tensor& t) {
  if ((physical_tensor(t)->flags & kInference) == 0) return t;
  return batched_like(t, autograd_ops.contiguous_clone(physical_tensor(t)));
}

Tensor without_history(const Tensor& t) {
  if (is_batched(t)) return batched_like(t, without_history(physical_tensor(t)));
  Tensor out = detach(t);
  each_tangent(t,
               [&](const auto& level, const Tensor& tangent) { set_tangent(out, level, tangent); });
  return out;
}

bool leads_to_leaf(std::span<const Tensor> from, std::span<const Tensor> apart_from) {
  LeafSearch search(apart_from);
  return std::any_of(from.begin(), from.end(),
                     [&](const Tensor& t) { return search.from(t, true); });
}

Tensor released(const Tensor& t, bool keep) {
  if (is_batched(t)) return batched_like(t, released(physical_tensor(t), keep));
  const bool recorded = requires_grad(t);
  if (recorded && keep && LeafSearch({}).from(t, false)) return t;
  bool changed = recorded;
  std::vector<std::pair<std::shared_ptr<TangentLevel>, Tensor>> tangents;
  each_tangent(t, [&](const auto& level, const Tensor& tangent) {
    Tensor mine = released(tangent, keep);
    changed |= !mine.is(tangent);
    tangents.emplace_back(level, std::move(mine));
  });
  if (!changed) return t;
  Tensor out = detach(t);
  for (auto& [level, tangent] : tangents) set_tangent(out, level, std::move(tangent));
  return out;
}

}  // namespace cograd
