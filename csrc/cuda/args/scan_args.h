// SPDX-License-Identifier: BSD-3-Clause
// The arguments of scans along the middle axis of [outer, n, inner], for the host and for text.
#pragma once

namespace cograd::device {

inline constexpr int kScanThreads = 256;

struct ScanArgs {
  const void *x, *factor;  // factor: of the recurrence, else null
  void* y;
  long long* indices;  // of cummax and cummin
  void* partial;       // states [lines, chunks], if there are several chunks
  long long outer, n, inner, chunk, chunks;
  int reverse;
};

}  // namespace cograd::device
