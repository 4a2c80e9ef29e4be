// SPDX-License-Identifier: BSD-3-Clause
// The arguments of softmax, for the host and for kernels' text.
#pragma once

namespace cograd::device {

enum SoftmaxMode : int { kSoftmax, kLogSoftmax, kSoftmaxBackward, kLogSoftmaxBackward };

struct SoftmaxArgs {
  const void *a, *b;  // the input; or the gradient and the result of softmax
  void* out;
  long long rows, n, inner;
};

}  // namespace cograd::device
