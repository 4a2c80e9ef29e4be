// SPDX-License-Identifier: BSD-3-Clause
// A kernel records an index that is out of bounds in this struct, which the host reads later.
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
