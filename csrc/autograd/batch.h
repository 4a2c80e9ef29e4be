// SPDX-License-Identifier: BSD-3-Clause
// Batched tensors: what one sample of a vmap sees of a tensor that holds all of them. Such a handle
// has the sizes and strides of a sample; history and tangents belong to the whole behind it.
#pragma once
#include "autograd/levels.h"

namespace cograd {

enum class Randomness : uint8_t { Error, Different, Same };

// A vmap under way on this thread.
struct VmapLevel {
  LevelId id;
  int64_t size;
  Randomness randomness;
};
// Outermost first.
COGRAD_API const std::vector<VmapLevel>& vmap_levels() noexcept;
COGRAD_API LevelId enter_vmap(int64_t size, Randomness randomness);
COGRAD_API void leave_vmap(LevelId id);
// Makes these the vmaps under way on this thread; returns the former ones.
std::vector<VmapLevel> exchange_vmaps(std::vector<VmapLevel> levels) noexcept;
// In its scope the level is not there: one of its samples is computed as if alone.
class HiddenVmap {
 public:
  explicit HiddenVmap(LevelId id);
  ~HiddenVmap();
  HiddenVmap(const HiddenVmap&) = delete;
  HiddenVmap& operator=(const HiddenVmap&) = delete;

 private:
  VmapLevel level_;
  size_t at_;
};
// Raises, naming `who`, if it has ended or is another thread's.
COGRAD_API const VmapLevel& vmap_level(LevelId id, const char* who);

inline bool is_batched(const TensorImpl* t) noexcept { return (t->flags & kBatched) != 0; }
inline bool is_batched(const Tensor& t) noexcept { return t.defined() && is_batched(t.impl()); }
// The handle's level; 0 for others.
COGRAD_API LevelId batch_level(const Tensor& t) noexcept;
COGRAD_API LevelId highest_batch_level(std::span<const Tensor> list) noexcept;
inline bool has_samples(std::span<const Tensor> list) noexcept {
  for (const Tensor& t : list)
    if (is_batched(t)) return true;
  return false;
}
// Of a handle: what it is a handle of, and which of its dims counts the samples. Raises where the
// tensor behind it got another geometry or memory since.
COGRAD_API const Tensor& whole_of(const Tensor& handle);
COGRAD_API int batch_dim(const Tensor& handle);
// The same with the samples in dim 0.
COGRAD_API Tensor samples_first(const Tensor& handle);
// The innermost whole, which is no handle; `t` itself if it is none.
COGRAD_API const Tensor& memory_of(const Tensor& t) noexcept;

// A handle; `whole` may be one of an outer level.
COGRAD_API Tensor make_batched(const Tensor& whole, int dim, LevelId level);
// `whole`, of the sizes of memory_of(handle), behind handles as `handle` is; it may have samples of
// later vmaps besides.
COGRAD_API Tensor batched_like(const Tensor& handle, const Tensor& whole);
// `t`, of the sizes of `handle`, as a whole laid out as memory_of(handle) is: samples that `t` does
// not tell apart are equal. Of samples that `handle` has not it stays a handle.
COGRAD_API Tensor whole_like(const Tensor& handle, const Tensor& t);
// `t` with every vmap of this thread among its levels: own samples, in one memory where they are
// equal.
COGRAD_API Tensor batched_over_all(const Tensor& t);
// The same for the vmaps that `other` has samples of.
COGRAD_API Tensor batched_over_those_of(const Tensor& other, const Tensor& t);
// Whether `a` has samples of a vmap that `b`, of the same sizes, has none of.
COGRAD_API bool has_more_samples(const Tensor& a, const Tensor& b) noexcept;
// `handle` becomes one on what `with`, of the same level, is; its geometry is the caller's to
// change.
COGRAD_API void replace_samples(const Tensor& handle, const Tensor& with);
// Raises if `t` is a handle: `who` concerns a tensor, not its values.
[[noreturn]] COGRAD_API void fail_handle(const char* who);
inline void check_no_handle(const Tensor& t, const char* who) {
  if (is_batched(t)) [[unlikely]]
    fail_handle(who);
}
// Whether `t`, the same for all samples of a level, has a tangent that is not, or has one itself.
COGRAD_API bool has_tangent_samples(const Tensor& t, LevelId level);
// `t`, which has no samples of the level, with as many in a new dim 0, equal but for tangents.
COGRAD_API Tensor equal_samples(const Tensor& t, LevelId level, int64_t samples);
// What is not possible for several samples at once, and is for one after the other.
class ReadsSamples : public Error {
 public:
  using Error::Error;
  // Those that ran when it was raised: an error of theirs is none of the formula that met them.
  const SavedHookInUse* hooks = thread_state.hooks_in_use;
};
[[noreturn]] COGRAD_API void refuse_samples(std::string text);
// Whether this thread says so where a call runs sample by sample; the former answer.
COGRAD_API bool tell_of_loops(bool on) noexcept;
COGRAD_API bool tells_of_loops() noexcept;
COGRAD_API void warn_once(const std::string& text);  // once in the process
// Raises if `t` is a handle: `who` needs the values of one tensor.
[[noreturn]] COGRAD_API void fail_one_value(const char* who);
inline void check_one_value(const Tensor& t, const char* who) {
  if (is_batched(t)) [[unlikely]]
    fail_one_value(who);
}

}  // namespace cograd
