// SPDX-License-Identifier: BSD-3-Clause
// Batched tensors. A batched tensor has the sizes and strides of one sample of a vmap. It wraps a
// tensor with one more dim, the batch dim, which may itself be batched at an outer level; the
// innermost one is the physical tensor, which has the history and the tangents.
#pragma once
#include "tensor/sparse.h"
#include "transforms/element_reads.h"

namespace cograd {

enum class Randomness : uint8_t { Error, Different, Same };

// A running vmap of this thread.
struct VmapLevel {
  LevelId id;
  int64_t size;
  Randomness randomness;
};
// Returns the running vmaps of this thread, outermost first.
COGRAD_API const std::vector<VmapLevel>& vmap_levels() noexcept;
COGRAD_API LevelId enter_vmap(int64_t size, Randomness randomness);
COGRAD_API void leave_vmap(LevelId id);
// Makes `levels` the running vmaps of this thread; returns the former ones.
std::vector<VmapLevel> exchange_vmaps(std::vector<VmapLevel> levels) noexcept;
// Hides a vmap level in its scope: a sample of it is computed as if outside of that vmap.
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
// Returns the level; raises, naming `who`, if it has ended or belongs to another thread.
COGRAD_API const VmapLevel& vmap_level(LevelId id, const char* who);

// Returns the vmap level of a batched tensor; 0 for other tensors.
COGRAD_API LevelId batch_level(const Tensor& t) noexcept;
COGRAD_API LevelId highest_batch_level(std::span<const Tensor> list) noexcept;
// In the following, `handle` is a batched tensor, and `whole` is a tensor that one wraps.
// Returns the tensor that `handle` wraps, one vmap level further out. Raises if that tensor got
// another geometry or memory meanwhile.
COGRAD_API const Tensor& wrapped_tensor(const Tensor& handle);
// Returns the batch dim of wrapped_tensor(handle).
COGRAD_API int batch_dim(const Tensor& handle);
// Returns wrapped_tensor(handle) with the batch dim moved to dim 0.
COGRAD_API Tensor batch_dim_first(const Tensor& handle);
// Returns the physical tensor, by unwrapping all vmap levels; `t` itself if it is not batched.
COGRAD_API const Tensor& physical_tensor(const Tensor& t) noexcept;

// Returns a batched tensor of `level` that wraps `whole`, with the samples in `dim`. `whole` may be
// batched at an outer level.
COGRAD_API Tensor make_batched(const Tensor& whole, int dim, LevelId level);
// Wraps `whole`, which has the sizes of physical_tensor(handle), at the vmap levels of `handle`.
// `whole` may also be batched at levels of later vmaps.
COGRAD_API Tensor batched_like(const Tensor& handle, const Tensor& whole);
// Returns `t`, which has the sizes of `handle`, as a tensor laid out like physical_tensor(handle).
// Samples of levels at which only `handle` is batched are equal. At levels at which only `t` is
// batched, the result stays batched.
COGRAD_API Tensor physical_like(const Tensor& handle, const Tensor& t);
// Returns `t` batched at all vmap levels of this thread. Samples of added levels share memory.
COGRAD_API Tensor batched_over_all(const Tensor& t);
// Returns `t` batched at its own levels and at those of `other`, in the same way.
COGRAD_API Tensor batched_like_levels_of(const Tensor& other, const Tensor& t);
// True if `a` is batched at a vmap level at which `b`, of the same sizes, is not.
COGRAD_API bool has_more_levels(const Tensor& a, const Tensor& b) noexcept;
// Makes `handle` wrap the tensor that `with`, of the same level, wraps. The caller must change the
// geometry of `handle`.
COGRAD_API void rewrap(const Tensor& handle, const Tensor& with);
// Raises: `who` changes a tensor object, not values, so it is not possible on a batched tensor.
[[noreturn]] COGRAD_API void fail_batched(const char* who);
inline void check_not_batched(const Tensor& t, const char* who) {
  if (is_batched(t)) [[unlikely]]
    fail_batched(who);
}
// True if `t`, which is not batched at `level`, has a tangent that is (or a tangent's tangent is).
COGRAD_API bool has_tangent_samples(const Tensor& t, LevelId level);
// Returns `t`, which is not batched at `level`, expanded to `samples` in a new dim 0. The samples
// are equal except for their tangents.
COGRAD_API Tensor expand_samples(const Tensor& t, LevelId level, int64_t samples);
// Thrown when an op cannot run on all samples at once; callers may then call it per sample.
class CannotBatch : public Error {
 public:
  using Error::Error;
};
// Throws CannotBatch.
[[noreturn]] COGRAD_API void throw_cannot_batch(std::string text);
// Sets whether this thread warns when a call runs sample by sample; returns the former setting.
COGRAD_API bool tell_of_loops(bool on) noexcept;
COGRAD_API bool warns_of_loops() noexcept;
COGRAD_API void warn_once(const std::string& text);  // once per process
// Throws CannotBatch: `who` needs a single value, but a batched tensor has one per sample.
[[noreturn]] COGRAD_API void fail_one_value(const char* who);
inline void check_one_value(const Tensor& t, const char* who) {
  if (is_batched(t)) [[unlikely]]
    fail_one_value(who);
}
// Raises if `who` cannot read the elements of t: a batched tensor has one value per sample, and
// only the CPU's memory can be read.
inline void check_readable(const Tensor& t, const char* who) {
  check_one_value(t, who);
  check_not_sparse(t, who);
  before_read(t, who);
  if (t->device.type != DeviceType::CPU) [[unlikely]]
    fail_unreadable(t->device, who);
}

}  // namespace cograd
