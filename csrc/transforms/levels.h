// SPDX-License-Identifier: BSD-3-Clause
// Dual levels, the levels of forward mode: a tensor has one tangent per level that it takes part
// in. Each level gets an id when it is entered; ids are never reused.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>

#include "autograd/graph/variable.h"

namespace cograd {

class Tangent;

// One dual level, owned by the code that entered it and by its tangents.
class COGRAD_API TangentLevel {
 public:
  TangentLevel();
  ~TangentLevel();
  TangentLevel(const TangentLevel&) = delete;
  TangentLevel& operator=(const TangentLevel&) = delete;
  LevelId id() const noexcept { return id_; }
  // Drops all tangents of the level: tensors that outlive it are plain tensors.
  void close() noexcept;

 private:
  friend class Tangent;
  const LevelId id_;
  std::mutex mutex_;  // guards the list of tangents and their values
  Tangent* first_ = nullptr;
  bool open_ = true;
};

// A tensor's tangent at one level.
class COGRAD_API Tangent {
 public:
  Tangent(std::shared_ptr<TangentLevel> level, Tensor value);
  ~Tangent();
  Tangent(const Tangent&) = delete;
  Tangent& operator=(const Tangent&) = delete;
  LevelId id() const noexcept { return level_->id_; }
  const std::shared_ptr<TangentLevel>& level() const noexcept { return level_; }
  // Undefined once the level is closed.
  Tensor value() const;
  void set_value(Tensor value);

 private:
  friend class TangentLevel;
  const std::shared_ptr<TangentLevel> level_;
  Tensor value_;
  Tangent *before_ = nullptr, *after_ = nullptr;
};

// State of a tensor that takes part in transforms. `tangents` are ordered by ascending level.
struct TransformMeta final : TransformState {
  // A batched tensor counts as an open level, so that ops still detect one that outlives its vmap.
  ~TransformMeta() override {
    if (batch_level != 0) open_stages.fetch_sub(1, std::memory_order_relaxed);
  }

  std::vector<std::unique_ptr<Tangent>> tangents;
  Tensor whole;  // the tensor that a batched tensor wraps (batch.h)
  LevelId batch_level = 0;
  int batch_dim = 0;
};
COGRAD_API TransformMeta& transform_of(TensorImpl* t);
inline TransformMeta* transform_or_null(const TensorImpl* t) noexcept {
  return t->meta == nullptr ? nullptr : static_cast<TransformMeta*>(t->meta->transform.get());
}
// Returns a new level id, for a dual level or a vmap level.
COGRAD_API LevelId next_level() noexcept;

// Returns the dual levels that this thread has entered and not left, outermost first.
COGRAD_API const std::vector<std::shared_ptr<TangentLevel>>& entered_levels() noexcept;
// Makes `levels` the dual levels of this thread; returns the former ones.
std::vector<std::shared_ptr<TangentLevel>> exchange_levels(
    std::vector<std::shared_ptr<TangentLevel>> levels) noexcept;
COGRAD_API const std::shared_ptr<TangentLevel>& enter_level();
// Raises if `level` is not the innermost one.
COGRAD_API void leave_level(const TangentLevel& level);

// True if `t`, its base or its physical tensor has a tangent, at a visible level or not.
COGRAD_API bool has_tangent(const Tensor& t);

// Hides tangents of the levels from `first` on in its scope.
class LevelsBelow {
 public:
  explicit LevelsBelow(LevelId first) noexcept : before_(thread_state.max_visible_level) {
    thread_state.max_visible_level = std::min(before_, first);
  }
  ~LevelsBelow() { thread_state.max_visible_level = before_; }
  LevelsBelow(const LevelsBelow&) = delete;
  LevelsBelow& operator=(const LevelsBelow&) = delete;

 private:
  LevelId before_;
};

// Returns the innermost visible level at which `t` has a tangent; null if there is none.
COGRAD_API std::shared_ptr<TangentLevel> tangent_level(const Tensor& t);
inline bool has_tangent_here(const Tensor& t) {
  return transformed(t) && tangent_level(t) != nullptr;
}
// Raises: `who` reads elements of a tensor with a tangent in a once differentiable backward.
[[noreturn]] COGRAD_API void fail_tangent_lost(const char* who);
// Returns the tangent at a level, visible or not; undefined if there is none. A view without its
// own tangent gets the part of its base's.
COGRAD_API Tensor tangent_of(const Tensor& t, LevelId level);
// Sets or replaces the tangent of `t` at a level. It must have the sizes of `t`, and is converted
// to the layout and dtype of `t`.
COGRAD_API void set_tangent(const Tensor& t, const std::shared_ptr<TangentLevel>& level,
                            Tensor tangent);
// Sets the tangents of `from` on `to`, another tensor over the same values.
COGRAD_API void copy_tangents(const Tensor& from, const Tensor& to);
// Called after `t`'s values were written: sets the new tangent, zeros if undefined. An existing
// tangent is written in place, so that views of `t` see the change; if `t` is a view, its base's
// tangent changes too.
COGRAD_API void write_tangent(const Tensor& t, const std::shared_ptr<TangentLevel>& level,
                              const Tensor& tangent);

}  // namespace cograd
