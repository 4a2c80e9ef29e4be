// SPDX-License-Identifier: BSD-3-Clause
// Builds the sources and grids of direct convolutions.
#include "kernels/conv/conv_shift.h"

#include <algorithm>
#include <cstring>

namespace cograd::kernels {
namespace {

int64_t floor_mod(int64_t a, int64_t b) { return ((a % b) + b) % b; }

// Writes a row of the copy: n elements of the input from index `first` on, `step` apart.
template <class T>
void fill_row(const T* row, int64_t size, int64_t first, int64_t step, int64_t n, T* to) {
  const int64_t lo = first >= 0 ? 0 : std::min(n, (-first + step - 1) / step);
  const int64_t room = size - first;
  const int64_t hi = std::max(lo, room <= 0 ? 0 : std::min(n, (room + step - 1) / step));
  std::fill_n(to, lo, T(0));
  const T* from = row + first + lo * step;
  if (step == 1)
    std::memcpy(to + lo, from, static_cast<size_t>(hi - lo) * sizeof(T));
  else if (step == 2)  // a constant step becomes vectors
    for (int64_t i = 0; i < hi - lo; ++i) to[lo + i] = from[i * 2];
  else
    for (int64_t i = 0; i < hi - lo; ++i) to[lo + i] = from[i * step];
  std::fill_n(to + hi, n - hi, T(0));
}

template <class T>
void fill_source(const ShiftSource& s, const T* x, int64_t image, int64_t count, int dim,
                 int64_t start, T* to) {
  int64_t first[3] = {0, 0, 0};
  first[dim] = start;
  const auto index = [&](int d, int64_t q, int64_t residue) {
    return (q + first[d]) * s.step[d] + residue - s.shift[d];
  };
  for (int64_t c = 0; c < s.channels; ++c)
    for (const int64_t r0 : s.residues[0])
      for (const int64_t r1 : s.residues[1])
        for (const int64_t r2 : s.residues[2])
          for (int64_t i = 0; i < s.images; ++i) {
            const T* from = x + i * image + c * s.in_size();
            for (int64_t z = 0; z < s.extent[0]; ++z)
              for (int64_t y = 0; y < s.extent[1]; ++y, to += s.extent[2]) {
                const int64_t iz = index(0, z, r0), iy = index(1, y, r1);
                if (i >= count || iz < 0 || iz >= s.in[0] || iy < 0 || iy >= s.in[1])
                  std::fill_n(to, s.extent[2], T(0));
                else
                  fill_row(from + (iz * s.in[1] + iy) * s.in[2], s.in[2], index(2, 0, r2),
                           s.step[2], s.extent[2], to);
              }
          }
}

}  // namespace

int64_t ShiftSource::slots() const {
  return static_cast<int64_t>(residues[0].size() * residues[1].size() * residues[2].size());
}

int64_t ShiftSource::slot(int64_t r0, int64_t r1, int64_t r2) const {
  const int64_t r[3] = {r0, r1, r2};
  int64_t at = 0;
  for (int d = 0; d < 3; ++d) {
    const auto& have = residues[d];
    at = at * static_cast<int64_t>(have.size()) +
         (std::find(have.begin(), have.end(), r[d]) - have.begin());
  }
  return at;
}

bool ShiftSource::is_input() const {
  if (images != 1) return false;
  for (int d = 0; d < 3; ++d)
    if (step[d] != 1 || shift[d] != 0 || extent[d] != in[d]) return false;
  return true;
}

void ShiftSource::fill(DType t, const char* x, int64_t image, int64_t count, int dim, int64_t start,
                       char* to) const {
  if (t == DType::Float32)
    fill_source(*this, reinterpret_cast<const float*>(x), image, count, dim, start,
                reinterpret_cast<float*>(to));
  else
    fill_source(*this, reinterpret_cast<const double*>(x), image, count, dim, start,
                reinterpret_cast<double*>(to));
}

int outer_dim(const int64_t* in, const int64_t* kernel) {
  for (int d = 0; d < 2; ++d)
    if (in[d] > 1 || kernel[d] > 1) return d;
  return 2;
}

ShiftPlan forward_plan(const ConvShape& s, int64_t images, int64_t chunk) {
  ShiftPlan plan;
  ShiftSource& src = plan.source;
  plan.dim = outer_dim(s.in, s.kernel);
  plan.positions = s.out[plan.dim];
  plan.chunk = std::min(chunk, plan.positions);
  src.channels = s.in_channels;
  src.images = images;
  for (int d = 0; d < 3; ++d) {
    src.in[d] = s.in[d];
    src.step[d] = s.stride[d];
    src.shift[d] = s.padding[d];
    int64_t reach = 0;
    for (int64_t k = 0; k < s.kernel[d]; ++k) {
      const int64_t r = k * s.dilation[d] % s.stride[d];
      reach = std::max(reach, k * s.dilation[d] / s.stride[d]);
      if (std::find(src.residues[d].begin(), src.residues[d].end(), r) == src.residues[d].end())
        src.residues[d].push_back(r);
    }
    src.extent[d] = (d == plan.dim ? plan.chunk : s.out[d]) + reach;
  }
  ShiftPart part;
  for (int d = 0; d < 3; ++d) part.grid[d] = s.out[d];
  part.y_stride[0] = s.out[1] * s.out[2];
  part.y_stride[1] = s.out[2];
  part.y_stride[2] = 1;
  for (int64_t k = 0; k < s.taps(); ++k) part.taps.push_back(k);
  for (int64_t c = 0; c < s.in_channels; ++c)
    for (int64_t k0 = 0; k0 < s.kernel[0]; ++k0)
      for (int64_t k1 = 0; k1 < s.kernel[1]; ++k1)
        for (int64_t k2 = 0; k2 < s.kernel[2]; ++k2) {
          const int64_t a = k0 * s.dilation[0], b = k1 * s.dilation[1], e = k2 * s.dilation[2];
          const int64_t slot = src.slot(a % s.stride[0], b % s.stride[1], e % s.stride[2]);
          part.offsets.push_back(c * src.channel() + slot * src.images * src.plane() +
                                 ((a / s.stride[0]) * src.extent[1] + b / s.stride[1]) *
                                     src.extent[2] +
                                 e / s.stride[2]);
        }
  plan.parts.push_back(std::move(part));
  return plan;
}

ShiftPlan input_grad_plan(const ConvShape& s, int64_t images, int64_t chunk) {
  ShiftPlan plan;
  ShiftSource& src = plan.source;
  plan.dim = outer_dim(s.in, s.kernel);
  src.channels = s.out_channels;
  src.images = images;
  // Input i = s q + r is read by outputs q - t, for taps k with s t = k dilation - padding - r.
  std::vector<int64_t> lag[3];
  int64_t most[3], least[3];
  for (int d = 0; d < 3; ++d) {
    for (int64_t k = 0; k < s.kernel[d]; ++k) {
      const int64_t at = k * s.dilation[d] - s.padding[d];
      lag[d].push_back((at - floor_mod(at, s.stride[d])) / s.stride[d]);
    }
    most[d] = *std::max_element(lag[d].begin(), lag[d].end());
    least[d] = *std::min_element(lag[d].begin(), lag[d].end());
    const int64_t n = (s.in[d] + s.stride[d] - 1) / s.stride[d];
    if (d == plan.dim) {
      plan.positions = n;
      plan.chunk = std::min(chunk, n);
    }
    src.in[d] = s.out[d];
    src.shift[d] = most[d];
    src.residues[d] = {0};
    src.extent[d] = (d == plan.dim ? plan.chunk : n) + most[d] - least[d];
  }
  const int64_t rows[3] = {s.in[1] * s.in[2], s.in[2], 1};
  for (int64_t r0 = 0; r0 < std::min(s.stride[0], s.in[0]); ++r0)
    for (int64_t r1 = 0; r1 < std::min(s.stride[1], s.in[1]); ++r1)
      for (int64_t r2 = 0; r2 < std::min(s.stride[2], s.in[2]); ++r2) {
        const int64_t r[3] = {r0, r1, r2};
        ShiftPart part;
        for (int d = 0; d < 3; ++d) {
          part.grid[d] = (s.in[d] - r[d] + s.stride[d] - 1) / s.stride[d];
          part.y_first += r[d] * rows[d];
          part.y_stride[d] = s.stride[d] * rows[d];
        }
        std::vector<int64_t> places;
        for (int64_t k = 0; k < s.taps(); ++k) {
          const int64_t tap[3] = {k / (s.kernel[1] * s.kernel[2]), k / s.kernel[2] % s.kernel[1],
                                  k % s.kernel[2]};
          bool here = true;
          int64_t place = 0;
          for (int d = 0; d < 3; ++d) {
            const int64_t at = tap[d] * s.dilation[d] - s.padding[d];
            here = here && floor_mod(at, s.stride[d]) == r[d];
            place = place * src.extent[d] + most[d] - lag[d][static_cast<size_t>(tap[d])];
          }
          if (!here) continue;
          part.taps.push_back(k);
          places.push_back(place);
        }
        for (int64_t c = 0; c < src.channels; ++c)
          for (const int64_t place : places) part.offsets.push_back(c * src.channel() + place);
        plan.parts.push_back(std::move(part));
      }
  return plan;
}

}  // namespace cograd::kernels
