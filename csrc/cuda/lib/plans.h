// SPDX-License-Identifier: BSD-3-Clause
// The plans of a library for one GPU, by what they compute. Callers lock.
#pragma once
#include <list>
#include <map>
#include <memory>
#include <utility>

#include "tensor/backend.h"

namespace cograd::cuda {

template <class Key, class Plan>
class PlanCache {
 public:
  // Returns the plan of a key, from now on the one that was used last, or null.
  std::shared_ptr<Plan> find(const Key& key) {
    const auto it = places_.find(key);
    if (it == places_.end()) return nullptr;
    plans_.splice(plans_.begin(), plans_, it->second);
    return it->second->second;
  }
  // Keeps a plan of a new key. Those that were not used for longest make room.
  void keep(const Key& key, std::shared_ptr<Plan> plan) {
    if (most_ == 0) return;
    shrink(most_ - 1);
    plans_.emplace_front(key, std::move(plan));
    places_[key] = plans_.begin();
  }
  PlanNumbers numbers() const noexcept { return {static_cast<int64_t>(plans_.size()), most_}; }
  void limit(int64_t most) {
    most_ = most;
    shrink(most);
  }
  void clear() { shrink(0); }

 private:
  using List = std::list<std::pair<Key, std::shared_ptr<Plan>>>;
  void shrink(int64_t most) {
    while (static_cast<int64_t>(plans_.size()) > most) {
      places_.erase(plans_.back().first);
      plans_.pop_back();
    }
  }

  int64_t most_ = 4096;  // as torch keeps of cuFFT's
  List plans_;           // the one that was used last in front
  std::map<Key, typename List::iterator> places_;
};

}  // namespace cograd::cuda
