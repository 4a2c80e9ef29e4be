// SPDX-License-Identifier: BSD-3-Clause
// Records an error for the host, which raises it when it next waits.
#pragma once
#include "cuda/args/late_args.h"
#include "prelude.h"

namespace cograd::device {

inline void report(LateError* late, unsigned code, const char* op, int64_t index, int64_t size) {
  volatile LateError* to = late;
  to->op = op;
  to->index = index;
  to->size = size;
  to->code = code;
}

}  // namespace cograd::device
