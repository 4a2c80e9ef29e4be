// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/driver/capture.h"

#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "cograd/error.h"
#include "tensor/backend.h"
#include "tensor/warn.h"

namespace cograd::cuda {

namespace {

// Returns what users call the op that runs on this thread, or else `what`.
std::string caller(const char* what) {
  const char* op = running_op();
  if (op == nullptr) return what;
  if (std::string_view(op) == "_to_device") return "Tensor.to()";
  return std::string(op) + "()";
}

// The events that were last recorded in a capture, and its number. The driver tells it of streams
// only.
std::mutex event_mutex;
std::map<CUevent, uint64_t>& captured_events() {
  static auto* all = new std::map<CUevent, uint64_t>;
  return *all;
}

}  // namespace

uint64_t capture_of(CUstream s) noexcept {
  if (!capture_open()) [[likely]]
    return 0;
  constexpr int kActive = 1;
  int status = 0;
  uint64_t id = 0;
  // An error means that the stream takes part in none: the default stream gives one.
  const CUresult r = driver().capture_info(s, &status, &id, nullptr, nullptr, nullptr);
  return r == kSuccess && status == kActive ? id : 0;
}

void refuse_captured(CUstream s, const char* what, const char* why) {
  if (capture_of(s) == 0) [[likely]]
    return;
  detail::fail(ErrorKind::Runtime, caller(what), ": ", why,
               ", which a CUDA graph cannot capture. Call it before or after the capture");
}

void note_event(CUevent e, CUstream s) {
  const uint64_t id = capture_of(s);
  const std::lock_guard lock(event_mutex);
  if (id != 0)
    captured_events()[e] = id;
  else
    captured_events().erase(e);
}
void forget_event(CUevent e) noexcept {
  const std::lock_guard lock(event_mutex);
  captured_events().erase(e);
}
void check_event_wait(CUstream s, CUevent e) {
  const uint64_t in = capture_of(s);
  if (in == 0) [[likely]]
    return;
  const std::lock_guard lock(event_mutex);
  const auto it = captured_events().find(e);
  COGRAD_CHECK(it != captured_events().end() && it->second == in,
               "Stream.wait_event(): a CUDA graph captures the stream, and the event was recorded ",
               it == captured_events().end() ? "outside of a capture" : "in another capture",
               ", which no replay can wait for. Wait for it before the capture");
}

void before_wait(CUstream s, const char* what) {
  refuse_captured(s, what, "it waits for the GPU");
  const WaitPolicy policy = wait_policy();
  if (policy == WaitPolicy::Allow) [[likely]]
    return;
  const std::string text = caller(what) + ": it waits for the GPU (set_sync_debug_mode)";
  COGRAD_CHECK(policy == WaitPolicy::Warn, text);
  warn(text);
}

DuringCapture::DuringCapture() noexcept {
  if (!capture_open()) [[likely]]
    return;
  constexpr int kRelaxed = 2;
  int mode = kRelaxed;
  if (driver().capture_mode(&mode) == kSuccess) before_ = mode;
}
DuringCapture::~DuringCapture() {
  if (before_ >= 0) driver().capture_mode(&before_);
}

}  // namespace cograd::cuda
