// SPDX-License-Identifier: BSD-3-Clause
// What a kernel records of an index that is out of bounds, for the host and for kernels' text.
#pragma once

namespace cograd::device {

enum LateCode : unsigned { kNoError, kIndexError, kRuntimeError };

// Several threads may write at once: the record is then of one of them, or mixed.
struct LateError {
  const char* op;  // on the host
  long long index, size;
  unsigned code;
};

}  // namespace cograd::device
