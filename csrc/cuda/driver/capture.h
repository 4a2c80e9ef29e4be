// SPDX-License-Identifier: BSD-3-Clause
// Streams whose work is captured, and what a capture does not allow.
#pragma once
#include "cuda/driver/api.h"

namespace cograd::cuda {

// Returns the number of the capture that a stream of the current context takes part in, or 0.
uint64_t capture_of(CUstream s) noexcept;
// Raises if the stream is captured; `what` names the call if no op runs, `why` says what it does.
void refuse_captured(CUstream s, const char* what, const char* why);
// Notes that an event was recorded on a stream, or has been destroyed.
void note_event(CUevent e, CUstream s);
void forget_event(CUevent e) noexcept;
// Raises if a captured stream would wait for an event from outside of its capture, which makes the
// driver spoil the capture.
void check_event_wait(CUstream s, CUevent e);
// Comes before each call that waits for a stream: raises if it is captured, and does what the
// program has asked for by cuda.set_sync_debug_mode().
void before_wait(CUstream s, const char* what);

// While one lives, this thread may allocate and load code although a capture is open: these calls
// do not depend on captured work.
class DuringCapture {
 public:
  DuringCapture() noexcept;
  ~DuringCapture();
  DuringCapture(const DuringCapture&) = delete;
  DuringCapture& operator=(const DuringCapture&) = delete;

 private:
  int before_ = -1;  // the thread's mode; -1: it was left alone
};

}  // namespace cograd::cuda
