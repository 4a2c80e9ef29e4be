// SPDX-License-Identifier: BSD-3-Clause
// Batched tensors, and the vmaps they belong to.
#include "transforms/batch.h"

#include <algorithm>
#include <mutex>
#include <set>

#include "tensor/thread_locals.h"
#include "tensor/warn.h"

namespace cograd {

namespace {

constinit thread_local ThreadValue<std::vector<VmapLevel>> own_levels;
std::vector<VmapLevel>& my_vmaps() noexcept { return own_levels.get(); }
const OnEachThread free_levels(nullptr, []() noexcept { own_levels.clear(); });

const TransformMeta& meta_of_handle(const Tensor& t) noexcept {
  return *transform_or_null(t.impl());
}
const Tensor& unchecked_whole(const Tensor& handle) noexcept {
  return meta_of_handle(handle).whole;
}

// False if the function under vmap gave the wrapped tensor other memory or other dims meanwhile.
bool is_sample_of(const TensorImpl& handle, const TensorImpl& whole, int dim) noexcept {
  if (handle.storage != whole.storage || handle.data != whole.data || handle.dtype != whole.dtype ||
      handle.ndim + 1 != whole.ndim)
    return false;
  for (int i = 0; i < handle.ndim; ++i) {
    const int at = i < dim ? i : i + 1;
    if (handle.sizes_[i] != whole.sizes_[at] || handle.strides_[i] != whole.strides_[at])
      return false;
  }
  return true;
}

Tensor moved(const Tensor& t, int from, int to) {
  if (from == to) return t;
  Dims order;
  for (int i = 0; i < t.dim(); ++i)
    if (i != from) order.push_back(i);
  order.insert(static_cast<size_t>(to), from);
  return autograd_ops.permute(t, order);
}

Tensor expanded(const Tensor& t, int64_t samples) {
  Dims sizes{samples};
  for (const int64_t n : t.sizes()) sizes.push_back(n);
  return autograd_ops.expand(t, sizes);
}

}  // namespace

const std::vector<VmapLevel>& vmap_levels() noexcept { return my_vmaps(); }

LevelId enter_vmap(int64_t size, Randomness randomness) {
  my_vmaps().push_back({next_level(), size, randomness});
  ++thread_state.vmaps;
  open_stages.fetch_add(1, std::memory_order_relaxed);
  return my_vmaps().back().id;
}

void leave_vmap(LevelId id) {
  COGRAD_CHECK(!my_vmaps().empty() && my_vmaps().back().id == id,
               "vmap: the vmap level to leave is not the innermost one");
  my_vmaps().pop_back();
  --thread_state.vmaps;
  open_stages.fetch_sub(1, std::memory_order_relaxed);
}

const VmapLevel& vmap_level(LevelId id, const char* who) {
  for (const VmapLevel& l : my_vmaps())
    if (l.id == id) return l;
  detail::fail(ErrorKind::Runtime, who,
               "(): got a tensor from inside of a vmap that has ended, or that runs on another "
               "thread. Return it from the function that is vmapped instead of keeping it.");
}

std::vector<VmapLevel> exchange_vmaps(std::vector<VmapLevel> levels) noexcept {
  my_vmaps().swap(levels);
  thread_state.vmaps = static_cast<uint32_t>(my_vmaps().size());
  return levels;
}

HiddenVmap::HiddenVmap(LevelId id) : level_(vmap_level(id, "vmap")) {
  auto& levels = my_vmaps();
  const auto at =
      std::find_if(levels.begin(), levels.end(), [id](const VmapLevel& l) { return l.id == id; });
  at_ = static_cast<size_t>(at - levels.begin());
  levels.erase(at);
  --thread_state.vmaps;
}
HiddenVmap::~HiddenVmap() {
  auto& levels = my_vmaps();  // insert() cannot allocate: the vector held one more before
  levels.insert(levels.begin() + static_cast<std::ptrdiff_t>(at_), level_);
  ++thread_state.vmaps;
}

LevelId batch_level(const Tensor& t) noexcept {
  return is_batched(t) ? meta_of_handle(t).batch_level : 0;
}
LevelId highest_batch_level(std::span<const Tensor> list) noexcept {
  LevelId level = 0;
  for (const Tensor& t : list) level = std::max(level, batch_level(t));
  return level;
}
const Tensor& wrapped_tensor(const Tensor& handle) {
  const TransformMeta& m = meta_of_handle(handle);
  COGRAD_CHECK(is_sample_of(*handle.impl(), *m.whole.impl(), m.batch_dim),
               "vmap: the data, dtype, shape or strides of a tensor were replaced while a vmap ran "
               "over it: a sample of shape ",
               to_string(handle.sizes()), " no longer matches the tensor of shape ",
               to_string(m.whole.sizes()), ". Change the tensor before or after the vmap.");
  return m.whole;
}
int batch_dim(const Tensor& handle) { return meta_of_handle(handle).batch_dim; }
Tensor batch_dim_first(const Tensor& handle) {
  return moved(wrapped_tensor(handle), batch_dim(handle), 0);
}

const Tensor& physical_tensor(const Tensor& t) noexcept {
  const Tensor* at = &t;
  while (is_batched(*at)) at = &unchecked_whole(*at);
  return *at;
}

Tensor make_batched(const Tensor& whole, int dim, LevelId level) {
  COGRAD_CHECK(dim >= 0 && dim < whole.dim(), "vmap: a tensor of shape ", to_string(whole.sizes()),
               " has no dim ", dim, " for its samples");
  TensorImpl* p = TensorImpl::make(whole.dtype(), whole.dim() - 1);
  p->device = whole->device;
  Tensor out = Tensor::steal(p);
  whole->storage->retain();
  p->storage = whole->storage;
  p->data = whole->data;
  for (int i = 0, k = 0; i < whole.dim(); ++i) {
    if (i == dim) continue;
    p->sizes_[k] = whole->sizes_[i];
    p->strides_[k++] = whole->strides_[i];
  }
  p->refresh_geometry();
  p->flags |= kBatched | (whole->flags & (kInference | kTaint));
  TransformMeta& m = transform_of(p);
  m.whole = whole;
  m.batch_dim = dim;
  m.batch_level = level;
  open_stages.fetch_add(1, std::memory_order_relaxed);
  return out;
}

namespace {

bool any_batched(const Tensor& t, LevelId level) noexcept {
  const Tensor* at = &t;
  while (is_batched(*at) && batch_level(*at) != level) at = &unchecked_whole(*at);
  return is_batched(*at);
}

// Like batched_like, for a `whole` with `lead` more dims in front of those of the physical tensor.
Tensor wrapped_like(const Tensor& handle, const Tensor& whole, int lead) {
  if (is_batched(whole))  // by a vmap that began later: its wrapper goes around the others
    return make_batched(wrapped_like(handle, batch_dim_first(whole), lead + 1), 0,
                        batch_level(whole));
  if (!is_batched(handle)) return whole;
  return make_batched(wrapped_like(wrapped_tensor(handle), whole, lead), lead + batch_dim(handle),
                      batch_level(handle));
}

// Like physical_like, for a `t` with `lead` more dims in front, which stay there.
Tensor laid_out_like(const Tensor& handle, const Tensor& t, int lead) {
  const LevelId level = batch_level(handle);
  if (batch_level(t) > level)
    return make_batched(laid_out_like(handle, batch_dim_first(t), lead + 1), 0, batch_level(t));
  if (level == 0) return t;
  const Tensor& whole = wrapped_tensor(handle);
  const int dim = batch_dim(handle);
  const Tensor samples =
      batch_level(t) == level ? batch_dim_first(t) : expand_samples(t, level, whole.size(dim));
  return laid_out_like(whole, moved(samples, 0, lead + dim), lead);
}

}  // namespace

Tensor batched_like(const Tensor& handle, const Tensor& whole) {
  return wrapped_like(handle, whole, 0);
}

Tensor physical_like(const Tensor& handle, const Tensor& t) { return laid_out_like(handle, t, 0); }

namespace {

// Returns `t` batched at its own vmap levels and at those in `missing`, which are outermost first.
Tensor batched_over(const Tensor& t, std::vector<VmapLevel> missing) {
  // Unwrap all levels: a batched tensor of an inner level wraps one of the outer level.
  Tensor inner = t;
  std::vector<std::pair<LevelId, int>> around;  // innermost first
  while (is_batched(inner)) {
    around.emplace_back(batch_level(inner), batch_dim(inner));
    std::erase_if(missing, [&](const VmapLevel& l) { return l.id == around.back().first; });
    inner = Tensor(wrapped_tensor(inner));
  }
  if (missing.empty()) return t;
  // New batch dims go in front of all dims and shift the existing batch dims.
  for (size_t i = missing.size(); i-- > 0;)
    inner = expand_samples(inner, missing[i].id, missing[i].size);
  Tensor out = inner;
  size_t known = around.size(), fresh = 0;
  for (const VmapLevel& l : my_vmaps()) {
    const bool is_new = fresh < missing.size() && missing[fresh].id == l.id;
    if (is_new) {
      out = make_batched(out, 0, l.id);
      ++fresh;
    } else if (known > 0 && around[known - 1].first == l.id) {
      --known;
      out =
          make_batched(out, around[known].second + static_cast<int>(missing.size() - fresh), l.id);
    }
  }
  return out;
}

}  // namespace

Tensor batched_over_all(const Tensor& t) { return batched_over(t, my_vmaps()); }

Tensor batched_like_levels_of(const Tensor& other, const Tensor& t) {
  std::vector<VmapLevel> levels = my_vmaps();
  std::erase_if(levels, [&](const VmapLevel& l) { return !any_batched(other, l.id); });
  return batched_over(t, std::move(levels));
}

static constinit thread_local bool t_tells = true;
bool tell_of_loops(bool on) noexcept { return std::exchange(t_tells, on); }
bool warns_of_loops() noexcept { return t_tells; }
void warn_once(const std::string& text) {
  static std::mutex mutex;
  static auto* told = new std::set<std::string, std::less<>>;
  {
    const std::lock_guard lock(mutex);
    if (!told->insert(text).second) return;
  }
  warn(text);
}

bool has_more_levels(const Tensor& a, const Tensor& b) noexcept {
  for (const Tensor* t = &a; is_batched(*t); t = &unchecked_whole(*t))
    if (!any_batched(b, batch_level(*t))) return true;
  return false;
}

void rewrap(const Tensor& handle, const Tensor& with) {
  TransformMeta& m = transform_of(handle.impl());
  m.whole = wrapped_tensor(with);
  m.batch_dim = batch_dim(with);
}

void fail_batched(const char* who) {
  detail::fail(ErrorKind::Runtime, "vmap: ", who,
               " is not possible on a Tensor inside of a vmap, which is one sample of another "
               "tensor. Do it outside of the vmap, to the tensor that holds all samples.");
}

namespace {

// Returns `t` with the samples of `level` in dim 0; it stays batched at other levels. The samples
// are equal if `t` is not batched at `level`.
Tensor taken_out(const Tensor& t, LevelId level, int64_t samples) {
  if (!any_batched(t, level)) return expand_samples(t, level, samples);
  if (batch_level(t) == level) return batch_dim_first(t);
  return make_batched(taken_out(batch_dim_first(t), level, samples), 1, batch_level(t));
}

}  // namespace

bool has_tangent_samples(const Tensor& t, LevelId level) {
  if (any_batched(t, level)) return false;
  const Tensor& memory = physical_tensor(t);
  const TransformMeta* m = transform_or_null(memory.impl());
  if (m == nullptr) return false;
  for (const auto& entry : m->tangents) {
    const Tensor value = entry->value();
    if (value.defined() && (any_batched(value, level) || has_tangent_samples(value, level)))
      return true;
  }
  return false;
}

Tensor expand_samples(const Tensor& t, LevelId level, int64_t samples) {
  if (!has_tangent_samples(t, level)) return expanded(t, samples);
  if (is_batched(t)) return wrapped_like(t, expand_samples(physical_tensor(t), level, samples), 1);
  const auto& tangents = transform_or_null(t.impl())->tangents;
  Tensor out;
  {
    const LevelsBelow mask(tangents.front()->id());
    out = expanded(t, samples);
  }
  for (const auto& entry : tangents) {
    const Tensor value = entry->value();
    if (!value.defined() || entry->id() >= thread_state.max_visible_level) continue;
    set_tangent(out, entry->level(), taken_out(value, level, samples));
  }
  return out;
}

void throw_cannot_batch(std::string text) {
  throw CannotBatch(ErrorKind::Runtime, std::move(text));
}

void fail_one_value(const char* who) {
  throw_cannot_batch(detail::concat(
      "vmap: It looks like you're calling ", who,
      " on a Tensor inside of a vmap, where it has one value for each sample. Do not "
      "let the program depend on values: choose with where(condition, a, b), or run "
      "this part in a loop over the samples outside of vmap."));
}

}  // namespace cograd
