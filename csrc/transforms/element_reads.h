// SPDX-License-Identifier: BSD-3-Clause
// Elements that a custom backward reads while it is recorded: what it computes from them has no
// history, so the derivative of its result would be silently wrong.
#pragma once
#include <span>
#include <utility>
#include <vector>

#include "transforms/levels.h"

namespace cograd {

class CustomNode;

// Notes the reads of this thread in its scope, which is one run of a node's backward.
class COGRAD_API ElementReads {
 public:
  ElementReads() noexcept;
  ~ElementReads();
  ElementReads(const ElementReads&) = delete;
  ElementReads& operator=(const ElementReads&) = delete;

  // Notes that `who` reads elements of `t`. A number that an op of this backward computed, such as
  // a norm, is not an element: backward decides by it, or prints it.
  void note(const Tensor& t, const char* who);
  // Replaces gradients that cannot have a derivative by those read tensors that they do not lead
  // to: a backward through them raises. Raises if such a gradient lacks a tangent, or a part of it.
  void guard(const CustomNode& node, std::span<const Tensor> incoming,
             std::span<Tensor> gradients) const;

 private:
  bool made_here(TensorImpl* t) const;
  std::vector<Edge> frontier(const Edge& from) const;
  // Returns where the graph of `reads` goes on outside of the scope and that of `g` does not.
  std::vector<Edge> lost(const Tensor& g, const std::vector<Edge>& reads) const;
  bool tangent_complete(const Tensor& g, std::span<const Tensor> incoming) const;
  Tensor guarded(const CustomNode& node, const Tensor& g) const;
  const uint64_t first_;  // nodes from this one on were recorded in the scope
  ElementReads* const before_;
  std::vector<Edge> edges_;  // of the tensors that were read, each with a reference to its node
  std::vector<Edge> tangent_edges_;  // of those that had a tangent; the same nodes
  const char* reader_ = nullptr;
  bool tangent_ = false;          // one of them had a tangent
  bool unknown_tangent_ = false;  // one of these was not recorded
};

// Hides the reads in its scope, which only decide what backward does.
class HiddenReads {
 public:
  HiddenReads() noexcept : before_(std::exchange(thread_state.reads, nullptr)) {}
  ~HiddenReads() { thread_state.reads = before_; }
  HiddenReads(const HiddenReads&) = delete;
  HiddenReads& operator=(const HiddenReads&) = delete;

 private:
  ElementReads* const before_;
};

// Called before `who` reads elements of `t`. Raises if that would lose a tangent that its caller
// must not lose.
inline void before_read(const Tensor& t, const char* who) {
  if (thread_state.once && has_tangent_here(t)) [[unlikely]]
    fail_tangent_lost(who);
  if (thread_state.reads != nullptr) [[unlikely]]
    thread_state.reads->note(t, who);
}

}  // namespace cograd
