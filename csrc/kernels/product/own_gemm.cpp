// SPDX-License-Identifier: BSD-3-Clause
// Plans products: operands as they lie or packed, tasks for threads, a divided k for small results.
#include "kernels/product/own_gemm.h"

#include <cmath>
#include <cstring>

#include "kernels/core/isa.h"
#include "kernels/product/gemm_tile.h"
#include "kernels/product/gemv_loops.h"

namespace cograd::kernels {

COGRAD_ISA_VALUE(GemmTile, gemm_tile)
COGRAD_ISA_VALUE(GemvLoops, gemv_loops)

namespace {

constexpr int64_t kSmallWork = 1 << 15;    // multiplications that never pay for packing
constexpr int64_t kSharedWork = 1 << 18;   // multiplications from which threads share a product
constexpr int64_t kLargeWork = 1 << 27;    // from here on, each thread gets several tasks
constexpr int64_t kTaskWork = 1 << 16;     // the least work of a task
constexpr int64_t kMostPacked = 1 << 21;   // elements of B that are packed at once for threads,
constexpr int64_t kMostAlone = 1 << 17;    // and for one thread: they then stay in its cache
constexpr int64_t kMostPartial = 1 << 21;  // elements of partial results if k is divided
constexpr int64_t kLeastDivided = 4 * kSumBlock;
constexpr int64_t kVectorGrain = 1 << 16;  // matrix elements per piece of a gemv

// The sizes of a product in tiles.
struct Layout {
  Layout(DType t, const GemmArgs& g)
      : tiles(gemm_tile()),
        cols(tiles.panel_cols(t)),
        strips(divide_up(g.m, tiles.strip_rows)),
        panels(divide_up(g.n, cols)) {}
  Piece whole() const { return {0, strips, 0, panels}; }
  const GemmTile& tiles;
  int64_t cols, strips, panels;
};

double work_of(const GemmArgs& g) {
  return static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k);
}
int threads_for(bool split) { return split && !in_parallel_region() ? num_threads() : 1; }

// True if tiles should read both operands as they lie: rows far apart evict each other from the
// cache and miss the page table's, which many tiles would repeat.
bool lies_well(DType t, const GemmArgs& g, const Layout& l, double work) {
  if (work < static_cast<double>(kSmallWork)) return true;
  const int64_t item = dtype_size(t);
  if (l.strips > 1 && g.k >= kDepth && rows_collide(t, g)) return false;
  if (l.strips > 1 && !g.tb && (l.strips > 28 || g.ldb * item > 4096)) return false;
  return l.panels <= 2 || l.strips == 1 || (g.n * item <= 1536 && g.lda * item % 2048 != 0);
}

// A grid of tasks over C, with pieces that are about square.
struct Tasks {
  Tasks(const GemmArgs& g, const Layout& l, int64_t want) {
    double least = INFINITY;
    for (int64_t c = 1; c <= std::min(l.panels, want); ++c) {
      const int64_t r = std::min(l.strips, divide_up(want, c));
      if (r * c < want && r * c <= rows * cols) continue;
      const double cost = static_cast<double>(g.m) / static_cast<double>(r) +
                          static_cast<double>(g.n) / static_cast<double>(c);
      if (rows * cols >= want && cost >= least) continue;
      rows = r;
      cols = c;
      least = cost;
    }
  }
  // Calls f with each piece.
  template <class F>
  void run(const Piece& whole, F&& f) const {
    const EvenParts r(whole.strip_end - whole.strip, rows);
    const EvenParts c(whole.panel_end - whole.panel, cols);
    parallel_for(0, rows * cols, 1, [&](int64_t lo, int64_t hi) {
      for (; lo < hi; ++lo) {
        const int64_t i = lo / cols, j = lo % cols;
        f(Piece{whole.strip + r.first(i), whole.strip + r.first(i + 1), whole.panel + c.first(j),
                whole.panel + c.first(j + 1)});
      }
    });
  }
  int64_t rows = 1, cols = 1;
};

int64_t wanted_tasks(double work, int threads) {
  if (threads == 1) return 1;
  const int64_t most = work < static_cast<double>(kLargeWork) ? threads : 4 * threads;
  return std::clamp<int64_t>(static_cast<int64_t>(std::min(work / kTaskWork, 1e6)), 1, most);
}

int64_t compute_size(DType t) { return t == DType::Float64 ? 8 : 4; }

// Packs B, as much of it as kMostPacked allows, and multiplies by it.
void packed_gemm(DType t, const GemmArgs& g, const Layout& l, int threads) {
  const int64_t most = threads == 1 ? kMostAlone : kMostPacked;
  const int64_t panels = std::min(l.panels, std::max<int64_t>(1, most / (kDepth * l.cols)));
  const int64_t depths = std::max<int64_t>(1, most / (panels * l.cols * kDepth));
  const int64_t depth = std::min(g.k, depths * kDepth);
  const Scratch packed(panels * l.cols * depth * compute_size(t));
  char* const data = packed.as<char>();
  const int64_t want = wanted_tasks(work_of(g), threads);
  for (int64_t first = 0; first < l.panels; first += panels) {
    const Piece piece{0, l.strips, first, std::min(l.panels, first + panels)};
    const int64_t width = piece.panel_end - first;
    const Tasks tasks(g, l, want);
    for (int64_t p = 0; p < g.k; p += depth) {
      const PackedRight b{p, std::min(g.k, p + depth), first, width, data};
      const int64_t together = threads == 1 ? width : 8;
      const int64_t groups = divide_up(width, together), rounds = divide_up(b.end - p, kDepth);
      parallel_for(
          0, groups * rounds, threads == 1 ? groups * rounds : 1, [&](int64_t lo, int64_t hi) {
            for (; lo < hi; ++lo) {
              const int64_t at = p + lo / groups * kDepth, from = lo % groups * together;
              const int64_t rows = std::min(kDepth, b.end - at);
              char* to = data + ((at - p) * width + from * rows) * l.cols * compute_size(t);
              l.tiles.pack(t, g, at, rows, first + from, first + std::min(width, from + together),
                           to);
            }
          });
      if (threads == 1)
        l.tiles.packed(t, g, piece, b);
      else
        tasks.run(piece, [&](const Piece& some) { l.tiles.packed(t, g, some, b); });
    }
  }
}

bool divides_k(const GemmArgs& g, const Layout& l, int threads) {
  return threads > 1 && g.k >= kLeastDivided && l.strips * l.panels < threads &&
         divide_up(g.k, kSumBlock) * g.m * g.n <= kMostPartial;
}

// Returns the product of one block of k alone, which is written to `part`.
GemmArgs block_of(DType t, const GemmArgs& g, int64_t block, void* part) {
  const int64_t p = block * kSumBlock, item = dtype_size(t);
  GemmArgs one = g;
  one.k = std::min(kSumBlock, g.k - p);
  one.a = static_cast<const char*>(g.a) + p * (g.ta ? g.lda : 1) * item;
  one.b = static_cast<const char*>(g.b) + p * (g.tb ? 1 : g.ldb) * item;
  one.alpha = 1;
  one.beta = 0;
  one.c = static_cast<char*>(part) + block * g.m * g.n * item;
  one.ldc = g.n;
  return one;
}

// Computes the blocks of k apart, and then adds them in their order.
void divided_gemm(DType t, const GemmArgs& g, const Layout& l) {
  const int64_t blocks = divide_up(g.k, kSumBlock), item = dtype_size(t);
  const Scratch parts(blocks * g.m * g.n * item);
  parallel_for(0, blocks, 1, [&](int64_t lo, int64_t hi) {
    for (; lo < hi; ++lo) l.tiles.direct(t, block_of(t, g, lo, parts.as<char>()), l.whole());
  });
  const int64_t grain = std::max<int64_t>(1, kVectorGrain / (blocks * g.n));
  parallel_for(0, g.m, grain, [&](int64_t lo, int64_t hi) {
    for (; lo < hi; ++lo) {
      char* c = static_cast<char*>(g.c) + lo * g.ldc * item;
      l.tiles.add_blocks(t, g.n, blocks, parts.as<char>() + lo * g.n * item, g.m * g.n, g.alpha,
                         g.beta, c);
    }
  });
}

void float_gemm(DType t, const GemmArgs& g, bool split) {
  const Layout l(t, g);
  const double work = work_of(g);
  if (work < static_cast<double>(kSmallWork)) return l.tiles.direct(t, g, l.whole());
  const int threads = work < static_cast<double>(kSharedWork) ? 1 : threads_for(split);
  if (divides_k(g, l, threads)) return divided_gemm(t, g, l);
  if (!lies_well(t, g, l, work)) return packed_gemm(t, g, l, threads);
  const int64_t want = wanted_tasks(work, threads);
  if (want == 1) return l.tiles.direct(t, g, l.whole());
  Tasks(g, l, want).run(l.whole(), [&](const Piece& piece) { l.tiles.direct(t, g, piece); });
}

// Calls f with the number of each row of a matrix, on several threads if that pays.
template <class F>
void each_row(int64_t rows, int64_t cols, bool split, F&& f) {
  const int64_t grain =
      split ? std::max<int64_t>(1, kVectorGrain / std::max<int64_t>(cols, 1)) : rows;
  parallel_for(0, rows, grain, [&](int64_t lo, int64_t hi) {
    for (; lo < hi; ++lo) f(lo);
  });
}
void widen_all(DType t, const void* from, int64_t rows, int64_t cols, int64_t ld, bool split,
               float* to) {
  each_row(rows, cols, split, [&](int64_t i) {
    gemm_tile().widen(t, static_cast<const char*>(from) + i * ld * 2, cols, to + i * cols);
  });
}

// Multiplies widened copies of 16-bit operands; f.c is a float matrix already.
void widened_gemm(DType t, const GemmArgs& g, GemmArgs f, bool split, float* a, float* b) {
  f.lda = g.ta ? g.m : g.k;
  f.ldb = g.tb ? g.k : g.n;
  f.a = a;
  f.b = b;
  widen_all(t, g.a, g.ta ? g.k : g.m, f.lda, g.lda, split, a);
  widen_all(t, g.b, g.tb ? g.n : g.k, f.ldb, g.ldb, split, b);
  float_gemm(DType::Float32, f, split);
}

void half_gemm(DType t, const GemmArgs& g, bool split) {
  constexpr int64_t kOnStack = 4096;
  float stack[kOnStack];
  const int64_t of_a = g.m * g.k, of_b = g.k * g.n, of_c = g.m * g.n;
  const bool small =
      of_c <= kOnStack && of_a <= kOnStack && of_b <= kOnStack && of_a + of_b + of_c <= kOnStack;
  const Scratch heap(small ? 0 : of_c * 4);
  float* c = small ? stack : heap.as<float>();
  GemmArgs f = g;
  f.c = c;
  f.ldc = g.n;
  if (g.beta != 0) widen_all(t, g.c, g.m, g.n, g.ldc, split, c);
  const Layout l(DType::Float32, g);
  const int threads = threads_for(split);
  if (small) {
    widened_gemm(t, g, f, split, c + of_c, c + of_c + of_a);
  } else if (divides_k(g, l, threads)) {
    const Scratch copies((of_a + of_b) * 4);
    widened_gemm(t, g, f, split, copies.as<float>(), copies.as<float>() + of_a);
  } else {
    packed_gemm(t, f, l, work_of(g) < static_cast<double>(kSharedWork) ? 1 : threads);
  }
  each_row(g.m, g.n, split, [&](int64_t i) {
    gemm_tile().narrow(t, c + i * g.n, g.n, static_cast<char*>(g.c) + i * g.ldc * 2);
  });
}

// Returns rows [lo, hi) of a product.
GemmArgs rows_of(DType t, const GemmArgs& g, int64_t lo, int64_t hi) {
  GemmArgs r = g;
  r.m = hi - lo;
  r.a = static_cast<const char*>(g.a) + lo * (g.ta ? 1 : g.lda) * dtype_size(t);
  r.c = static_cast<char*>(g.c) + lo * g.ldc * dtype_size(t);
  return r;
}

}  // namespace

namespace {

// True if all rows run along k and the result is narrow: tiles, most of whose width would be empty,
// take longer than a product with a vector for each column.
bool is_narrow(const GemmArgs& g) { return !g.ta && g.tb && g.n <= 4 && g.k >= 64; }

// Computes column after column, for rows of A that stay in the second-level cache meanwhile.
void gemm_by_columns(DType t, const GemmArgs& g, bool split) {
  constexpr int64_t kCached = 1 << 16;  // elements
  const int64_t item = dtype_size(t), rows = std::max<int64_t>(4, kCached / g.k / 4 * 4);
  const int64_t blocks = divide_up(g.m, rows);
  parallel_for(0, blocks, split ? 1 : blocks, [&](int64_t lo, int64_t hi) {
    for (int64_t i = lo * rows; i < std::min(g.m, hi * rows); i += rows)
      for (int64_t j = 0; j < g.n; ++j)
        own_gemv(t, false, std::min(rows, g.m - i), g.k, g.alpha,
                 static_cast<const char*>(g.a) + i * g.lda * item, g.lda,
                 static_cast<const char*>(g.b) + j * g.ldb * item, 1, g.beta,
                 static_cast<char*>(g.c) + (i * g.ldc + j) * item, g.ldc, false);
  });
}

}  // namespace

void own_gemm(DType t, const GemmArgs& g, bool split) {
  if (is_narrow(g)) return gemm_by_columns(t, g, split);
  if (dtype_size(t) == 2) return half_gemm(t, g, split);
  float_gemm(t, g, split);
}

void own_gemm_batched(DType t, const GemmArgs& g, const BatchSteps& s, int64_t batch) {
  const double work = work_of(g);
  const int threads = threads_for(true);
  if (work >= static_cast<double>(kLargeWork) && batch < 8 * threads) {
    for (int64_t i = 0; i < batch; ++i) own_gemm(t, s.product(t, g, i), true);
    return;
  }
  // Rows of one product are shared if there are fewer products than threads can take.
  int64_t pieces = 1;
  if (batch < 2 * threads && work >= static_cast<double>(kSharedWork))
    pieces = std::clamp<int64_t>(2 * threads / batch, 1, divide_up(g.m, gemm_tile().strip_rows));
  const EvenParts rows(g.m, pieces);
  const auto grain = static_cast<int64_t>(static_cast<double>(kSharedWork) / std::max(work, 1.0));
  parallel_for(0, batch * pieces, std::max<int64_t>(1, grain), [&](int64_t lo, int64_t hi) {
    for (; lo < hi; ++lo) {
      const GemmArgs one = s.product(t, g, lo / pieces);
      const int64_t part = lo % pieces;
      own_gemm(t, pieces == 1 ? one : rows_of(t, one, rows.first(part), rows.first(part + 1)),
               false);
    }
  });
}

namespace {

// Multiplies a 16-bit matrix piece by piece through widened copies.
void half_gemv(DType t, bool ta, const GemvArgs& g) {
  constexpr int64_t kPiece = 1 << 16;  // elements of a copy
  const int64_t most = std::min(g.out, std::max<int64_t>(kPiece / g.terms, ta ? 16 : 1));
  const Scratch scratch((most * g.terms + most) * 4);
  float* const copy = scratch.as<float>();
  float* const y = copy + most * g.terms;
  const auto element = [&](int64_t i) { return static_cast<char*>(g.y) + i * g.incy * 2; };
  for (int64_t first = 0; first < g.out; first += most) {
    const int64_t some = std::min(most, g.out - first);
    const char* a = static_cast<const char*>(g.a) + first * (ta ? 1 : g.lda) * 2;
    widen_all(t, a, ta ? g.terms : some, ta ? some : g.terms, g.lda, false, copy);
    if (g.beta != 0)
      for (int64_t i = 0; i < some; ++i) gemm_tile().widen(t, element(first + i), 1, y + i);
    const auto multiply = ta ? gemv_loops().columns : gemv_loops().rows;
    multiply(DType::Float32,
             {some, g.terms, g.alpha, copy, ta ? some : g.terms, g.x, g.beta, y, 1});
    const int64_t run = g.incy == 1 ? some : 1;
    for (int64_t i = 0; i < some; i += run) gemm_tile().narrow(t, y + i, run, element(first + i));
  }
}

}  // namespace

void own_gemv(DType t, bool ta, int64_t m, int64_t n, double alpha, const void* a, int64_t lda,
              const void* x, int64_t incx, double beta, void* y, int64_t incy, bool split) {
  constexpr int64_t kOnStack = 16 * 1024;
  const int64_t out = ta ? n : m, terms = ta ? m : n, item = dtype_size(t);
  alignas(64) char stack[kOnStack];
  const bool copied = incx != 1 || item == 2, large = terms * compute_size(t) > kOnStack;
  const Scratch heap(copied && large ? terms * compute_size(t) : 0);
  if (copied) {
    char* copy = large ? heap.as<char>() : stack;
    if (item == 2) {
      const int64_t run = incx == 1 ? terms : 1;
      for (int64_t i = 0; i < terms; i += run)
        gemm_tile().widen(t, static_cast<const char*>(x) + i * incx * 2, run,
                          reinterpret_cast<float*>(copy) + i);
    } else {
      for (int64_t i = 0; i < terms; ++i)
        std::memcpy(copy + i * item, static_cast<const char*>(x) + i * incx * item,
                    static_cast<size_t>(item));
    }
    x = copy;
  }
  const auto multiply = ta ? gemv_loops().columns : gemv_loops().rows;
  // Pieces of at least 64 columns read whole lines of each row.
  const int64_t least = ta ? 64 : 4, work = out * terms;
  const int threads = work < 2 * kVectorGrain ? 1 : threads_for(split);
  const int64_t pieces = threads == 1 ? 1 : std::min<int64_t>(2 * threads, work / kVectorGrain);
  const int64_t grain = divide_up(divide_up(out, pieces), least) * least;
  parallel_for(0, out, grain, [&](int64_t lo, int64_t hi) {
    const GemvArgs some{
        hi - lo, terms, alpha, static_cast<const char*>(a) + (ta ? lo : lo * lda) * item,
        lda,     x,     beta,  static_cast<char*>(y) + lo * incy * item,
        incy};
    item == 2 ? half_gemv(t, ta, some) : multiply(t, some);
  });
}

}  // namespace cograd::kernels
