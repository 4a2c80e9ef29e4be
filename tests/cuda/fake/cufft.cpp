// SPDX-License-Identifier: BSD-3-Clause
// A library with cuFFT's functions that computes by plain loops on the fake driver. It is stricter
// than cuFFT: a plan without a stream or work area fails, the work area and the input of a real
// result become NaN, and imaginary parts that cuFFT may or may not read make the result NaN.
#include <complex>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <numbers>
#include <vector>

#include "library.h"

namespace {

enum : int {
  kSuccess = 0,
  kInvalidPlan = 1,
  kInvalidType = 3,
  kInvalidValue = 4,
  kInvalidSize = 8,
  kUnaligned = 9,
  kInvalidDevice = 11,
  kNoWorkspace = 13,
};
enum : int { kFloat = 0, kDouble = 1, kComplexFloat = 4, kComplexDouble = 5 };

using Point = std::complex<double>;

bool is_complex(int type) { return type >= kComplexFloat; }
bool is_wide(int type) { return type == kDouble || type == kComplexDouble; }
size_t item(int type) { return (is_wide(type) ? 8u : 4u) * (is_complex(type) ? 2u : 1u); }

struct Side {
  int type = 0;
  long long size[3] = {1, 1, 1}, embed[3] = {1, 1, 1}, stride = 1, distance = 0;
  long long points() const { return size[0] * size[1] * size[2]; }
  // The place of a point of a line, in elements.
  long long place(long long line, long long i) const {
    const long long z = i % size[2], y = i / size[2] % size[1], x = i / size[2] / size[1];
    return line * distance + ((x * embed[1] + y) * embed[2] + z) * stride;
  }
  size_t bytes(long long batch) const {
    return static_cast<size_t>(place(batch - 1, points() - 1) + 1) * item(type);
  }
};
struct Plan {
  int device = -1;
  bool made = false, own_memory = false, has_stream = false;
  void *stream = nullptr, *work = nullptr;
  size_t work_bytes = 0;
  long long n[3] = {1, 1, 1}, batch = 1;
  Side in, out;
};

std::mutex mutex;
std::map<int, Plan>& plans() {
  static auto* const all = new std::map<int, Plan>;
  return *all;
}

template <class T>
Point read_as(const char* p, bool complex) {
  T v[2] = {0, 0};
  std::memcpy(v, p, sizeof(T) * (complex ? 2 : 1));
  return {v[0], v[1]};
}
template <class T>
void write_as(char* p, Point z, bool complex) {
  const T v[2] = {static_cast<T>(z.real()), static_cast<T>(z.imag())};
  std::memcpy(p, v, sizeof(T) * (complex ? 2 : 1));
}
Point read(const Side& s, const char* base, long long at) {
  const char* const p = base + at * static_cast<long long>(item(s.type));
  return is_wide(s.type) ? read_as<double>(p, is_complex(s.type))
                         : read_as<float>(p, is_complex(s.type));
}
void write(const Side& s, char* base, long long at, Point z) {
  char* const p = base + at * static_cast<long long>(item(s.type));
  if (is_wide(s.type))
    write_as<double>(p, z, is_complex(s.type));
  else
    write_as<float>(p, z, is_complex(s.type));
}

// exp(i turns 2 pi), exact at quarters of a turn.
Point root_of(double turns) {
  const Point z = std::polar(1.0, 2 * std::numbers::pi * turns);
  const auto exact = [](double v) { return std::abs(v) < 1e-14 ? 0.0 : v; };
  return {exact(z.real()), exact(z.imag())};
}
std::vector<Point> roots_of(size_t n, int sign) {
  std::vector<Point> roots(n);
  for (size_t k = 0; k < n; ++k)
    roots[k] = root_of(sign * static_cast<double>(k) / static_cast<double>(n));
  return roots;
}

std::vector<Point> transform_line(const std::vector<Point>& x, const std::vector<Point>& roots,
                                  int sign);

// Transforms a line of any length by a convolution (Bluestein).
std::vector<Point> transform_long_prime(const std::vector<Point>& x, int sign) {
  const size_t n = x.size();
  size_t m = 1;
  while (m < 2 * n) m *= 2;
  std::vector<Point> chirp(n), a(m), b(m);
  for (size_t k = 0; k < n; ++k) {
    chirp[k] = root_of(sign * static_cast<double>(k * k % (2 * n)) / static_cast<double>(2 * n));
    a[k] = x[k] * chirp[k];
    b[k] = b[(m - k) % m] = std::conj(chirp[k]);
  }
  const std::vector<Point> roots = roots_of(m, -1), back = roots_of(m, 1);
  a = transform_line(a, roots, -1);
  b = transform_line(b, roots, -1);
  for (size_t k = 0; k < m; ++k) a[k] *= b[k] / static_cast<double>(m);
  a = transform_line(a, back, 1);
  for (size_t k = 0; k < n; ++k) a[k] *= chirp[k];
  a.resize(n);
  return a;
}

// Transforms a line: by the definition if its length is prime, else by its lines of n/p points.
std::vector<Point> transform_line(const std::vector<Point>& x, const std::vector<Point>& roots,
                                  int sign) {
  const size_t n = x.size(), step = roots.size() / n;
  size_t p = 2;
  while (p * p <= n && n % p != 0) ++p;
  if (n % p != 0) p = n;
  if (p > 1000 && p == n) return transform_long_prime(x, sign);
  const size_t m = n / p;
  std::vector<std::vector<Point>> parts(p);
  for (size_t r = 0; r < p; ++r) {
    for (size_t j = 0; j < m; ++j) parts[r].push_back(x[r + p * j]);
    if (m > 1) parts[r] = transform_line(parts[r], roots, sign);
  }
  std::vector<Point> out(n);
  for (size_t k = 0; k < n; ++k)
    for (size_t r = 0; r < p; ++r) out[k] += parts[r][k % m] * roots[r * k % n * step];
  return out;
}

// Transforms dim d of an array of these sizes.
void transform_dim(std::vector<Point>& x, const long long* size, int d, int sign) {
  const long long n = size[d];
  if (n == 1) return;
  long long inner = 1;
  for (int e = d + 1; e < 3; ++e) inner *= size[e];
  std::vector<Point> line(static_cast<size_t>(n));
  const std::vector<Point> roots = roots_of(static_cast<size_t>(n), sign);
  for (size_t begin = 0; begin < x.size(); ++begin) {
    if (static_cast<long long>(begin) / inner % n != 0) continue;
    for (long long k = 0; k < n; ++k)
      line[static_cast<size_t>(k)] = x[begin + static_cast<size_t>(k * inner)];
    line = transform_line(line, roots, sign);
    for (long long k = 0; k < n; ++k)
      x[begin + static_cast<size_t>(k * inner)] = line[static_cast<size_t>(k)];
  }
}

// Returns the whole spectrum, of `n` points in the last dim, of half a one.
std::vector<Point> whole_of(const std::vector<Point>& half, const Side& in, long long n) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const long long bins = in.size[2];
  std::vector<Point> all;
  for (size_t row = 0; row < half.size(); row += static_cast<size_t>(bins))
    for (long long k = 0; k < n; ++k) {
      Point z = k < bins ? half[row + static_cast<size_t>(k)]
                         : std::conj(half[row + static_cast<size_t>(n - k)]);
      if ((k == 0 || 2 * k == n) && z.imag() != 0) z = nan;
      all.push_back(z);
    }
  return all;
}

void run(const Plan& p, char* in, char* out, int direction) {
  if (p.work_bytes > 0) std::memset(p.work, 0xff, p.work_bytes);
  for (long long line = 0; line < p.batch; ++line) {
    std::vector<Point> x;
    for (long long i = 0; i < p.in.points(); ++i) x.push_back(read(p.in, in, p.in.place(line, i)));
    const bool to_real = !is_complex(p.out.type), from_real = !is_complex(p.in.type);
    const int sign = to_real ? 1 : from_real ? -1 : direction;
    if (to_real) {
      for (int d = 0; d < 2; ++d) transform_dim(x, p.in.size, d, sign);
      for (long long i = 0; i < p.in.points(); ++i)
        write(p.in, in, p.in.place(line, i), std::numeric_limits<double>::quiet_NaN());
      x = whole_of(x, p.in, p.n[2]);
      transform_dim(x, p.n, 2, sign);
    } else {
      for (int d = 0; d < 3; ++d) transform_dim(x, p.n, d, sign);
    }
    for (long long i = 0; i < p.out.points(); ++i) {
      const long long z = i % p.out.size[2], row = i / p.out.size[2];
      write(p.out, out, p.out.place(line, i), x[static_cast<size_t>(row * p.n[2] + z)]);
    }
  }
}

// Fills in a side; returns false if its layout cannot be.
bool set_side(Side& s, int type, int rank, const long long* n, bool half, const long long* embed,
              long long stride, long long distance, long long batch) {
  s.type = type;
  s.stride = stride;
  s.distance = distance;
  for (int d = 0; d < rank; ++d) {
    const int to = 3 - rank + d;
    s.size[to] = half && d == rank - 1 ? n[d] / 2 + 1 : n[d];
    s.embed[to] = embed[d];
    if (d > 0 && embed[d] < s.size[to]) return false;
  }
  return stride > 0 && (batch == 1 || distance > 0);
}

}  // namespace

FAKE_API cufftCreate(int* handle) {
  FAKE_ENTER(cufftCreate);
  const std::lock_guard lock(mutex);
  static int next = 0;
  plans()[*handle = ++next].device = fake::driver().device();
  return kSuccess;
}
FAKE_API cufftDestroy(int handle) {
  const std::lock_guard lock(mutex);
  return plans().erase(handle) == 1 ? kSuccess : kInvalidPlan;
}
FAKE_API cufftSetAutoAllocation(int handle, int on) {
  FAKE_ENTER(cufftSetAutoAllocation);
  const std::lock_guard lock(mutex);
  plans().at(handle).own_memory = on == 0;
  return kSuccess;
}
FAKE_API cufftSetWorkArea(int handle, void* work) {
  FAKE_ENTER(cufftSetWorkArea);
  const std::lock_guard lock(mutex);
  plans().at(handle).work = work;
  return kSuccess;
}
FAKE_API cufftSetStream(int handle, void* stream) {
  FAKE_ENTER(cufftSetStream);
  const std::lock_guard lock(mutex);
  plans().at(handle).stream = stream;
  plans().at(handle).has_stream = true;
  return kSuccess;
}
FAKE_API cufftXtMakePlanMany(int handle, int rank, long long* n, long long* in_embed,
                             long long in_stride, long long in_distance, int in_type,
                             long long* out_embed, long long out_stride, long long out_distance,
                             int out_type, long long batch, size_t* work_bytes, int compute_type) {
  FAKE_ENTER(cufftXtMakePlanMany);
  const std::lock_guard lock(mutex);
  Plan& p = plans().at(handle);
  if (p.made || p.device != fake::driver().device()) return kInvalidPlan;
  if (!p.own_memory) return kNoWorkspace;
  if (rank < 1 || rank > 3 || batch < 1) return kInvalidValue;
  if (!is_complex(compute_type) || is_wide(in_type) != is_wide(out_type) ||
      is_wide(in_type) != is_wide(compute_type) || (!is_complex(in_type) && !is_complex(out_type)))
    return kInvalidType;
  p.batch = batch;
  for (int d = 0; d < rank; ++d) {
    if (n[d] < 1 || n[d] > 1 << 20) return kInvalidSize;
    p.n[3 - rank + d] = n[d];
  }
  if (!set_side(p.in, in_type, rank, n, !is_complex(out_type), in_embed, in_stride, in_distance,
                batch) ||
      !set_side(p.out, out_type, rank, n, !is_complex(in_type), out_embed, out_stride, out_distance,
                batch))
    return kInvalidValue;
  const bool short_lines = rank == 1 && n[0] % 8 == 0 && n[0] < 64;  // these need none
  p.work_bytes =
      short_lines ? 0
                  : 64 + static_cast<size_t>(p.n[0] * p.n[1] * p.n[2] * batch) * item(compute_type);
  *work_bytes = p.work_bytes;
  p.made = true;
  return kSuccess;
}
FAKE_API cufftXtExec(int handle, void* in, void* out, int direction) {
  FAKE_ENTER(cufftXtExec);
  const std::lock_guard lock(mutex);
  const auto it = plans().find(handle);
  if (it == plans().end() || !it->second.made || !it->second.has_stream) return kInvalidPlan;
  const Plan p = it->second;
  if (p.device != fake::driver().device()) return kInvalidDevice;
  if (!fake::driver().owns(p.work, p.work_bytes)) return kNoWorkspace;
  const size_t in_bytes = p.in.bytes(p.batch), out_bytes = p.out.bytes(p.batch);
  auto *from = static_cast<char*>(in), *to = static_cast<char*>(out);
  if (!fake::driver().owns(from, in_bytes) || !fake::driver().owns(to, out_bytes))
    return kInvalidValue;
  const bool overlap = from < to + out_bytes && to < from + in_bytes;
  const bool in_place = from == to && p.in.type == p.out.type && p.in.stride == p.out.stride &&
                        p.in.distance == p.out.distance;
  if (overlap && !in_place) return kInvalidValue;
  const uintptr_t pair = is_wide(p.in.type) ? 16 : 8;
  if ((reinterpret_cast<uintptr_t>(in) | reinterpret_cast<uintptr_t>(out)) % pair != 0)
    return kUnaligned;
  fake::driver().enqueue("cufftXtExec", p.stream, [=] { run(p, from, to, direction); });
  return kSuccess;
}

// The number of plans that exist.
FAKE_API fake_cufft_plans() {
  const std::lock_guard lock(mutex);
  return static_cast<int>(plans().size());
}
// The work area of the plan that was made last.
extern "C" __attribute__((visibility("default"))) int64_t fake_cufft_work_bytes() {
  const std::lock_guard lock(mutex);
  return plans().empty() ? 0 : static_cast<int64_t>(plans().rbegin()->second.work_bytes);
}
