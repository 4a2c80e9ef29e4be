// SPDX-License-Identifier: BSD-3-Clause
// A kernel records an index that is out of bounds, or the place of a value that an op does not
// take, in this struct, which the host reads later.
#pragma once

namespace cograd::device {

enum LateCode : unsigned { kNoError, kIndexError, kRuntimeError, kOutOfRange, kScarceRow };

// Several threads may write at once: the record is then of one of them, or mixed.
struct LateError {
  const char* op;  // on the host
  long long index, size;
  unsigned code;
};

}  // namespace cograd::device
