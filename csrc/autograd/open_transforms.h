// SPDX-License-Identifier: BSD-3-Clause
// The transforms that are open on a thread, to run code later as if no others were.
#pragma once
#include "autograd/batch.h"
#include "autograd/function_scope.h"

namespace cograd {

struct COGRAD_API OpenTransforms {
  std::vector<LevelId> vmaps, levels;
  std::vector<uint32_t> functions;
  static OpenTransforms now();
};

// In its scope only those of `then` that are still open on this thread are: what a checkpoint
// computes again meets the vmaps, levels of forward mode and functions that its forward met, not
// those in which the backward runs.
class COGRAD_API OnlyTransforms {
 public:
  explicit OnlyTransforms(const OpenTransforms& then);
  ~OnlyTransforms();
  OnlyTransforms(const OnlyTransforms&) = delete;
  OnlyTransforms& operator=(const OnlyTransforms&) = delete;

 private:
  OnlyFunctions functions_;
  std::vector<VmapLevel> vmaps_;
  std::vector<std::shared_ptr<TangentLevel>> levels_;
};

}  // namespace cograd
