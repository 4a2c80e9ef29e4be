// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/slots/registry.h"

#include <string_view>
#include <unordered_map>

namespace cograd::cuda {

namespace {
std::unordered_map<std::string_view, void*>& slots() {
  static auto* all = new std::unordered_map<std::string_view, void*>;
  return *all;
}
}  // namespace

SlotEntry::SlotEntry(const char* name, void* function) { slots()[name] = function; }
void* find_slot(const char* name) noexcept {
  const auto it = slots().find(name);
  return it == slots().end() ? nullptr : it->second;
}

}  // namespace cograd::cuda
