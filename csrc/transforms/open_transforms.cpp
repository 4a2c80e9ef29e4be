// SPDX-License-Identifier: BSD-3-Clause
// Hides the transforms of a thread that began after an earlier point in time.
#include "transforms/open_transforms.h"

#include <algorithm>

namespace cograd {

namespace {
bool contains(const std::vector<LevelId>& list, LevelId id) {
  return std::find(list.begin(), list.end(), id) != list.end();
}
}  // namespace

OpenTransforms OpenTransforms::now() {
  OpenTransforms open;
  for (const VmapLevel& l : vmap_levels()) open.vmaps.push_back(l.id);
  for (const auto& l : entered_levels()) open.levels.push_back(l->id());
  append_function_ids(open.functions);
  return open;
}

OnlyTransforms::OnlyTransforms(const OpenTransforms& then) : functions_(then.functions) {
  std::vector<VmapLevel> vmaps;
  for (const VmapLevel& l : vmap_levels())
    if (contains(then.vmaps, l.id)) vmaps.push_back(l);
  std::vector<std::shared_ptr<TangentLevel>> levels;
  for (const auto& l : entered_levels())
    if (contains(then.levels, l->id())) levels.push_back(l);
  vmaps_ = exchange_vmaps(std::move(vmaps));
  levels_ = exchange_levels(std::move(levels));
}

OnlyTransforms::~OnlyTransforms() {
  exchange_levels(std::move(levels_));
  exchange_vmaps(std::move(vmaps_));
}

}  // namespace cograd
