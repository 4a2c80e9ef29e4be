// SPDX-License-Identifier: BSD-3-Clause
// max_pool, adaptive_max_pool, fractional_max_pool and max_unpool.
#include "kernels/nn/pool.h"

#include <cmath>

#include "kernels/index/index.h"
#include "ops/compute/elementwise.h"
#include "ops/compute/host_values.h"
#include "ops/declare/autocast.h"
#include "ops/declare/batch_call.h"
#include "ops/declare/kinked.h"
#include "ops/nn/pool.h"

namespace cograd {

namespace {

using kernels::PoolWindows;

int64_t planes_of(const Tensor& x, size_t n) {
  return product(x.sizes().first(x.sizes().size() - n));
}

// Raises unless the indices fit: the user may have written to them since they were checked.
void check_places(bool fit) {
  COGRAD_CHECK(
      fit, "max pooling: an index is out of range for its plane; it was changed after its check");
}

// Moves elements of the last dims to the positions in `index`, in dims of other sizes. It is the
// gradient of a maximum and also max_unpool; they differ for two elements at one position.
struct PoolScatter {
  static constexpr OpSpec spec{"_pool_scatter", "grad, indices, sizes, dims, add",
                               kInternal | kIndex, "", "none: gradient of max_pool"};
  static constexpr int kSaved = 1;
  struct State {
    int64_t dims = 0;
    Dims last;  // sizes of g
  };
  static constexpr TangentRule kTangent = linear({0});
  static Tensor forward(Ctx<PoolScatter>& ctx, const Tensor& g, const Tensor& index, IntList last,
                        int64_t dims, bool add) {
    const auto n = static_cast<size_t>(dims);
    if (ctx.recording()) {
      *ctx.operator->() = {dims, Dims(g.sizes().last(n))};
      ctx.save(index);
    }
    const Tensor y = empty(with_last(g, last), g.dtype());
    const Tensor in = raw_contiguous(g), at = raw_contiguous(index);
    check_places(kernels::pool_scatter(g.dtype(), planes_of(g, n), product(g.sizes().last(n)),
                                       product(last), in.bytes(), at.data<int64_t>(), add,
                                       y.bytes()));
    return y;
  }
  static Tensor backward(Ctx<PoolScatter>& ctx, const Tensor& h);
};

struct PoolGather {
  static constexpr OpSpec spec{"_pool_gather", "input, indices, sizes, dims", kInternal | kIndex,
                               "", "none: gradient of max_unpool"};
  static constexpr int kSaved = 1;
  using State = PoolScatter::State;
  static constexpr TangentRule kTangent = linear({0});
  static Tensor forward(Ctx<PoolGather>& ctx, const Tensor& x, const Tensor& index, IntList last,
                        int64_t dims) {
    const auto n = static_cast<size_t>(dims);
    if (ctx.recording()) {
      *ctx.operator->() = {dims, Dims(x.sizes().last(n))};
      ctx.save(index);
    }
    const Tensor y = empty(with_last(x, last), x.dtype());
    const Tensor in = raw_contiguous(x), at = raw_contiguous(index);
    check_places(kernels::pool_gather(x.dtype(), planes_of(x, n), product(last),
                                      product(x.sizes().last(n)), in.bytes(), at.data<int64_t>(),
                                      y.bytes()));
    return y;
  }
  static Tensor backward(Ctx<PoolGather>& ctx, const Tensor& g) {
    return apply<PoolScatter>(g, ctx.saved(0), IntList(ctx->last), ctx->dims, true);
  }
};

Tensor PoolScatter::backward(Ctx<PoolScatter>& ctx, const Tensor& h) {
  return apply<PoolGather>(h, ctx.saved(0), IntList(ctx->last), ctx->dims);
}

// All samples of a vmap have the same windows.
struct MaxPoolOp {
  static constexpr OpSpec spec{"_max_pool", "input, windows, dims", kInternal | kReduction, "",
                               "none: max_pool"};
  static constexpr const char* kNodeName = "MaxPoolWithIndicesBackward0";
  static constexpr uint32_t kNondiffOutputs = 2;
  static constexpr int kSaved = 1;
  using State = PoolScatter::State;
  static std::tuple<Tensor, Tensor> forward(Ctx<MaxPoolOp>& ctx, const Tensor& x,
                                            const PoolWindows& w, int64_t dims) {
    const auto n = static_cast<size_t>(dims);
    const IntList out(w.out + 3 - n, n);
    const Tensor y = empty(with_last(x, out), x.dtype());
    const Tensor index = empty(y.sizes(), DType::Int64);
    const Tensor in = raw_contiguous(x);
    kernels::max_pool(x.dtype(), w, planes_of(x, n), in.bytes(), y.bytes(), index.data<int64_t>());
    if (ctx.recording()) {
      *ctx.operator->() = {dims, Dims(x.sizes().last(n))};
      ctx.save(index);
    }
    return {y, index};
  }
  static void backward(Ctx<MaxPoolOp>& ctx, std::span<Tensor> gs) {
    if (!gs[0].defined()) return;
    ctx.grad(0) =
        kinked(ctx, apply<PoolScatter>(gs[0], ctx.saved(0), IntList(ctx->last), ctx->dims, true));
  }
  static void batch(BatchCall& c) {
    const Tensor x = c.physical(c.arg(0).tensor());
    const auto& windows = ArgTraits<PoolWindows>::get(c.arg(1));
    auto [y, index] = apply<MaxPoolOp>(x, windows, c.arg(2).integer());
    box(c.out(),
        std::tuple(make_batched(y, 0, c.level().id), make_batched(index, 0, c.level().id)));
  }
};

void check_plane(const char* op, IntList in) {
  COGRAD_CHECK(product(in) <= INT32_MAX, op,
               ": expected at most 2147483647 elements in a plane, "
               "but got ",
               to_string(in));
}

// Adds the windows of one dim.
void add_dim(PoolWindows& w, int d, int64_t in, int64_t out, const PoolArgs& a, size_t i) {
  w.in[d] = in;
  w.out[d] = out;
  w.dilation[d] = a.dilation[i];
  for (int64_t o = 0; o < out; ++o) {
    const int64_t begin = o * a.stride[i] - a.padding[i];
    const int64_t end = std::min(begin + a.dilation[i] * (a.kernel[i] - 1) + 1, in);
    const int64_t lo =
        begin >= 0 ? begin : begin + (-begin + a.dilation[i] - 1) / a.dilation[i] * a.dilation[i];
    w.start[d].push_back(lo);
    w.end[d].push_back(end);
  }
  if (d != 2) return;
  w.even = true;
  w.first = -a.padding[i];
  w.stride = a.stride[i];
  w.taps = a.kernel[i];
}
void one_dim(PoolWindows& w, int d) {
  w.start[d] = {0};
  w.end[d] = {1};
}

template <int N>
std::tuple<Tensor, Tensor> max_pool(const char* op, const Tensor& x, IntList kernel, IntList stride,
                                    IntList padding, IntList dilation, bool ceil_mode) {
  const PoolArgs a = pool_args(op, N, kernel, stride, padding, dilation, ceil_mode);
  check_pool_input(op, x, N);
  COGRAD_CHECK_NOT_IMPLEMENTED(x.dtype() != DType::Bool, "\"", op, "\" not implemented for 'Bool'");
  const IntList in = x.sizes().last(N);
  check_plane(op, in);
  const Dims out = pool_sizes(op, in, a);
  check_room(x, out);
  PoolWindows w;
  for (int d = 0; d < 3 - N; ++d) one_dim(w, d);
  for (size_t i = 0; i < N; ++i) add_dim(w, static_cast<int>(3 - N + i), in[i], out[i], a, i);
  return apply<MaxPoolOp>(x, w, int64_t{N});
}

template <int N>
std::tuple<Tensor, Tensor> adaptive_max_pool(const char* op, const Tensor& x, IntList size) {
  const Dims out = adaptive_sizes(op, x, size, N, 1);
  check_pool_floating(op, x);
  const IntList in = x.sizes().last(N);
  check_plane(op, in);
  check_room(x, out);
  PoolWindows w;
  for (int d = 0; d < 3 - N; ++d) one_dim(w, d);
  for (size_t i = 0; i < N; ++i) {
    const size_t d = 3 - N + i;
    w.in[d] = in[i];
    w.out[d] = out[i];
    for (int64_t o = 0; o < out[i]; ++o) {
      w.start[d].push_back(static_cast<int64_t>(Wide(o) * in[i] / out[i]));
      w.end[d].push_back(static_cast<int64_t>((Wide(o + 1) * in[i] + out[i] - 1) / out[i]));
    }
  }
  return apply<MaxPoolOp>(x, w, int64_t{N});
}

// Windows whose start depends on a random number for each plane and dim (Graham 2014, "Fractional
// Max-Pooling").
struct FractionalOp {
  static constexpr OpSpec spec{"_fractional_max_pool", "input, kernel, output_size, samples",
                               kInternal | kReduction, "", "none: fractional_max_pool"};
  static constexpr uint32_t kNondiffOutputs = 2;
  static constexpr int kSaved = 1;
  using State = PoolScatter::State;
  static std::tuple<Tensor, Tensor> forward(Ctx<FractionalOp>& ctx, const Tensor& x, IntList kernel,
                                            IntList out, const Tensor& samples) {
    const size_t n = out.size();
    const IntList in = x.sizes().last(n);
    const int64_t planes = planes_of(x, n);
    const auto numbers =
        host_values_or<double>(raw_contiguous(raw_cast(samples, DType::Float64)), 0);
    std::vector<PoolWindows> windows(static_cast<size_t>(planes));
    for (int64_t p = 0; p < planes; ++p) {
      PoolWindows& w = windows[static_cast<size_t>(p)];
      for (int d = 0; d < 3 - static_cast<int>(n); ++d) one_dim(w, d);
      for (size_t i = 0; i < n; ++i) {
        const size_t d = 3 - n + i;
        w.in[d] = in[i];
        w.out[d] = out[i];
        // In torch's order, the first of two numbers is for the last dim; the first of three is for
        // the first dim.
        const size_t at = n == 2 ? 1 - i : i;
        const double u = numbers[static_cast<size_t>(p) * n + at];
        starts(w, d, u, kernel[i]);
      }
    }
    const Tensor y = empty(with_last(x, out), x.dtype());
    const Tensor index = empty(y.sizes(), DType::Int64);
    const Tensor dense = raw_contiguous(x);
    kernels::max_pool_each(x.dtype(), windows.data(), planes, dense.bytes(), y.bytes(),
                           index.data<int64_t>());
    if (ctx.recording()) {
      *ctx.operator->() = {static_cast<int64_t>(n), Dims(in)};
      ctx.save(index);
    }
    return {y, index};
  }
  static void backward(Ctx<FractionalOp>& ctx, std::span<Tensor> gs) {
    if (!gs[0].defined()) return;
    ctx.grad(0) =
        kinked(ctx, apply<PoolScatter>(gs[0], ctx.saved(0), IntList(ctx->last), ctx->dims, true));
  }

 private:
  static void starts(PoolWindows& w, size_t d, double u, int64_t kernel) {
    const int64_t in = w.in[d], out = w.out[d];
    const double alpha =
        out > 1 ? static_cast<double>(in - kernel) / static_cast<double>(out - 1) : 0;
    for (int64_t o = 0; o < out; ++o) {
      int64_t begin = in - kernel;
      if (o + 1 < out)
        begin = static_cast<int64_t>((static_cast<double>(o) + u) * alpha) -
                static_cast<int64_t>(u * alpha);
      begin = std::clamp<int64_t>(begin, 0, in - kernel);
      w.start[d].push_back(begin);
      w.end[d].push_back(begin + kernel);
    }
  }
};

template <int N>
std::tuple<Tensor, Tensor> fractional(const char* op, const Tensor& x, IntList kernel_size,
                                      IntList output_size, const Tensor& samples) {
  const Dims kernel = pool_dims(op, kernel_size, "kernel_size", N);
  const Dims out = pool_dims(op, output_size, "output_size", N);
  check_pool_input(op, x, N);
  check_pool_floating(op, x);
  const IntList in = x.sizes().last(N);
  check_plane(op, in);
  for (size_t i = 0; i < N; ++i) {
    COGRAD_CHECK(kernel[i] > 0 && out[i] > 0, op,
                 "(): expected positive kernel and output sizes, but got ",
                 to_string(IntList(kernel)), " and ", to_string(IntList(out)));
    COGRAD_CHECK(kernel[i] <= in[i] && out[i] - 1 <= in[i] - kernel[i], op, "(): pool size ",
                 kernel[i], " too large relative to input size ", in[i], " for ", out[i],
                 " outputs");
  }
  COGRAD_CHECK(
      samples.defined() && is_floating(samples.dtype()) && samples.numel() == planes_of(x, N) * N,
      op, "(): expected _random_samples of ", N, " floating numbers for each plane");
  return apply<FractionalOp>(x, IntList(kernel), IntList(out), samples);
}

template <int N>
Tensor max_unpool(const char* op, const Tensor& x, const Tensor& index, IntList size) {
  COGRAD_CHECK(index.dtype() == DType::Int64, op,
               "(): elements in indices should be type int64 but got: ", dtype_name(index.dtype()));
  COGRAD_CHECK(same(x.sizes(), index.sizes()), op,
               "(): Expected shape of indices to be: ", to_string(x.sizes()),
               " but got: ", to_string(index.sizes()));
  check_pool_input(op, x, N);
  COGRAD_CHECK(size.size() == N, op, "(): There should be exactly ", N,
               " elements in output_size, but got ", size.size(), " elements.");
  COGRAD_CHECK_NOT_IMPLEMENTED(x.dtype() != DType::Bool && !is_complex(x.dtype()), "\"", op,
                               "\" not implemented for '", scalar_type_name(x.dtype()), "'");
  for (const int64_t n : size)
    COGRAD_CHECK(n >= 0, op, "(): expected a non-negative output_size, but got ", to_string(size));
  const int64_t room = product(size);
  const Tensor places = raw_contiguous(index);
  int64_t bad = 0;
  COGRAD_CHECK(kernels::all_within(places.data<int64_t>(), places.numel(), room, &bad), op,
               "(): Found an invalid max index: ", bad, " (output volumes are of size ",
               to_string(size), ")");
  return apply<PoolScatter>(x, places, size, int64_t{N}, false);
}

#define COGRAD_MAX_POOL(N, samples, adaptive, fractional_spec, unpool)                             \
  struct MaxPool##N##d {                                                                           \
    static constexpr OpSpec spec{                                                                  \
        "max_pool" #N "d_with_indices",                                                            \
        "input, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False",                   \
        kInternal | kReduction | kPoolAutocast<N>,                                                 \
        "The largest elements of windows, and their indices.",                                     \
        samples,                                                                                   \
        "",                                                                                        \
        "out, indices"};                                                                           \
    static constexpr DTypeSet kDTypes = kNumericTypes;                                             \
    static constexpr uint32_t kNondiffOutputs = 2;                                                 \
    static std::tuple<Tensor, Tensor> forward(const Tensor& x, IntList kernel,                     \
                                              std::optional<IntList> stride, IntList padding,      \
                                              IntList dilation, bool ceil_mode) {                  \
      return max_pool<N>("max_pool" #N "d", x, kernel, stride.value_or(IntList()), padding,        \
                         dilation, ceil_mode);                                                     \
    }                                                                                              \
  };                                                                                               \
  COGRAD_OP(MaxPool##N##d)                                                                         \
  struct AdaptiveMaxPool##N##d {                                                                   \
    static constexpr OpSpec spec{                                                                  \
        "adaptive_max_pool" #N "d",                                                                \
        "input, output_size",                                                                      \
        kInternal | kReduction | kPoolAutocast<N>,                                                 \
        "The largest elements of windows, one per element of output_size.",                        \
        adaptive,                                                                                  \
        "",                                                                                        \
        "out, indices"};                                                                           \
    static constexpr DTypeSet kDTypes = kFloatTypes;                                               \
    static constexpr uint32_t kNondiffOutputs = 2;                                                 \
    static std::tuple<Tensor, Tensor> forward(const Tensor& x, IntList size) {                     \
      return adaptive_max_pool<N>("adaptive_max_pool" #N "d", x, size);                            \
    }                                                                                              \
  };                                                                                               \
  COGRAD_OP(AdaptiveMaxPool##N##d)                                                                 \
  struct MaxUnpool##N##d {                                                                         \
    static constexpr OpSpec spec{"max_unpool" #N "d", "input, indices, output_size",               \
                                 kInternal | kIndex | kUnpoolAutocast<N>,                          \
                                 "Zeros with the input's elements at the given indices.", unpool}; \
    static constexpr DTypeSet kDTypes = kNumericTypes;                                             \
    static constexpr BatchRule kBatch = {};                                                        \
    static Tensor forward(const Tensor& x, const Tensor& index, IntList size) {                    \
      return max_unpool<N>("max_unpool" #N "d", x, index, size);                                   \
    }                                                                                              \
  };                                                                                               \
  COGRAD_OP(MaxUnpool##N##d)                                                                       \
  fractional_spec

#define COGRAD_FRACTIONAL(N, samples)                                                        \
  struct Fractional##N##d {                                                                  \
    static constexpr OpSpec spec{"fractional_max_pool" #N "d",                               \
                                 "input, kernel_size, output_size, _random_samples",         \
                                 kInternal | kReduction | kAutocastWide,                     \
                                 "The largest elements of randomly placed windows.",         \
                                 samples,                                                    \
                                 "",                                                         \
                                 "out, indices"};                                            \
    static constexpr DTypeSet kDTypes = kFloatTypes;                                         \
    static constexpr uint32_t kNondiffOutputs = 2;                                           \
    static std::tuple<Tensor, Tensor> forward(const Tensor& x, IntList kernel, IntList size, \
                                              const Tensor& samples_) {                      \
      return fractional<N>("fractional_max_pool" #N "d", x, kernel, size, samples_);         \
    }                                                                                        \
  };                                                                                         \
  COGRAD_OP(Fractional##N##d)

COGRAD_MAX_POOL(1, "T(2, 3, 7), 2; T(3, 8), 3, 2, 1, 1, True; T(2, 2, 9), 3, 2, 1, 2",
                "T(2, 3, 7), 3; T(3, 4), 6", ,
                "T(2, 2, 2), torch.tensor([[[1, 3], [0, 2]], [[0, 3], [4, 2]]]), (5,)")
COGRAD_MAX_POOL(2,
                "T(2, 3, 4, 6), 2; T(3, 7, 8), (3, 2), (2, 1), (1, 0), 1, True; "
                "T(1, 2, 7, 6), 3, 2, 1, (2, 1)",
                "T(2, 3, 5, 7), (2, 3); T(3, 4, 3), 2",
                COGRAD_FRACTIONAL(2, "T(2, 3, 6, 7), 2, (3, 4), P(2, 3, 2) / 3"),
                "T(1, 1, 2, 2), torch.tensor([[[[1, 3], [8, 10]]]]), (3, 4)")
COGRAD_MAX_POOL(3, "T(1, 2, 4, 3, 5), 2; T(2, 4, 5, 4), (2, 3, 1), (2, 1, 2), (1, 1, 0), 1, True",
                "T(1, 2, 4, 3, 5), (2, 2, 3)",
                COGRAD_FRACTIONAL(3, "T(1, 2, 4, 5, 4), 2, (2, 3, 3), P(1, 2, 3) / 3"),
                "T(1, 1, 1, 2, 2), torch.tensor([[[[[1, 3], [8, 10]]]]]), (2, 3, 2)")
#undef COGRAD_FRACTIONAL
#undef COGRAD_MAX_POOL

}  // namespace

}  // namespace cograd
