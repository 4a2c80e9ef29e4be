// SPDX-License-Identifier: BSD-3-Clause
// Tangents of tensors: where they are stored, how views share them, when they end.
#include <algorithm>

#include "autograd/graph/copy_slices.h"
#include "tensor/thread_locals.h"
#include "transforms/batch.h"
#include "transforms/written.h"

namespace cograd {

void (*keep_for_collector)(TensorImpl*) noexcept = nullptr;

namespace {

std::atomic<LevelId> last_level{0};

constinit thread_local ThreadValue<std::vector<std::shared_ptr<TangentLevel>>> own_levels;
std::vector<std::shared_ptr<TangentLevel>>& my_levels() noexcept { return own_levels.get(); }
const OnEachThread free_levels(nullptr, []() noexcept { own_levels.clear(); });

Tangent* own_tangent(const TensorImpl* t, LevelId level) noexcept {
  const TransformMeta* m = transform_or_null(t);
  if (m == nullptr) return nullptr;
  for (const auto& entry : m->tangents)
    if (entry->id() == level) return entry.get();
  return nullptr;
}

std::shared_ptr<TangentLevel> highest_of(const TensorImpl* t) {
  const TransformMeta* m = (t->flags & kDual) != 0 ? transform_or_null(t) : nullptr;
  if (m == nullptr) return nullptr;
  const auto& list = m->tangents;
  for (size_t i = list.size(); i-- > 0;)
    if (list[i]->id() < thread_state.max_visible_level && list[i]->value().defined())
      return list[i]->level();
  return nullptr;
}

// Returns the part of the base's tangent that belongs to the view; undefined if the layouts differ.
Tensor part_for_view(const TensorImpl* view, const Tensor& whole) {
  const TensorImpl* base = view->base;
  if (view->storage != base->storage || !same(whole.strides(), base->strides())) return {};
  const int64_t start = whole.bytes() - static_cast<char*>(whole->storage->data);
  return region_of_base(whole, view, start + (view->data - base->data));
}

// True if elements share memory, or might: decided from the strides alone.
bool overlaps_itself(const TensorImpl* t) {
  SmallVec<std::pair<int64_t, int64_t>, 8> dims;  // (stride, size)
  for (int i = 0; i < t->ndim; ++i)
    if (t->sizes_[i] > 1) dims.push_back({t->strides_[i], t->sizes_[i]});
  std::sort(dims.begin(), dims.end());
  int64_t reach = 0;
  for (const auto& [stride, size] : dims) {
    if (stride <= reach) return true;
    reach += stride * (size - 1);
  }
  return false;
}

void check_tangent(const Tensor& t, const Tensor& tangent, LevelId level) {
  COGRAD_CHECK(
      !transformed(tangent) || is_batched(tangent) || !tangent_of(tangent, level).defined(),
      "Setting a forward grad that itself has a forward gradient at the same level is not "
      "supported.");
  COGRAD_CHECK(same(t.sizes(), tangent.sizes()),
               "Trying to set a forward gradient that has a different size than that of the "
               "original Tensor, this is not supported. Tensor is of size ",
               to_string(t.sizes()), " while the given forward gradient is of size ",
               to_string(tangent.sizes()), ".");
}

void attach(TensorImpl* t, const std::shared_ptr<TangentLevel>& level, Tensor value) {
  auto& list = transform_of(t).tangents;
  const auto at = std::find_if(list.begin(), list.end(),
                               [&](const auto& entry) { return entry->id() >= level->id(); });
  if (at != list.end() && (*at)->id() == level->id())
    (*at)->set_value(std::move(value));
  else
    list.insert(at, std::make_unique<Tangent>(level, std::move(value)));
  t->flags |= kDual;
}

}  // namespace

TransformMeta& transform_of(TensorImpl* t) {
  AutogradMeta& m = meta_of(t);
  if (m.transform == nullptr) m.transform = std::make_unique<TransformMeta>();
  return static_cast<TransformMeta&>(*m.transform);
}

LevelId next_level() noexcept { return last_level.fetch_add(1, std::memory_order_relaxed) + 1; }

// --- dual levels -------------------------------------------------------------------------------

TangentLevel::TangentLevel() : id_(next_level()) {
  open_stages.fetch_add(1, std::memory_order_relaxed);
}

TangentLevel::~TangentLevel() { close(); }

void TangentLevel::close() noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(open_, false)) return;
  }
  while (true) {
    Tensor dropped;  // freed after the lock: tensors that die with it may have tangents here
    const std::lock_guard lock(mutex_);
    Tangent* t = first_;
    if (t == nullptr) break;
    dropped.swap(t->value_);
    first_ = t->after_;
    if (first_ != nullptr) first_->before_ = nullptr;
    t->after_ = nullptr;
  }
  open_stages.fetch_sub(1, std::memory_order_relaxed);
}

Tangent::Tangent(std::shared_ptr<TangentLevel> level, Tensor value) : level_(std::move(level)) {
  const std::lock_guard lock(level_->mutex_);
  if (!level_->open_) return;  // the level has ended: the value stays undefined
  value_ = std::move(value);
  after_ = level_->first_;
  if (after_ != nullptr) after_->before_ = this;
  level_->first_ = this;
}

Tangent::~Tangent() {
  Tensor dropped;
  const std::lock_guard lock(level_->mutex_);
  dropped.swap(value_);
  if (before_ != nullptr) before_->after_ = after_;
  if (after_ != nullptr) after_->before_ = before_;
  if (level_->first_ == this) level_->first_ = after_;
}

Tensor Tangent::value() const {
  const std::lock_guard lock(level_->mutex_);
  return value_;
}

void Tangent::set_value(Tensor value) {
  const std::lock_guard lock(level_->mutex_);
  if (level_->open_) value_.swap(value);
}

const std::vector<std::shared_ptr<TangentLevel>>& entered_levels() noexcept { return my_levels(); }

std::vector<std::shared_ptr<TangentLevel>> exchange_levels(
    std::vector<std::shared_ptr<TangentLevel>> levels) noexcept {
  my_levels().swap(levels);
  return levels;
}

const std::shared_ptr<TangentLevel>& enter_level() {
  return my_levels().emplace_back(std::make_shared<TangentLevel>());
}

void leave_level(const TangentLevel& level) {
  auto& levels = my_levels();
  COGRAD_CHECK(!levels.empty() && levels.back().get() == &level,
               "Trying to exit a forward AD level that was not the last one that was created. This "
               "is not supported.");
  const std::shared_ptr<TangentLevel> last = std::move(levels.back());
  levels.pop_back();
  last->close();
}

// --- tangents ----------------------------------------------------------------------------------

std::shared_ptr<TangentLevel> tangent_level(const Tensor& t) {
  if (!t.defined()) return nullptr;
  std::shared_ptr<TangentLevel> own = highest_of(t.impl());
  if (t->base == nullptr) return own;
  std::shared_ptr<TangentLevel> by_base = highest_of(t->base);
  if (own == nullptr || (by_base != nullptr && by_base->id() > own->id())) return by_base;
  return own;
}

bool has_tangent(const Tensor& t) {
  if (is_batched(t)) return has_tangent(physical_tensor(t));
  const auto any = [](const TensorImpl* p) {
    const TransformMeta* m = p != nullptr ? transform_or_null(p) : nullptr;
    if (m == nullptr) return false;
    const auto& list = m->tangents;
    return std::any_of(list.begin(), list.end(),
                       [](const auto& entry) { return entry->value().defined(); });
  };
  return any(t.impl()) || any(t->base);
}

void fail_tangent_lost(const char* who) {
  detail::fail(
      ErrorKind::Runtime, who,
      ": forward mode over the backward of a function that is differentiable once: this "
      "tensor has a tangent, and reading its elements would lose it. Compute that backward "
      "in recorded operations, or differentiate the jvp instead (reverse over forward)");
}

Tensor tangent_of(const Tensor& t, LevelId level) {
  if (const Tangent* own = own_tangent(t.impl(), level)) return own->value();
  if (t->base == nullptr) return {};
  const Tangent* whole = own_tangent(t->base, level);
  const Tensor value = whole != nullptr ? whole->value() : Tensor();
  if (!value.defined()) return {};
  const LevelsBelow mask(level);
  // Not cached: other threads may be reading `t` too, and the base may get another tangent.
  Tensor part = part_for_view(t.impl(), value);
  COGRAD_CHECK(
      part.defined(),
      "forward AD: the tangent of a view that was made before its base got one is not "
      "known, as elements of the base share memory. Make the view afterwards, of a clone().");
  return part;
}

void set_tangent(const Tensor& t, const std::shared_ptr<TangentLevel>& level, Tensor tangent) {
  check_tangent(t, tangent, level->id());
  const LevelsBelow mask(level->id());
  if (tangent.dtype() != t.dtype()) tangent = autograd_ops.cast(tangent, t.dtype());
  if (!same(tangent.strides(), t.strides()))
    tangent = overlaps_itself(t.impl()) ? autograd_ops.contiguous_clone(tangent)
                                        : autograd_ops.relayout(tangent, t.strides());
  attach(t.impl(), level, std::move(tangent));
}

void copy_tangents(const Tensor& from, const Tensor& to) {
  const TransformMeta* m = transform_or_null(from.impl());
  if (m == nullptr) return;
  for (const auto& entry : m->tangents)
    if (Tensor value = entry->value(); value.defined())
      attach(to.impl(), entry->level(), std::move(value));
}

namespace {

// Batches the tangent of `t`, or of its base if `t` is a view, at the vmap levels of `tangent`,
// which is about to be written into it.
void batch_tangent(const Tensor& t, const std::shared_ptr<TangentLevel>& level,
                   const Tensor& tangent) {
  const Tensor owner = t->base != nullptr ? Tensor::borrow(t->base) : t;
  Tangent* whole = own_tangent(owner.impl(), level->id());
  Tensor old = whole != nullptr ? whole->value() : Tensor();
  if (old.defined()) {
    const Tangent* part = t->base != nullptr ? own_tangent(t.impl(), level->id()) : nullptr;
    const uint32_t known = part != nullptr && part->value().defined() ? 2 : 1;
    if (physical_tensor(old)->storage->refs.load(std::memory_order_relaxed) > known)
      throw_cannot_batch(
          "forward AD inside of a vmap: a batched tangent is written into a tensor whose tangent "
          "is not batched and is shared by views. Write into a clone() instead.");
  } else {
    const PlaceGuard here(owner->device);
    old = autograd_ops.zeros(owner.sizes(), owner.dtype());
  }
  set_tangent(owner, level, autograd_ops.clone(batched_like_levels_of(tangent, old)));
  if (t->base == nullptr) return;
  Tensor part = part_for_view(t.impl(), own_tangent(owner.impl(), level->id())->value());
  COGRAD_CHECK(part.defined(),
               "forward AD: a tensor with a tangent was written into a view whose base has "
               "another layout, which is not supported. Write into a clone() instead.");
  attach(t.impl(), level, std::move(part));
}

}  // namespace

void write_tangent(const Tensor& t, const std::shared_ptr<TangentLevel>& level,
                   const Tensor& tangent) {
  const LevelsBelow mask(level->id());
  Tensor mine = tangent_of(t, level->id());
  if (!mine.defined() && !tangent.defined()) return;
  if (!mine.defined() && t->base == nullptr) return set_tangent(t, level, tangent);
  if (!mine.defined() || (tangent.defined() && has_more_levels(tangent, mine))) {
    batch_tangent(t, level, tangent);
    mine = tangent_of(t, level->id());
  }
  autograd_ops.copy_(mine, tangent.defined() ? tangent : autograd_ops.zeros({}, mine.dtype()));
  if (thread_state.grad_enabled && keep_for_collector != nullptr) keep_for_collector(mine.impl());
}

}  // namespace cograd
