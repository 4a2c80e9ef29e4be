// SPDX-License-Identifier: BSD-3-Clause
// MT19937 and the fills that consume its words in torch's order.
#include "kernels/random/random_mt.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <numeric>

#include "kernels/core/floating.h"
#include "kernels/core/isa.h"
#include "kernels/random/random_mt_loops.h"
#include "tensor/slot.h"
#include "tensor/threads.h"

namespace cograd::kernels {

COGRAD_ISA_VALUE(MtLoops, mt_loops)

void MtStream::reseed(uint64_t seed) noexcept {
  seed_ = seed;
  state_[0] = static_cast<uint32_t>(seed);
  for (uint32_t i = 1; i < kWords; ++i)
    state_[i] = 1812433253u * (state_[i - 1] ^ (state_[i - 1] >> 30)) + i;
  left_ = 1;
  next_ = 0;
  has_normal_ = false;
}

void MtStream::refill() noexcept {
  mt_loops().refill(state_.data());
  left_ = kWords + 1;
  next_ = 0;
}

uint32_t MtStream::word() noexcept {
  uint32_t y;
  words(&y, 1);
  return y;
}

void MtStream::words(uint32_t* out, int64_t n) noexcept {
  const MtLoops& loops = mt_loops();
  while (n > 0) {
    if (left_ == 1) refill();
    const auto m = std::min<int64_t>(n, left_ - 1);
    loops.temper(state_.data() + next_, m, out);
    next_ += static_cast<uint32_t>(m);
    left_ -= static_cast<uint32_t>(m);
    out += m;
    n -= m;
  }
}

double MtStream::normal() noexcept {
  if (has_normal_) {
    has_normal_ = false;
    return next_normal_;
  }
  const double turn = 2 * std::numbers::pi * uniform();
  const double radius = std::sqrt(-2 * std::log1p(-uniform()));
  next_normal_ = radius * std::sin(turn);
  has_normal_ = true;
  return radius * std::cos(turn);
}

namespace {

// The state that torch's generators write: seed, words left, 1, next, 624 words of 8 bytes, the
// saved normal number as (0, value, 0), whether there is one, and a float that is no longer used.
struct StateLayout {
  uint64_t seed;
  int32_t left;
  int32_t seeded;
  uint64_t next;
  uint64_t words[624];
  double x, normal, rho;
  int32_t has_normal;
  int32_t gap;
  float unused;
  int32_t has_unused;
};
static_assert(sizeof(StateLayout) == MtStream::kStateBytes);

}  // namespace

std::vector<uint8_t> MtStream::state() const {
  StateLayout s{};
  s.seed = seed_;
  s.left = static_cast<int32_t>(left_);
  s.seeded = 1;
  s.next = next_;
  std::copy(state_.begin(), state_.end(), s.words);
  if (has_normal_) s.normal = next_normal_;
  s.has_normal = has_normal_ ? 1 : 0;
  std::vector<uint8_t> bytes(sizeof s);
  std::memcpy(bytes.data(), &s, sizeof s);
  return bytes;
}

bool MtStream::set_state(std::span<const uint8_t> bytes) noexcept {
  StateLayout s;
  if (bytes.size() != sizeof s) return false;
  std::memcpy(&s, bytes.data(), sizeof s);
  const bool fresh = s.left == 1;
  const bool inside = s.left > 1 && s.left <= static_cast<int32_t>(kWords) &&
                      s.next + static_cast<uint64_t>(s.left) == kWords + 1;
  if (!(fresh || inside) || s.next > kWords || s.seeded != 1) return false;
  if (std::ranges::any_of(s.words, [](uint64_t w) { return w >> 32 != 0; })) return false;
  seed_ = s.seed;
  left_ = static_cast<uint32_t>(s.left);
  next_ = static_cast<uint32_t>(s.next);
  for (uint32_t i = 0; i < kWords; ++i) state_[i] = static_cast<uint32_t>(s.words[i]);
  has_normal_ = s.has_normal != 0;
  next_normal_ = s.normal;
  return true;
}

namespace {

constexpr int64_t kPiece = 1024;  // elements generated at a time

template <class T, class V>
T element(V v) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
    return T(static_cast<float>(v));
  else
    return static_cast<T>(v);
}

// Calls f(words, first element, count) for pieces that use `each` words per element.
template <class F>
void for_words(MtStream& s, int64_t n, int64_t each, const F& f) {
  alignas(64) uint32_t words[2 * kPiece];
  for (int64_t at = 0; at < n; at += kPiece) {
    const int64_t count = std::min(kPiece, n - at);
    s.words(words, count * each);
    f(static_cast<const uint32_t*>(words), at, count);
  }
}

// Calls f(TypeTag of the dtype, TypeTag of the type it is computed in).
template <class F>
void with_accumulator(DType t, const F& f) {
  dispatch_floating(t, [&]<class T>(TypeTag<T> tag) {
    f(tag, TypeTag<std::conditional_t<std::is_same_v<T, double>, double, float>>{});
  });
}

template <class A>
void uniforms(MtStream& s, int64_t n, A lo, A width, A* out) {
  for_words(s, n, std::is_same_v<A, double> ? 2 : 1, [&](const uint32_t* w, int64_t at, int64_t k) {
    if constexpr (std::is_same_v<A, double>)
      mt_loops().uniform_double(w, k, lo, width, out + at);
    else
      mt_loops().uniform_float(w, k, lo, width, out + at);
  });
}

}  // namespace

void mt_uniform(DType t, void* out, int64_t n, MtStream& s, double lo, double hi) {
  COGRAD_SLOT(mt_uniform, t, out, n, s, lo, hi);
  with_accumulator(t, [&]<class T, class A>(TypeTag<T>, TypeTag<A>) {
    const A low = static_cast<A>(lo), width = static_cast<A>(hi) - low;
    T* to = static_cast<T*>(out);
    A piece[kPiece];
    for (int64_t at = 0; at < n; at += kPiece) {
      const int64_t k = std::min(kPiece, n - at);
      uniforms(s, k, low, width, piece);
      // A value that is rounded up to hi, which is outside the range, becomes lo.
      const T first = element<T>(low), end = element<T>(hi);
      for (int64_t i = 0; i < k; ++i) {
        const T v = element<T>(piece[i]);
        to[at + i] = static_cast<A>(v) == static_cast<A>(end) ? first : v;
      }
    }
  });
}

namespace {

void groups_of_normals(const float* u, int64_t groups, float mean, float std, float* out) {
  mt_loops().normal_float(u, groups, mean, std, out);
}
void groups_of_normals(const double* u, int64_t groups, double mean, double std, double* out) {
  mt_loops().normal_double(u, groups, mean, std, out);
}

// Draws all uniform numbers, including those of an unfinished last group; then whole groups become
// normal.
template <class A>
void fill_groups(A* out, int64_t n, MtStream& s, A mean, A std) {
  uniforms(s, n, A(0), A(1), out);
  parallel_for(0, n / 16, 512, [=](int64_t lo, int64_t hi) {
    groups_of_normals(out + 16 * lo, hi - lo, mean, std, out + 16 * lo);
  });
}
// Does not draw the numbers of an unfinished group.
template <class T>
void fill_half_groups(T* out, int64_t n, MtStream& s, float mean, float std) {
  float piece[kPiece];
  n -= n % 16;
  for (int64_t at = 0; at < n; at += kPiece) {
    const int64_t k = std::min(kPiece, n - at);
    uniforms(s, k, 0.0f, 1.0f, piece);
    groups_of_normals(piece, k / 16, mean, std, piece);
    for (int64_t i = 0; i < k; ++i) out[at + i] = T(piece[i]);
  }
}

}  // namespace

void mt_normal(DType t, void* out, int64_t n, MtStream& s, double mean, double std, bool grouped) {
  COGRAD_SLOT(mt_normal, t, out, n, s, mean, std, grouped);
  with_accumulator(t, [&]<class T, class A>(TypeTag<T>, TypeTag<A>) {
    T* to = static_cast<T*>(out);
    if (!grouped || n < 16) {
      for (int64_t i = 0; i < n; ++i) to[i] = element<T>(s.normal() * std + mean);
      return;
    }
    const A m = static_cast<A>(mean), sd = static_cast<A>(std);
    if constexpr (std::is_same_v<T, A>)
      fill_groups(to, n, s, m, sd);
    else
      fill_half_groups(to, n, s, m, sd);
    if (n % 16 == 0) return;
    // Draw the last 16 again, as a group.
    A last[16];
    uniforms(s, 16, A(0), A(1), last);
    groups_of_normals(last, 1, m, sd, last);
    for (int64_t i = 0; i < 16; ++i) to[n - 16 + i] = element<T>(last[i]);
  });
}

void mt_int(DType t, void* out, int64_t n, MtStream& s, uint64_t range, int64_t lo, bool wide) {
  COGRAD_SLOT(mt_int, t, out, n, s, range, lo, wide);
  dispatch_real(t, [&]<class T>(TypeTag<T>) {
    T* to = static_cast<T*>(out);
    for_words(s, n, wide ? 2 : 1, [&](const uint32_t* w, int64_t at, int64_t k) {
      for (int64_t i = 0; i < k; ++i) {
        uint64_t v = w[i];
        if (wide) {
          v = uint64_t{w[2 * i]} << 32 | w[2 * i + 1];
          if (range != 0) v %= range;
        } else {
          v = w[i] % static_cast<uint32_t>(range);
        }
        to[at + i] = element<T>(static_cast<int64_t>(v + static_cast<uint64_t>(lo)));
      }
    });
  });
}

void mt_bernoulli(DType t, void* out, int64_t n, MtStream& s, double p) {
  COGRAD_SLOT(mt_bernoulli, t, out, n, s, p);
  dispatch_real(t, [&]<class T>(TypeTag<T>) {
    T* to = static_cast<T*>(out);
    for_words(s, n, 2, [&](const uint32_t* w, int64_t at, int64_t k) {
      uint8_t hits[kPiece];
      mt_loops().below(w, k, p, hits);
      for (int64_t i = 0; i < k; ++i) to[at + i] = element<T>(static_cast<int32_t>(hits[i]));
    });
  });
}

void mt_bernoulli_each(DType t, void* out, int64_t n, MtStream& s, DType tp, const void* p) {
  COGRAD_SLOT(mt_bernoulli_each, t, out, n, s, tp, p);
  with_accumulator(tp, [&]<class P, class A>(TypeTag<P>, TypeTag<A>) {
    const P* chance = static_cast<const P*>(p);
    dispatch_real(t, [&]<class T>(TypeTag<T>) {
      T* to = static_cast<T*>(out);
      A u[kPiece];
      for (int64_t at = 0; at < n; at += kPiece) {
        const int64_t k = std::min(kPiece, n - at);
        uniforms(s, k, A(0), A(1), u);
        for (int64_t i = 0; i < k; ++i)
          to[at + i] = element<T>(u[i] < static_cast<A>(chance[at + i]) ? 1 : 0);
      }
    });
  });
}

void mt_exponential(DType t, void* out, int64_t n, MtStream& s, double rate) {
  COGRAD_SLOT(mt_exponential, t, out, n, s, rate);
  dispatch_floating(t, [&]<class T>(TypeTag<T>) {
    T* to = static_cast<T*>(out);
    for (int64_t i = 0; i < n; ++i) to[i] = element<T>(-1 / rate * std::log1p(-s.uniform()));
  });
}

void mt_permutation(int64_t* out, int64_t n, MtStream& s) {
  COGRAD_SLOT(mt_permutation, out, n, s);
  if (n >= std::numeric_limits<uint32_t>::max() / 20) {
    for (int64_t i = 0; i < n; ++i) {
      const auto at = static_cast<int64_t>(s.pair() % static_cast<uint64_t>(i + 1));
      out[i] = i;
      std::swap(out[i], out[at]);
    }
    return;
  }
  std::iota(out, out + n, int64_t{0});
  for_words(s, std::max<int64_t>(n - 1, 0), 1, [&](const uint32_t* w, int64_t at, int64_t k) {
    for (int64_t i = 0; i < k; ++i)
      std::swap(out[at + i], out[at + i + w[i] % static_cast<uint32_t>(n - at - i)]);
  });
}

namespace {

// Draws column numbers by bisection of the row's cumulative sum over its total.
template <class T>
void draw_columns(const T* row, int64_t n, int64_t samples, MtStream& s, int64_t* out) {
  using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
  std::vector<A> sum(static_cast<size_t>(n));
  A total = 0;
  for (int64_t j = 0; j < n; ++j) sum[static_cast<size_t>(j)] = total += static_cast<A>(row[j]);
  for (A& v : sum) v /= total;
  sum.back() = 1;
  for (int64_t i = 0; i < samples; ++i) {
    const double u = s.uniform();
    const auto at =
        std::ranges::lower_bound(sum, u, {}, [](A v) { return static_cast<double>(v); });
    out[i] = std::min<int64_t>(at - sum.begin(), n - 1);
  }
}

// Chooses the largest values of p / exponential number.
template <class T>
void draw_distinct(const T* row, const T* clock, int64_t n, int64_t samples, int64_t* out) {
  using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
  std::vector<std::pair<A, int64_t>> score(static_cast<size_t>(n));
  for (int64_t j = 0; j < n; ++j) {
    const T v = element<T>(static_cast<A>(row[j]) / static_cast<A>(clock[j]));
    score[static_cast<size_t>(j)] = {-static_cast<A>(v), j};
  }
  std::partial_sort(score.begin(), score.begin() + samples, score.end());
  for (int64_t i = 0; i < samples; ++i) out[i] = score[static_cast<size_t>(i)].second;
}

}  // namespace

void mt_multinomial(DType t, const void* probs, int64_t rows, int64_t n, int64_t samples,
                    bool replacement, int64_t* out, MtStream& s) {
  COGRAD_SLOT(mt_multinomial, t, probs, rows, n, samples, replacement, out, s);
  dispatch_floating(t, [&]<class T>(TypeTag<T>) {
    const T* p = static_cast<const T*>(probs);
    if (replacement && samples > 1) {
      for (int64_t r = 0; r < rows; ++r) draw_columns(p + r * n, n, samples, s, out + r * samples);
      return;
    }
    std::vector<T> clock(static_cast<size_t>(rows * n));
    mt_exponential(t, clock.data(), rows * n, s, 1);
    for (int64_t r = 0; r < rows; ++r)
      draw_distinct(p + r * n, clock.data() + r * n, n, samples, out + r * samples);
  });
}

}  // namespace cograd::kernels
