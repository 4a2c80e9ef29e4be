// SPDX-License-Identifier: BSD-3-Clause
// Slots of kernels/fft/fft.h: cuFFT's transforms, on dense copies of what its layouts cannot say.
#include "kernels/fft/fft.h"

#include <algorithm>
#include <optional>

#include "cuda/args/fft_args.h"
#include "cuda/lib/cufft.h"
#include "cuda/slots/registry.h"
#include "cuda/slots/support.h"
#include "kernels/core/cast.h"
#include "kernels/elementwise/tables.h"

namespace cograd::cuda {

namespace {

using kernels::FftArrays;
using kernels::Operand;

// A plan has one stride for all its lines. More dims of lines take a run each, or a dense copy.
constexpr int64_t kMostRuns = 8;
constexpr size_t kPlanDims = 3;

// The strides of one side of a transform, in bytes, by dim.
struct Side {
  char* at;
  DType t;
  Dims strides;
};

// The dims of a transform: those that are transformed, the last one innermost, and those that
// number the lines, in the order of the output's memory. Sizes are those of the points; `half` is
// the size that the last dim has where its spectrum is stored in half.
struct Space {
  Dims sizes, axes, lines;
  int64_t half;
  FftKind kind;

  int64_t size_on(size_t dim, bool spectrum) const {
    const bool halved = spectrum && kind != FftKind::Complex;
    return halved && static_cast<int64_t>(dim) == axes.back() ? half : sizes[dim];
  }
  // The dims of a dense array in which lines follow one another.
  Dims dense_order() const {
    Dims order(lines);
    order.append(axes.begin(), axes.end());
    return order;
  }
  Dims shape(bool spectrum) const {
    Dims shape;
    for (const int64_t d : dense_order())
      shape.push_back(size_on(static_cast<size_t>(d), spectrum));
    return shape;
  }
};

int64_t count_of(const Dims& sizes) {
  int64_t n = 1;
  for (const int64_t s : sizes) n *= s;
  return n;
}

// Copies elements of one dtype, times `scale`.
void copy_scaled(DType t, const Dims& shape, const Operand& to, const Operand& from, double scale) {
  if (scale == 1)
    return kernels::copy_strided(t, t, static_cast<int>(shape.size()), shape.data(), to, from);
  const DType part = real_dtype(t);
  Dims sizes(shape), out(std::span(to.strides, shape.size()));
  Dims in(std::span(from.strides, shape.size()));
  if (is_complex(t)) {
    sizes.push_back(2);
    out.push_back(dtype_size(part));
    in.push_back(dtype_size(part));
  }
  const Dims same(sizes.size(), 0);
  auto narrow = static_cast<float>(scale);
  void* const factor = part == DType::Float64 ? static_cast<void*>(&scale) : &narrow;
  const Operand ops[3] = {
      {to.data, out.data()}, {from.data, in.data()}, {static_cast<char*>(factor), same.data()}};
  kernels::run_loop(kernels::ElementRow(kernels::BinaryOp::mul).loop(part),
                    static_cast<int>(sizes.size()), sizes.data(), ops, 3, nullptr, 1);
}

// A side in the order of Space::dense_order(), which a copy in dense memory may replace.
class Ordered {
 public:
  Ordered(const Space& s, const Side& side, bool spectrum)
      : t_(side.t), at_(side.at), shape_(s.shape(spectrum)), rank_(s.axes.size()) {
    for (const int64_t d : s.dense_order())
      strides_.push_back(side.strides[static_cast<size_t>(d)]);
  }
  // True if the transformed dims are nested in one another, in whole elements.
  bool nested() const {
    if (reinterpret_cast<uintptr_t>(at_) % static_cast<uintptr_t>(alignment()) != 0) return false;
    for (const int64_t stride : strides_)
      if (stride <= 0 || stride % item() != 0) return false;
    for (size_t d = shape_.size() - rank_; d + 1 < shape_.size(); ++d)
      if (strides_[d] % strides_[d + 1] != 0 || strides_[d] / strides_[d + 1] < shape_[d + 1])
        return false;
    return true;
  }
  // Reals are read and written in pairs.
  int64_t alignment() const { return is_complex(t_) ? item() : 2 * item(); }
  void make_dense() {
    original_ = {at_, strides_};
    int64_t step = dtype_size(t_);
    for (size_t d = shape_.size(); d-- > 0; step *= shape_[d]) strides_[d] = step;
    copy_.emplace(static_cast<size_t>(step));
    at_ = copy_->get<char>();
  }
  void fill_copy() const {
    kernels::copy_strided(t_, t_, static_cast<int>(shape_.size()), shape_.data(), operand(),
                          {original_.at, original_.strides.data()});
  }
  // Writes the result where it belongs, times `scale`.
  void finish(double scale) const {
    if (copy_ || scale != 1)
      copy_scaled(t_, shape_, copy_ ? Operand{original_.at, original_.strides.data()} : operand(),
                  operand(), scale);
  }
  FftSide side() const {
    FftSide s;
    s.stride = strides_.back() / item();
    const size_t first = shape_.size() - rank_;
    s.embed[0] = shape_[first];  // which the layout does not depend on
    for (size_t d = 1; d < rank_; ++d) s.embed[d] = strides_[first + d - 1] / strides_[first + d];
    return s;
  }
  bool dense() const { return copy_.has_value(); }
  char* at() const { return at_; }
  const Dims& strides() const { return strides_; }
  const Dims& shape() const { return shape_; }
  int64_t item() const { return dtype_size(t_); }

 private:
  Operand operand() const { return {at_, strides_.data()}; }

  DType t_;
  char* at_;
  Dims shape_, strides_;
  size_t rank_;
  struct {
    char* at;
    Dims strides;
  } original_{};
  std::optional<Scratch> copy_;
};

// The lines of both sides, with dims merged that lie like one; the longest dim comes last.
struct Lines {
  Dims sizes, in, out;

  Lines(size_t count, const Ordered& from, const Ordered& to) {
    for (size_t d = 0; d < count; ++d) {
      const int64_t n = to.shape()[d], a = from.strides()[d], b = to.strides()[d];
      if (!sizes.empty() && in.back() == a * n && out.back() == b * n) {
        sizes.back() *= n;
        in.back() = a;
        out.back() = b;
      } else {
        sizes.push_back(n);
        in.push_back(a);
        out.push_back(b);
      }
    }
    if (sizes.empty()) {
      sizes.push_back(1);
      in.push_back(from.item());
      out.push_back(to.item());
    }
    const auto longest =
        static_cast<size_t>(std::max_element(sizes.begin(), sizes.end()) - sizes.begin());
    for (Dims* list : {&sizes, &in, &out}) std::swap((*list)[longest], list->back());
  }
  int64_t runs() const { return count_of(sizes) / sizes.back(); }
  // True if all runs begin at aligned addresses.
  bool aligned(int64_t in_bytes, int64_t out_bytes) const {
    for (size_t d = 0; d + 1 < sizes.size(); ++d)
      if (in[d] % in_bytes != 0 || out[d] % out_bytes != 0) return false;
    return true;
  }
};

// Transforms up to three dims at once.
void transform(const char* slot, const Space& s, const Side& in, const Side& out, bool forward,
               double scale) {
  const bool from_half = s.kind == FftKind::FromHalf;
  Ordered from(s, in, from_half), to(s, out, s.kind == FftKind::ToHalf);
  if (from_half || !from.nested()) from.make_dense();
  if (!to.nested()) to.make_dense();
  const size_t count = s.lines.size();
  std::optional<Lines> lines(std::in_place, count, from, to);
  if (lines->runs() > kMostRuns || !lines->aligned(from.alignment(), to.alignment())) {
    if (Lines(count, from, from).runs() > 1) from.make_dense();
    if (Lines(count, to, to).runs() > 1) to.make_dense();
    lines.emplace(count, from, to);
  }
  if (from.dense()) from.fill_copy();
  if (from_half) {
    const int64_t n = s.sizes[static_cast<size_t>(s.axes.back())];
    const int64_t total = count_of(from.shape()) / s.half;
    const device::EdgeArgs edges{from.at(), total, s.half, n % 2 == 0 ? n / 2 : 0};
    launch(slot, function_of("fft.h", "fft_edges", in.t), grid_over(total), edges);
  }
  const bool wide = in.t == DType::Float64 || in.t == DType::Complex128;
  FftShape shape{s.kind,
                 wide,
                 static_cast<int>(s.axes.size()),
                 {},
                 from.side(),
                 to.side(),
                 lines->sizes.back()};
  for (size_t d = 0; d < s.axes.size(); ++d) shape.n[d] = s.sizes[static_cast<size_t>(s.axes[d])];
  shape.in.distance = lines->in.back() / from.item();
  shape.out.distance = lines->out.back() / to.item();
  for (int64_t run = lines->runs(); run-- > 0;) {
    int64_t rest = run, a = 0, b = 0;
    for (size_t d = 0; d + 1 < lines->sizes.size(); ++d) {
      const int64_t at = rest % lines->sizes[d];
      rest /= lines->sizes[d];
      a += at * lines->in[d];
      b += at * lines->out[d];
    }
    cufft_transform(slot, shape, from.at() + a, to.at() + b, forward);
  }
  to.finish(scale);
}

bool is_empty(const Dims& sizes) { return std::find(sizes.begin(), sizes.end(), 0) != sizes.end(); }

// Returns the space of a transform along `axes` of an array. Sizes of 1 have no stride.
Space space_of(FftKind kind, const Dims& sizes, const Dims& out_strides, const Dims& axes,
               int64_t half) {
  Space s{sizes, axes, {}, half, kind};
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] != 1 && std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) == axes.end())
      s.lines.push_back(static_cast<int64_t>(d));
  std::stable_sort(s.lines.begin(), s.lines.end(), [&](int64_t d, int64_t e) {
    return out_strides[static_cast<size_t>(d)] > out_strides[static_cast<size_t>(e)];
  });
  return s;
}

Side side_of(const void* at, DType t, const Dims& strides) {
  return {static_cast<char*>(const_cast<void*>(at)), t, strides};
}

}  // namespace

void fft_c2c(DType t, const FftArrays& a, const void* in, void* out, const Dims& axes, bool forward,
             double scale) {
  need_cufft();
  if (is_empty(a.out_sizes)) return;
  const DType complex = complex_dtype(t);
  Dims left;
  for (const int64_t d : axes)
    if (a.out_sizes[static_cast<size_t>(d)] > 1) left.push_back(d);
  // The order of the dims does not matter, so the innermost ones of the output come first.
  std::stable_sort(left.begin(), left.end(), [&](int64_t d, int64_t e) {
    return a.out_strides[static_cast<size_t>(d)] > a.out_strides[static_cast<size_t>(e)];
  });
  Side from = side_of(in, complex, a.in_strides);
  const Side to = side_of(out, complex, a.out_strides);
  if (left.empty())
    return copy_scaled(complex, a.out_sizes, {to.at, to.strides.data()},
                       {from.at, from.strides.data()}, scale);
  while (!left.empty()) {
    const size_t first = left.size() - std::min(left.size(), kPlanDims);
    const Dims now(left.begin() + first, left.end());
    left.resize(first);
    transform("fft_c2c", space_of(FftKind::Complex, a.out_sizes, a.out_strides, now, 0), from, to,
              forward, left.empty() ? scale : 1);
    from = to;
  }
}
COGRAD_CUDA_SLOT(fft_c2c)

void fft_r2c(DType t, const FftArrays& a, const void* in, void* out, int axis, double scale) {
  need_cufft();
  if (is_empty(a.in_sizes)) return;
  const int64_t n = a.in_sizes[static_cast<size_t>(axis)];
  transform("fft_r2c", space_of(FftKind::ToHalf, a.in_sizes, a.out_strides, {axis}, n / 2 + 1),
            side_of(in, t, a.in_strides), side_of(out, complex_dtype(t), a.out_strides), true,
            scale);
}
COGRAD_CUDA_SLOT(fft_r2c)

void fft_c2r(DType t, const FftArrays& a, const void* in, void* out, int axis, double scale) {
  need_cufft();
  if (is_empty(a.out_sizes)) return;
  const int64_t n = a.out_sizes[static_cast<size_t>(axis)];
  transform("fft_c2r", space_of(FftKind::FromHalf, a.out_sizes, a.out_strides, {axis}, n / 2 + 1),
            side_of(in, complex_dtype(t), a.in_strides), side_of(out, t, a.out_strides), false,
            scale);
}
COGRAD_CUDA_SLOT(fft_c2r)

void fft_mirror(DType t, const FftArrays& a, void* out, const Dims& axes) {
  const auto last = static_cast<size_t>(axes.back());
  const int64_t item = dtype_size(complex_dtype(t)), n = a.out_sizes[last];
  device::MirrorArgs m{out, 0, n, n / 2 + 1, a.out_strides[last] / item, 0, {}};
  m.total = n - m.half;
  for (size_t d = a.out_sizes.size(); d-- > 0;) {
    const int64_t size = a.out_sizes[d], stride = a.out_strides[d] / item;
    if (d == last || size == 1) continue;
    const bool mirrored =
        std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end();
    m.total *= size;
    auto* inner = m.ndim == 0 ? nullptr : &m.dims[m.ndim - 1];
    if (inner != nullptr && !mirrored && inner->mirrored == 0 &&
        stride == inner->stride * inner->size) {
      inner->size *= size;
      continue;
    }
    if (m.ndim == device::kFftDims) detail::fail_no_kernel("fft_mirror");
    m.dims[m.ndim++] = {size, stride, mirrored ? 1 : 0};
  }
  if (m.total == 0) return;
  launch("fft_mirror", function_of("fft.h", "fft_mirror", complex_dtype(t)), grid_over(m.total), m);
}
COGRAD_CUDA_SLOT(fft_mirror)

}  // namespace cograd::cuda
