// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/driver/late.h"

#include <atomic>
#include <cstring>

#include "cograd/error.h"
#include "cuda/driver/capture.h"
#include "cuda/driver/gpu.h"

namespace cograd::cuda {

namespace {
std::atomic<device::LateError*> record{nullptr};
}

device::LateError* late_error() {
  static device::LateError* const made = [] {
    constexpr unsigned kPortableMapped = 1 | 2;
    here();
    void* p = nullptr;
    const DuringCapture allowed;
    check(driver().mem_host_alloc(&p, sizeof(device::LateError), kPortableMapped),
          "cuMemHostAlloc");
    std::memset(p, 0, sizeof(device::LateError));
    record = static_cast<device::LateError*>(p);
    return record.load();
  }();
  return made;
}

void raise_late() {
  device::LateError* const r = record.load(std::memory_order_relaxed);
  if (r == nullptr) return;
  const unsigned code = __atomic_exchange_n(&r->code, 0u, __ATOMIC_ACQUIRE);
  if (code == device::kNoError) return;
  constexpr const char* kLate = " found it after the call had returned";
  if (code == device::kOutOfRange)
    ::cograd::detail::fail(ErrorKind::Runtime, r->op, ": element ", r->index, " of ", r->size,
                           " is out of range; a kernel", kLate);
  if (code == device::kScarceRow)
    ::cograd::detail::fail(ErrorKind::Runtime, "invalid multinomial distribution: row ", r->index,
                           " has less than ", r->size, " positive weights; a kernel", kLate);
  ::cograd::detail::fail(code == device::kIndexError ? ErrorKind::Index : ErrorKind::Runtime,
                         "index ", r->index, " is out of bounds for dimension with size ", r->size,
                         "; a kernel of ", r->op, "()", kLate);
}

}  // namespace cograd::cuda
