// SPDX-License-Identifier: BSD-3-Clause
// What a profile may note of each event beside its time.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cograd/error.h"

namespace cograd {

struct ProfileExtra {
  int64_t live_bytes = -1;  // of tensors, when the event ended
  std::string place;        // "file.py:12 in train" of the caller
};

// Places are noted for every event, or, with memory alone, for those that set a new maximum.
COGRAD_API void set_profile_extras(bool memory, bool places) noexcept;
// One for each event that take_profile_events() returns, in its order; to be called right before.
COGRAD_API std::vector<ProfileExtra> take_profile_extras();

}  // namespace cograd
