// SPDX-License-Identifier: BSD-3-Clause
// OpenTransforms: the open transforms of a thread, so that code can run later with only these.
#pragma once
#include "transforms/batch.h"
#include "transforms/function_scope.h"

namespace cograd {

struct COGRAD_API OpenTransforms {
  std::vector<LevelId> vmaps, levels;
  std::vector<uint32_t> functions;
  static OpenTransforms now();
};

// In its scope only the transforms in `then` that are still open on this thread are visible. A
// checkpoint's recomputation thus sees the vmaps, dual levels and functions of its forward, not
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
