// SPDX-License-Identifier: BSD-3-Clause
// Times what streams do for the profiler: an event before each launch, copy or fill and one after.
#pragma once
#include <atomic>
#include <memory>
#include <vector>

#include "cuda/driver/api.h"
#include "tensor/backend.h"

namespace cograd::cuda {

class Gpu;
extern std::atomic<bool> timing_launches;
// While it is false, a launch pays one load and one branch.
inline bool timing() noexcept { return timing_launches.load(std::memory_order_relaxed); }

// Measures what the current stream gets in its scope. Work that is captured has no time of its own:
// a replay is measured as a whole.
class Timed {
 public:
  // `on` is null for the GPU of the thread's place.
  explicit Timed(const char* name, Gpu* on = nullptr) {
    if (timing()) [[unlikely]]
      begin(name, on);
  }
  ~Timed() {
    if (open_ != nullptr) [[unlikely]]
      end();
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  struct Open;
  friend struct TimeLog;
  void begin(const char* name, Gpu* on);
  void end() noexcept;
  Open* open_ = nullptr;
};

// Starts a new log, or stops. A log keeps what is in progress when it stops.
void time_launches(bool on);
// Waits for the measured work; returns its times, in the order of the launches.
std::vector<DeviceTime> take_device_times();

}  // namespace cograd::cuda
