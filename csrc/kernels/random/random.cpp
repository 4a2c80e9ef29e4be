// SPDX-License-Identifier: BSD-3-Clause
// Random fills: split the output into fixed pieces, generate words for each and convert them.
#include "kernels/random/random.h"
#include "kernels/core/floating.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "kernels/core/isa.h"
#include "kernels/random/random_loops.h"
#include "tensor/slot.h"
#include "tensor/threads.h"

namespace cograd::kernels {

COGRAD_ISA_VALUE(RandomLoops, random_loops)

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> c, std::array<uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(p0)};
    k[0] += 0x9E3779B9u;
    k[1] += 0xBB67AE85u;
  }
  return c;
}

namespace {

constexpr int64_t kPieceGroups = 16;  // groups generated at a time: 4 KiB of words
constexpr int64_t kGrainPieces = 8;

// Calls f(words, groups, first element, count) for pieces of at most kPieceGroups groups, each of
// which serves `per_group` elements. Returns the number of blocks used.
template <class F>
uint64_t for_pieces(int64_t n, int64_t per_group, PhiloxState s, const F& f) {
  const int64_t groups = (n + per_group - 1) / per_group;
  const int64_t pieces = (groups + kPieceGroups - 1) / kPieceGroups;
  HeavyScope heavy(n);
  const RandomLoops loops = random_loops();
  parallel_for(0, pieces, kGrainPieces, [&](int64_t lo, int64_t hi) {
    alignas(64) uint32_t words[kPieceGroups * kGroupWords];
    for (; lo < hi; ++lo) {
      const int64_t g = lo * kPieceGroups, count = std::min(kPieceGroups, groups - g);
      loops.words(s.seed, s.offset + static_cast<uint64_t>(g * kGroupBlocks), count, words);
      f(static_cast<const uint32_t*>(words), count, g * per_group,
        std::min(count * per_group, n - g * per_group));
    }
  });
  return static_cast<uint64_t>(groups * kGroupBlocks);
}

template <class T, class V>
T convert(V v) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return T(static_cast<float>(v));
  } else {
    return static_cast<T>(v);
  }
}

template <class A>
struct Buffer {
  alignas(64) A data[kPieceGroups * kGroupWords];
};

// Calls make(), which fills a buffer of A (float or double) with whole groups, then finish(value),
// which turns each value into an element.
template <class T, class A, class Make, class Finish>
uint64_t fill_as(void* out, int64_t n, PhiloxState s, const Make& make, const Finish& finish) {
  constexpr int64_t kPerGroup = std::is_same_v<A, double> ? 32 : 64;
  T* dst = static_cast<T*>(out);
  return for_pieces(n, kPerGroup, s,
                    [&](const uint32_t* w, int64_t groups, int64_t first, int64_t count) {
                      Buffer<A> buffer;
                      make(w, groups, buffer.data);
                      for (int64_t i = 0; i < count; ++i) {
                        dst[first + i] = static_cast<T>(finish(buffer.data[i]));
                      }
                    });
}

template <class MakeF, class MakeD, class Finish>
uint64_t fill_floating(DType t, void* out, int64_t n, PhiloxState s, const MakeF& make_float,
                       const MakeD& make_double, const Finish& finish) {
  switch (t) {
    case DType::Float16:
      return fill_as<Half, float>(out, n, s, make_float, finish);
    case DType::BFloat16:
      return fill_as<BFloat16, float>(out, n, s, make_float, finish);
    case DType::Float32:
      return fill_as<float, float>(out, n, s, make_float, finish);
    default:
      return fill_as<double, double>(out, n, s, make_double, finish);
  }
}

// Returns the largest value of dtype t below hi, or hi itself if there is none.
double below_limit(DType t, double hi, double lo) {
  if (!(hi > lo)) return hi;
  if (t == DType::Float64) return std::nextafter(hi, lo);
  if (t == DType::Float32) {
    const auto f = static_cast<float>(hi);
    return static_cast<double>(static_cast<double>(f) < hi ? f : std::nextafterf(f, -INFINITY));
  }
  // Step down by one unit in the last place until the rounded value is below hi.
  double step = std::abs(hi) * (t == DType::Float16 ? 0x1p-12 : 0x1p-9) + 0x1p-26;
  for (double v = hi;; v -= step) {
    const double r = t == DType::Float16
                         ? static_cast<double>(static_cast<float>(convert<Half>(v)))
                         : static_cast<double>(static_cast<float>(convert<BFloat16>(v)));
    if (r < hi) return std::max(r, lo);
  }
}

}  // namespace

uint64_t random_uniform(DType t, void* out, int64_t n, PhiloxState s, double lo, double hi) {
  COGRAD_SLOT_OR(0, random_uniform, t, out, n, s, lo, hi);
  const RandomLoops loops = random_loops();
  const int bits = t == DType::Float16 ? 11 : t == DType::BFloat16 ? 8 : 24;
  const double top = below_limit(t, hi, lo);
  const auto top_f = static_cast<float>(top), lo_f = static_cast<float>(lo);
  const auto width_f = static_cast<float>(hi - lo);
  const double width = hi - lo;
  return fill_floating(
      t, out, n, s,
      [&](const uint32_t* w, int64_t g, float* p) { loops.uniform_float(w, g, bits, p); },
      loops.uniform_double,
      [=]<class A>(A u) {
        if constexpr (std::is_same_v<A, float>) {
          return std::min(u * width_f + lo_f, top_f);
        } else {
          return std::min(u * width + lo, top);
        }
      });
}

uint64_t random_normal(DType t, void* out, int64_t n, PhiloxState s, double mean, double std) {
  COGRAD_SLOT_OR(0, random_normal, t, out, n, s, mean, std);
  const RandomLoops loops = random_loops();
  return fill_floating(t, out, n, s, loops.normal_float, loops.normal_double, [=]<class A>(A z) {
    return z * static_cast<A>(std) + static_cast<A>(mean);
  });
}

uint64_t random_exponential(DType t, void* out, int64_t n, PhiloxState s, double rate) {
  COGRAD_SLOT_OR(0, random_exponential, t, out, n, s, rate);
  const RandomLoops loops = random_loops();
  return fill_floating(t, out, n, s, loops.exponential_float, loops.exponential_double,
                       [=]<class A>(A e) { return e / static_cast<A>(rate); });
}

uint64_t random_int(DType t, void* out, int64_t n, PhiloxState s, int64_t lo, int64_t hi) {
  COGRAD_SLOT_OR(0, random_int, t, out, n, s, lo, hi);
  const RandomLoops loops = random_loops();
  const uint64_t range = static_cast<uint64_t>(hi) - static_cast<uint64_t>(lo);
  const bool narrow = range != 0 && range <= 0xFFFFFFFFu;
  return dispatch_real(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* dst = static_cast<T*>(out);
    return for_pieces(
        n, 32, s, [&](const uint32_t* w, int64_t groups, int64_t first, int64_t count) {
          alignas(64) int64_t buffer[kPieceGroups * 32];
          if (narrow) {
            loops.below(w, groups, static_cast<uint32_t>(range), lo, buffer);
          } else {
            auto* bits = reinterpret_cast<uint64_t*>(buffer);
            loops.bits64(w, groups, bits);
            for (int64_t i = 0; i < count && range != 0; ++i) {
              __extension__ using U128 = unsigned __int128;
              bits[i] = static_cast<uint64_t>(lo) +
                        static_cast<uint64_t>((static_cast<U128>(bits[i]) * range) >> 64);
            }
          }
          for (int64_t i = 0; i < count; ++i) {
            if constexpr (std::is_integral_v<T>) {
              dst[first + i] = static_cast<T>(buffer[i]);
            } else {
              dst[first + i] = convert<T>(static_cast<double>(buffer[i]));
            }
          }
        });
  });
}

uint64_t random_bernoulli(DType t, void* out, int64_t n, PhiloxState s, double p) {
  COGRAD_SLOT_OR(0, random_bernoulli, t, out, n, s, p);
  const auto threshold = static_cast<uint64_t>(std::ceil(std::clamp(p, 0.0, 1.0) * 0x1p32));
  // Compare in 32 bits: word <= threshold - 1, and never for a threshold of 0.
  const auto last = static_cast<uint32_t>(threshold - 1);
  const bool never = threshold == 0;
  const RandomLoops loops = random_loops();
  return dispatch_real(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* dst = static_cast<T*>(out);
    return for_pieces(n, kGroupWords, s,
                      [&](const uint32_t* w, int64_t groups, int64_t first, int64_t count) {
                        Buffer<uint8_t> hits;
                        loops.at_most(w, groups, last, hits.data);
                        if (never) std::fill_n(hits.data, count, uint8_t{0});
                        for (int64_t i = 0; i < count; ++i) {
                          dst[first + i] = convert<T>(static_cast<int32_t>(hits.data[i]));
                        }
                      });
  });
}

uint64_t random_bernoulli_each(DType t, void* out, int64_t n, PhiloxState s, DType tp,
                               const void* p) {
  COGRAD_SLOT_OR(0, random_bernoulli_each, t, out, n, s, tp, p);
  const auto run = [&]<class P>(TypeTag<P>) {
    const P* prob = static_cast<const P*>(p);
    return dispatch_real(t, [&](auto tag) {
      using T = typename decltype(tag)::type;
      T* dst = static_cast<T*>(out);
      return for_pieces(n, kGroupWords, s,
                        [&](const uint32_t* w, int64_t, int64_t first, int64_t count) {
                          for (int64_t i = 0; i < count; ++i) {
                            const double u = static_cast<double>(w[i]) * 0x1p-32;
                            const bool hit = u < static_cast<double>(prob[first + i]);
                            dst[first + i] = convert<T>(hit ? 1 : 0);
                          }
                        });
    });
  };
  return dispatch_floating(tp, run);
}

uint64_t random_permutation(int64_t* out, int64_t n, PhiloxState s) {
  COGRAD_SLOT_OR(0, random_permutation, out, n, s);
  HeavyScope heavy(n);
  std::iota(out, out + n, int64_t{0});
  std::vector<uint64_t> bits(static_cast<size_t>(n));
  const RandomLoops loops = random_loops();
  const uint64_t used =
      for_pieces(n, 32, s, [&](const uint32_t* w, int64_t groups, int64_t first, int64_t count) {
        alignas(64) uint64_t buffer[kPieceGroups * 32];
        loops.bits64(w, groups, buffer);
        std::copy_n(buffer, count, bits.begin() + first);
      });
  __extension__ using U128 = unsigned __int128;
  for (int64_t i = n - 1; i > 0; --i) {
    const U128 scaled = static_cast<U128>(bits[static_cast<size_t>(i)]) * static_cast<U128>(i + 1);
    std::swap(out[i], out[static_cast<int64_t>(scaled >> 64)]);
  }
  return used;
}

namespace {

// Draws column numbers with replacement, by inversion of the cumulative sum.
void draw_with_replacement(const std::vector<double>& p, int64_t samples, const double* u,
                           int64_t* out) {
  std::vector<double> sum(p.size());
  std::partial_sum(p.begin(), p.end(), sum.begin());
  int64_t last = static_cast<int64_t>(p.size()) - 1;
  while (last > 0 && p[static_cast<size_t>(last)] == 0) --last;
  for (int64_t i = 0; i < samples; ++i) {
    const auto it = std::upper_bound(sum.begin(), sum.end(), u[i] * sum.back());
    out[i] = std::min(static_cast<int64_t>(it - sum.begin()), last);
  }
}

// Draws without replacement: returns the first arrivals of exponential clocks with rates p.
void draw_distinct(const std::vector<double>& p, int64_t samples, const double* u, int64_t* out) {
  std::vector<std::pair<double, int64_t>> arrival(p.size());
  for (size_t i = 0; i < p.size(); ++i) {
    const double rate = p[i];
    arrival[i] = {rate > 0 ? -std::log1p(-u[i]) / rate : std::numeric_limits<double>::infinity(),
                  static_cast<int64_t>(i)};
  }
  std::partial_sort(arrival.begin(), arrival.begin() + samples, arrival.end());
  for (int64_t i = 0; i < samples; ++i) out[i] = arrival[static_cast<size_t>(i)].second;
}

}  // namespace

uint64_t random_multinomial(DType t, const void* probs, int64_t rows, int64_t n, int64_t samples,
                            bool replacement, int64_t* out, PhiloxState s) {
  COGRAD_SLOT_OR(0, random_multinomial, t, probs, rows, n, samples, replacement, out, s);
  HeavyScope heavy(rows * n);
  const int64_t draws = replacement ? samples : n;
  std::vector<double> u(static_cast<size_t>(rows * draws));
  const uint64_t used = random_uniform(DType::Float64, u.data(), rows * draws, s, 0.0, 1.0);
  parallel_for(0, rows, 1, [&](int64_t lo, int64_t hi) {
    std::vector<double> p(static_cast<size_t>(n));
    for (; lo < hi; ++lo) {
      dispatch_real(t, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const T* row = static_cast<const T*>(probs) + lo * n;
        for (int64_t j = 0; j < n; ++j) {
          p[static_cast<size_t>(j)] = static_cast<double>(row[j]);
        }
      });
      const double* mine = u.data() + lo * draws;
      if (replacement) {
        draw_with_replacement(p, samples, mine, out + lo * samples);
      } else {
        draw_distinct(p, samples, mine, out + lo * samples);
      }
    }
  });
  return used;
}

}  // namespace cograd::kernels
