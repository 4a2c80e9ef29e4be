// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/driver/capture.h"

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
