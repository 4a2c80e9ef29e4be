// SPDX-License-Identifier: BSD-3-Clause
// Arguments and sizes of pooling.
#include "ops/nn/pool.h"

namespace cograd {

Dims pool_dims(const char* op, IntList v, const char* name, size_t n) {
  COGRAD_CHECK(v.size() == n || v.size() == 1, op, ": ", name,
               " must either be a single int, or a tuple of ", n, " ints, but got ", to_string(v));
  return v.size() == n ? Dims(v) : Dims(n, v[0]);
}

Dims adaptive_sizes(const char* op, const Tensor& x, IntList output_size, size_t n,
                    int nonempty_from) {
  const Dims out = pool_dims(op, output_size, "output_size", n);
  check_pool_input(op, x, n, nonempty_from);
  for (const int64_t size : out)
    COGRAD_CHECK(size >= 0, op,
                 ": elements of output_size must be greater than or equal to 0 but received ",
                 to_string(IntList(out)));
  return out;
}

void check_pool_floating(const char* op, const Tensor& x) {
  COGRAD_CHECK_NOT_IMPLEMENTED(is_floating(x.dtype()), "\"", op, "\" not implemented for '",
                               scalar_type_name(x.dtype()), "': convert with .float() first");
}

PoolArgs pool_args(const char* op, size_t n, IntList kernel, IntList stride, IntList padding,
                   IntList dilation, bool ceil_mode) {
  PoolArgs a{pool_dims(op, kernel, "kernel_size", n),
             {},
             pool_dims(op, padding, "padding", n),
             pool_dims(op, dilation, "dilation", n),
             ceil_mode};
  a.stride = stride.empty() ? a.kernel : pool_dims(op, stride, "stride", n);
  for (size_t i = 0; i < n; ++i) {
    COGRAD_CHECK(a.stride[i] != 0, "stride should not be zero");
    COGRAD_CHECK(a.kernel[i] > 0 && a.stride[i] > 0, op,
                 ": kernel size and stride should be greater than zero, but got ",
                 to_string(IntList(a.kernel)), " and ", to_string(IntList(a.stride)));
    COGRAD_CHECK(a.dilation[i] > 0, "dilation should be greater than zero, but got dilation ",
                 to_string(IntList(a.dilation)));
    COGRAD_CHECK(a.padding[i] >= 0, "pad must be non-negative, but got pad: ", a.padding[i]);
    const int64_t reach = checked_add(checked_mul(a.dilation[i], a.kernel[i] - 1), 1);
    COGRAD_CHECK(a.padding[i] <= reach / 2,
                 "pad should be at most half of effective kernel size, but got pad=", a.padding[i],
                 ", kernel_size=", a.kernel[i], " and dilation=", a.dilation[i]);
  }
  return a;
}

Dims pool_sizes(const char* op, IntList in, const PoolArgs& a) {
  Dims out;
  bool fits = true;
  for (size_t i = 0; i < in.size(); ++i) {
    const int64_t reach = a.dilation[i] * (a.kernel[i] - 1) + 1;
    const int64_t room = checked_add(in[i], checked_mul(2, a.padding[i])) - reach;
    int64_t n = room < 0 ? 0 : room / a.stride[i] + 1;
    // A window that extends past the end counts if it starts inside the input or its padding.
    if (a.ceil_mode && room >= 0 && room % a.stride[i] != 0 &&
        n < (in[i] + a.padding[i] + a.stride[i] - 1) / a.stride[i])
      ++n;
    if (a.ceil_mode && room < 0 && room + a.stride[i] > 0) n = 1;
    out.push_back(n);
    fits = fits && n >= 1;
  }
  COGRAD_CHECK(fits, op, ": Given input size: ", to_string(in),
               ". Calculated output size: ", to_string(IntList(out)), ". Output size is too small");
  return out;
}

void check_pool_input(const char* op, const Tensor& x, size_t n) {
  check_pool_input(op, x, n, x.dim() - static_cast<int>(n) - 1);
}

void check_pool_input(const char* op, const Tensor& x, size_t n, int nonempty_from) {
  const int dims = static_cast<int>(n);
  bool fits = x.dim() == dims + 1 || x.dim() == dims + 2;
  for (int i = nonempty_from; fits && i < x.dim(); ++i) fits = x.size(i) > 0;
  COGRAD_CHECK(fits, op, "(): Expected ", dims + 1, "D or ", dims + 2,
               "D (batch mode) tensor with optional 0 dim batch size for input, but got:",
               to_string(x.sizes()));
}

void check_room(const Tensor& x, IntList out) {
  int64_t windows = 0;
  for (const int64_t n : out) windows = checked_add(windows, n);
  if (windows < (int64_t{1} << 20)) return;
  empty(with_last(x, out), x.dtype());
  empty(Dims{checked_mul(windows, 4)}, DType::Int64);
}

Dims with_last(const Tensor& x, IntList last) {
  Dims sizes(x.sizes().first(x.sizes().size() - last.size()));
  for (const int64_t n : last) sizes.push_back(n);
  return sizes;
}

}  // namespace cograd
