// SPDX-License-Identifier: BSD-3-Clause
// Recorded writes to memory that several tensors with separate histories share.
#include "autograd/graph/shared_writes.h"

#include <algorithm>
#include <mutex>

#include "autograd/graph/variable.h"

namespace cograd {

// A tensor that shares writes. Its AutogradMeta owns it, as do the sharers made from that tensor.
class Sharer {
 public:
  // All tensors that share writes to one memory. It owns none of them.
  struct Group {
    std::mutex mutex;  // guards all members, and those of the sharers
    uint32_t writes = 0;
    size_t shorten_at = 8;  // number of sharers from which chains are shortened
    std::string module;
    std::string writer;  // name of the node of the last write
    std::vector<Sharer*> alive;
  };

  // True if this tensor was made from that of `other`, directly or not.
  bool made_from(const Sharer* other) const noexcept {
    const Sharer* s = source.get();
    while (s != nullptr && s != other) s = s->source.get();
    return s != nullptr;
  }
  bool current() const noexcept { return known == group->writes; }

  std::shared_ptr<Group> group;
  std::shared_ptr<Sharer> source;  // null: this tensor was made from none that shares writes
  TensorImpl* tensor;              // null once the tensor is gone
  uint32_t known;                  // the number of writes when the history was right
};

namespace {

Sharer* sharer_of(const TensorImpl* t) noexcept { return t->meta->sharer.get(); }

std::shared_ptr<Sharer> enter(const std::shared_ptr<Sharer::Group>& group, TensorImpl* t) {
  auto s = std::make_shared<Sharer>();
  s->group = group;
  s->tensor = t;
  s->known = group->writes;
  return s;
}

// Skips sources that are gone, so that chains have at most twice as many members as tensors live.
void shorten(Sharer::Group& group) {
  if (group.alive.size() < group.shorten_at) return;
  group.shorten_at = 2 * group.alive.size();
  for (Sharer* s : group.alive)
    while (s->source != nullptr && s->source->tensor == nullptr) {
      const std::shared_ptr<Sharer> gone = std::move(s->source);
      s->source = gone->source;
    }
}

// Returns the former history, which the caller must release without holding the group's lock.
NodeRef exchange_history(Sharer& s, Node* node, uint32_t nr) {
  s.known = s.group->writes;
  s.tensor->flags |= kRewritten;
  return replace_history(s.tensor, NodeRef::borrow(node).take(), nr);
}

// Records a change of the history of `s` that all others over `data` lack. Others may be elsewhere:
// `x.data = y` gives x other memory.
void note_change(Sharer& s, const void* data, std::string what) {
  Sharer::Group& group = *s.group;
  const uint32_t before = group.writes++;
  for (Sharer* other : group.alive)
    if (other->known == before && other->tensor->storage->data != data) other->known = group.writes;
  s.known = group.writes;
  group.writer = std::move(what);
}

// Returns a tensor made from that of `s` which has all writes in its history; null if there is
// none.
const TensorImpl* with_all_writes(const Sharer& s) noexcept {
  for (const Sharer* other : s.group->alive)
    if (other->current() && other->made_from(&s) && has_grad_fn(other->tensor) &&
        same_place(other->tensor, s.tensor))
      return other->tensor;
  return nullptr;
}

[[noreturn, gnu::cold]] void fail_unknown_write(const Sharer& s) {
  detail::fail(
      ErrorKind::Runtime, "a tensor of shape ", to_string(s.tensor->sizes()),
      " cannot be used in the graph, because its history lacks an in-place write. It shares "
      "its memory with a tensor that ",
      s.group->writer, " changed after module ", s.group->module,
      ", which has a full backward hook, received or returned it. Use the tensor that was "
      "changed, or clone() one of the two before the change.");
}

}  // namespace

bool same_place(const TensorImpl* a, const TensorImpl* b) noexcept {
  return a->data == b->data && a->dtype == b->dtype && same(a->sizes(), b->sizes()) &&
         same(a->strides(), b->strides());
}

void share_writes(const Tensor& source, const Tensor& alias, const char* who) {
  COGRAD_CHECK(!source.is(alias) && source->base == nullptr && alias->base == nullptr &&
                   source->storage == alias->storage &&
                   ((source->flags | alias->flags) & kBatched) == 0,
               "_share_writes: needs two tensors over one storage, neither a view");
  if ((alias->flags & kSharesWrites) != 0) leave_shared_writes(alias.impl());
  std::shared_ptr<Sharer>& from = meta_of(source.impl()).sharer;
  std::shared_ptr<Sharer>& to = meta_of(alias.impl()).sharer;
  if (from == nullptr) {
    auto group = std::make_shared<Sharer::Group>();
    group->module = who;
    from = enter(group, source.impl());
    group->alive.push_back(from.get());
    source->flags |= kSharesWrites;
  }
  Sharer::Group& group = *from->group;
  const std::lock_guard lock(group.mutex);
  to = enter(from->group, alias.impl());
  to->source = from;
  group.alive.push_back(to.get());
  alias->flags |= kSharesWrites;
  shorten(group);
}

Node* shared_history(TensorImpl* t) {
  if (!has_grad_fn(t)) return nullptr;
  Sharer& s = *sharer_of(t);
  NodeRef old;  // released after the lock
  const std::lock_guard lock(s.group->mutex);
  if (s.current()) return t->grad_fn;
  const TensorImpl* other = with_all_writes(s);
  if (other == nullptr) fail_unknown_write(s);
  old = exchange_history(s, other->grad_fn, other->output_nr);
  return t->grad_fn;
}

bool knows_all_writes(const TensorImpl* t) {
  if ((t->flags & kSharesWrites) == 0) return true;
  const Sharer& s = *sharer_of(t);
  const std::lock_guard lock(s.group->mutex);
  return s.current();
}

void take_history(TensorImpl* t, Node* node, uint32_t nr) {
  NodeRef old;  // released after the lock
  if ((t->flags & kSharesWrites) == 0) {
    t->flags |= kRewritten;
    old = replace_history(t, NodeRef::borrow(node).take(), nr);
    return;
  }
  Sharer& s = *sharer_of(t);
  const std::lock_guard lock(s.group->mutex);
  old = exchange_history(s, node, nr);
}

void note_shared_write(TensorImpl* t, const TensorImpl* written, const Node& node) {
  Sharer& s = *sharer_of(t);
  std::string writer = node.name();
  std::vector<NodeRef> old;  // released after the lock
  const std::lock_guard lock(s.group->mutex);
  note_change(s, written->storage->data, std::move(writer));
  // A tensor that retains its gradient gets that of its new values, as if it were `t` itself.
  for (Sharer* to = s.source.get(); to != nullptr; to = to->source.get())
    if (to->tensor != nullptr && (to->tensor->flags & kRetainsGrad) != 0 && !to->current() &&
        same_place(to->tensor, t))
      old.push_back(exchange_history(*to, t->grad_fn, t->output_nr));
}

void note_detach(TensorImpl* t) {
  Sharer& s = *sharer_of(t);
  const std::lock_guard lock(s.group->mutex);
  note_change(s, t->storage->data, "detach_()");
  s.source.reset();
}

void leave_shared_writes(TensorImpl* t) noexcept {
  const std::shared_ptr<Sharer> self = std::move(t->meta->sharer);
  t->flags &= ~uint32_t{kSharesWrites};
  const std::lock_guard lock(self->group->mutex);
  self->tensor = nullptr;
  std::erase(self->group->alive, self.get());
}

void pass_history_on(TensorImpl* t) noexcept {
  const Sharer& self = *sharer_of(t);
  NodeRef old;  // released after the lock
  const std::lock_guard lock(self.group->mutex);
  if (!self.current() || !has_grad_fn(t)) return;
  Sharer* to = self.source.get();
  // A tensor without a Python object is only saved by nodes: with this history it might form a
  // cycle that the collector does not see.
  while (to != nullptr && (to->tensor == nullptr || to->tensor->pyobj == nullptr))
    to = to->source.get();
  if (to != nullptr && !to->current() && has_grad_fn(to->tensor) && same_place(to->tensor, t))
    old = exchange_history(*to, t->grad_fn, t->output_nr);
}

}  // namespace cograd
