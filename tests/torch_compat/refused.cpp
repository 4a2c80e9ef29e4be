// SPDX-License-Identifier: BSD-3-Clause
// Incorrect registrations: loading them raises an error that names the reason.
#include <torch/library.h>

at::Tensor takes_int(const at::Tensor& x, int64_t n) { return x + n; }

TORCH_LIBRARY(refused, m) {
  m.def("other_type(Tensor x, float n) -> Tensor");
  m.def("fewer(Tensor x) -> Tensor");
  m.def("unknown(Tensor x, Quaternion n) -> Tensor");
  m.def("again(Tensor x, int n) -> Tensor");
  m.def("again(Tensor x, int n) -> Tensor");
}
TORCH_LIBRARY_IMPL(refused, CPU, m) {
  m.impl("other_type", &takes_int);
  m.impl("fewer", &takes_int);
  m.impl("unknown", &takes_int);
  m.impl("again", &takes_int);
}
