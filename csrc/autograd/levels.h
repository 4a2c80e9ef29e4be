// SPDX-License-Identifier: BSD-3-Clause
// The levels of forward mode: a tensor has a tangent at each level it takes part in. Levels are
// numbered when they are entered, and no number is used twice.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>

#include "autograd/variable.h"

namespace cograd {

class Tangent;

// One level, owned by whoever entered it and by the tangents at it.
class COGRAD_API TangentLevel {
 public:
  TangentLevel();
  ~TangentLevel();
  TangentLevel(const TangentLevel&) = delete;
  TangentLevel& operator=(const TangentLevel&) = delete;
  LevelId id() const noexcept { return id_; }
  // Drops all its tangents: tensors that outlive the level are plain ones.
  void close() noexcept;

 private:
  friend class Tangent;
  const LevelId id_;
  std::mutex mutex_;  // guards the list, and the values in it
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

// What transforms know of one tensor; the levels ascend.
struct TransformMeta {
  TransformMeta() = default;
  TransformMeta(const TransformMeta&) = delete;
  TransformMeta& operator=(const TransformMeta&) = delete;
  // Handles count as levels, so that one that outlives its vmap is still found by the ops.
  ~TransformMeta() {
    if (batch_level != 0) open_levels.fetch_sub(1, std::memory_order_relaxed);
  }

  std::vector<std::unique_ptr<Tangent>> tangents;
  Tensor whole;  // of a handle on samples (batch.h)
  LevelId batch_level = 0;
  int batch_dim = 0;
};
COGRAD_API TransformMeta& transform_of(TensorImpl* t);
// A number that no level had before.
COGRAD_API LevelId next_level() noexcept;

// Levels entered by this thread and not left, outermost first.
COGRAD_API const std::vector<std::shared_ptr<TangentLevel>>& entered_levels() noexcept;
// Makes these the levels of this thread; returns the former ones.
std::vector<std::shared_ptr<TangentLevel>> exchange_levels(
    std::vector<std::shared_ptr<TangentLevel>> levels) noexcept;
COGRAD_API const std::shared_ptr<TangentLevel>& enter_level();
// Raises if `level` is not the innermost one.
COGRAD_API void leave_level(const TangentLevel& level);

// Whether rules of transforms may concern `t`, itself or by the tensor it is a view of.
inline bool transformed(const TensorImpl* t) noexcept {
  return (t->flags & (kDual | kBatched)) != 0 ||
         (t->base != nullptr && (t->base->flags & kDual) != 0);
}
inline bool transformed(const Tensor& t) noexcept { return t.defined() && transformed(t.impl()); }
// Whether `t`, the tensor that it is a view of or the samples behind it have a tangent, at a level
// that is seen here or not.
COGRAD_API bool has_tangent(const Tensor& t);

// Tangents of the levels from `first` on are not seen in its scope.
class LevelsBelow {
 public:
  explicit LevelsBelow(LevelId first) noexcept : before_(thread_state.ceiling) {
    thread_state.ceiling = std::min(before_, first);
  }
  ~LevelsBelow() { thread_state.ceiling = before_; }
  LevelsBelow(const LevelsBelow&) = delete;
  LevelsBelow& operator=(const LevelsBelow&) = delete;

 private:
  LevelId before_;
};

// The highest level that is seen here at which `t` has a tangent; null: none.
COGRAD_API std::shared_ptr<TangentLevel> tangent_level(const Tensor& t);
inline bool has_tangent_here(const Tensor& t) {
  return transformed(t) && tangent_level(t) != nullptr;
}
// The tangent at a level, seen here or not; that of a view, if need be, by its base's.
COGRAD_API Tensor tangent_of(const Tensor& t, LevelId level);
// Gives `t` one, of its size, in its layout and dtype; a former one is replaced.
COGRAD_API void set_tangent(const Tensor& t, const std::shared_ptr<TangentLevel>& level,
                            Tensor tangent);
// `to`, another handle on the values of `from`, gets the same ones.
COGRAD_API void copy_tangents(const Tensor& from, const Tensor& to);
// After `t`'s values were written: new tangents, where undefined zero ones. Those that `t` has are
// written in place, so that its views see it; the base of a view takes part.
COGRAD_API void write_tangent(const Tensor& t, const std::shared_ptr<TangentLevel>& level,
                              const Tensor& tangent);

}  // namespace cograd
