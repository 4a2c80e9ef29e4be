// SPDX-License-Identifier: BSD-3-Clause
// Handles on the samples of a batch, and the vmaps they belong to.
#include "autograd/batch.h"

#include <algorithm>

namespace cograd {

namespace {

std::vector<VmapLevel>& my_vmaps() noexcept {
  thread_local std::vector<VmapLevel> levels;
  return levels;
}

const TransformMeta& meta_of_handle(const Tensor& t) { return *t->meta->transform; }

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
  open_levels.fetch_add(1, std::memory_order_relaxed);
  return my_vmaps().back().id;
}

void leave_vmap(LevelId id) {
  COGRAD_CHECK(!my_vmaps().empty() && my_vmaps().back().id == id,
               "vmap: the level that is left is not the innermost one");
  my_vmaps().pop_back();
  --thread_state.vmaps;
  open_levels.fetch_sub(1, std::memory_order_relaxed);
}

const VmapLevel& vmap_level(LevelId id, const char* who) {
  for (const VmapLevel& l : my_vmaps())
    if (l.id == id) return l;
  detail::fail(ErrorKind::Runtime, who,
               "(): got a tensor from inside of a vmap that has ended, or that runs on another "
               "thread. Return it from the function that is vmapped instead of keeping it.");
}

LevelId batch_level(const Tensor& t) noexcept {
  return is_batched(t) ? meta_of_handle(t).batch_level : 0;
}
const Tensor& whole_of(const Tensor& handle) { return meta_of_handle(handle).whole; }
int batch_dim(const Tensor& handle) { return meta_of_handle(handle).batch_dim; }
Tensor samples_first(const Tensor& handle) { return moved(whole_of(handle), batch_dim(handle), 0); }

const Tensor& memory_of(const Tensor& t) {
  const Tensor* at = &t;
  while (is_batched(*at)) at = &whole_of(*at);
  return *at;
}

Tensor make_batched(const Tensor& whole, int dim, LevelId level) {
  TensorImpl* p = TensorImpl::make(whole.dtype(), whole.dim() - 1);
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
  if (requires_grad(whole)) p->flags |= kRequiresGrad;
  TransformMeta& m = transform_of(p);
  m.whole = whole;
  m.batch_dim = dim;
  m.batch_level = level;
  return out;
}

Tensor batched_like(const Tensor& handle, const Tensor& whole) {
  if (!is_batched(handle)) return whole;
  return make_batched(batched_like(whole_of(handle), whole), batch_dim(handle),
                      batch_level(handle));
}

Tensor whole_like(const Tensor& handle, const Tensor& t, const char* who) {
  const LevelId level = batch_level(handle);
  COGRAD_CHECK(batch_level(t) <= level, who,
               "(): a tensor with a value for each sample of a vmap meets one that is the same for "
               "all of them, and cannot be its gradient or tangent");
  if (level == 0) return t;
  const Tensor& whole = whole_of(handle);
  const Tensor samples =
      batch_level(t) == level ? samples_first(t) : expanded(t, whole.size(batch_dim(handle)));
  return whole_like(whole, moved(samples, 0, batch_dim(handle)), who);
}

Tensor batched_over_all(const Tensor& t) {
  // From the outermost in: a handle of an inner level is one on a handle of the outer.
  std::vector<VmapLevel> missing;
  for (const VmapLevel& l : my_vmaps()) missing.push_back(l);
  Tensor inner = t;
  std::vector<std::pair<LevelId, int>> around;  // innermost first
  while (is_batched(inner)) {
    around.emplace_back(batch_level(inner), batch_dim(inner));
    std::erase_if(missing, [&](const VmapLevel& l) { return l.id == around.back().first; });
    inner = Tensor(whole_of(inner));
  }
  if (missing.empty()) return t;
  // New samples in front of all dims; the known ones move up by as many.
  for (size_t i = missing.size(); i-- > 0;) inner = expanded(inner, missing[i].size);
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

void fail_one_value(const char* who) {
  throw ReadsSamples(
      ErrorKind::Runtime,
      detail::concat(
          "vmap: It looks like you're calling ", who,
          " on a Tensor inside of a vmap, where it has one value for each sample. Do not "
          "let the program depend on values: choose with where(condition, a, b), or run "
          "this part in a loop over the samples outside of vmap."));
}

}  // namespace cograd
