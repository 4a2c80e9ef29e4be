// SPDX-License-Identifier: BSD-3-Clause
// The device for g++: what kernels' text uses of CUDA, on the CPU. Threads of a block run one after
// the other; those of a COGRAD_BLOCK_KERNEL run as fibers, which switch at barriers and shuffles.
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define COGRAD_EXPORT __attribute__((visibility("default")))
#define COGRAD_KERNEL_OF(name, Args)                     \
  static void name##_body(const Args& a);                \
  extern "C" COGRAD_EXPORT void name(const void* args) { \
    name##_body(*static_cast<const Args*>(args));        \
  }                                                      \
  extern "C" COGRAD_EXPORT const unsigned name##_args_size = sizeof(Args);
#define COGRAD_KERNEL(name, Args, ...) \
  COGRAD_KERNEL_OF(name, Args)         \
  static void name##_body([[maybe_unused]] const Args& a)
#define COGRAD_BLOCK_KERNEL(name, Args, ...)                         \
  COGRAD_KERNEL_OF(name, Args)                                       \
  static const ::cograd_twin::BlockKernel name##_synchronises(name); \
  static void name##_body([[maybe_unused]] const Args& a)
#define COGRAD_UNROLL
#define COGRAD_SHARED static thread_local
#define COGRAD_DYNAMIC_SHARED(T, name) \
  T* const name = reinterpret_cast<T*>(::cograd_twin::dynamic_shared)

namespace cograd_twin {

using Kernel = void (*)(const void*);
struct Dims {
  unsigned x, y, z;
};

constexpr unsigned kMostThreads = 1024;
constexpr size_t kStack = size_t{64} << 10;

// The kernels whose threads need fibers.
struct BlockKernel {
  explicit BlockKernel(Kernel f) : kernel(f), next(first()) { first() = this; }
  static const BlockKernel*& first() {
    static const BlockKernel* list = nullptr;
    return list;
  }
  static bool has(Kernel f) {
    for (const BlockKernel* k = first(); k != nullptr; k = k->next)
      if (k->kernel == f) return true;
    return false;
  }
  Kernel kernel;
  const BlockKernel* next;
};

// Threads that wait for one another: a block, or a warp.
struct Barrier {
  unsigned live, arrived, turn;
};
struct Fiber {
  void* stack_pointer;
  ucontext_t context;
  Dims index;
  const Barrier* waits;
  unsigned turn;
  bool ended;
};
// Copies to shared memory that a thread has begun: they are done when it waits for them.
constexpr int kMostCopies = 64;
struct Copies {
  struct Copy {
    void* to;
    const void* from;  // null: zeros
    int group;
  } list[kMostCopies];
  int count, groups;
};
struct Block {
  Fiber fibers[kMostThreads];
  Barrier all, warps[kMostThreads / 32];
  unsigned char slots[kMostThreads][16];
  uint32_t words[kMostThreads][6];  // what mma gets from each lane
  Copies copies[kMostThreads];
  unsigned count, now;
  void* scheduler;
  ucontext_t scheduler_context;
  char* stacks;
  Kernel kernel;
  const void* args;
};
static thread_local Block* block = nullptr;
static thread_local unsigned char* dynamic_shared = nullptr;

}  // namespace cograd_twin

static thread_local cograd_twin::Dims threadIdx, blockIdx, blockDim, gridDim;

#if defined(__x86_64__)
// Saves the registers that a call preserves, and the stack pointer; continues on another stack.
asm(R"(
.text
.type cograd_twin_switch, @function
cograd_twin_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");
extern "C" __attribute__((visibility("hidden"))) void cograd_twin_switch(void** from, void* to);
#endif

namespace cograd_twin {

static void to_scheduler() {
  Fiber& f = block->fibers[block->now];
#if defined(__x86_64__)
  cograd_twin_switch(&f.stack_pointer, block->scheduler);
#else
  swapcontext(&f.context, &block->scheduler_context);
#endif
}
static void release_if_complete(Barrier& b) {
  if (b.arrived < b.live || b.live == 0) return;
  b.arrived = 0;
  ++b.turn;
}
static void wait(Barrier& b) {
  Fiber& f = block->fibers[block->now];
  const unsigned turn = b.turn;
  ++b.arrived;
  release_if_complete(b);
  if (b.turn != turn) return;
  f.waits = &b;
  f.turn = turn;
  to_scheduler();
  f.waits = nullptr;
}
static void run_fiber() {
  Block& b = *block;
  b.kernel(b.args);
  Fiber& f = b.fibers[b.now];
  f.ended = true;
  if (b.copies[b.now].count != 0) {
    fputs("twin: a thread ended before its copies\n", stderr);
    abort();
  }
  // Barriers do not count threads that have returned.
  Barrier& w = b.warps[b.now / 32];
  --b.all.live;
  --w.live;
  release_if_complete(b.all);
  release_if_complete(w);
  to_scheduler();
  abort();
}
static void prepare(Fiber& f, char* stack) {
#if defined(__x86_64__)
  void** top = reinterpret_cast<void**>(stack + kStack) - 2;
  *top = reinterpret_cast<void*>(&run_fiber);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  f.stack_pointer = top;
#else
  getcontext(&f.context);
  f.context.uc_stack.ss_sp = stack;
  f.context.uc_stack.ss_size = kStack;
  f.context.uc_link = nullptr;
  makecontext(&f.context, run_fiber, 0);
#endif
}
static void resume(unsigned t) {
  Fiber& f = block->fibers[t];
  block->now = t;
  threadIdx = f.index;
#if defined(__x86_64__)
  cograd_twin_switch(&block->scheduler, f.stack_pointer);
#else
  swapcontext(&block->scheduler_context, &f.context);
#endif
}

static Dims index_of(unsigned t) {
  return {t % blockDim.x, t / blockDim.x % blockDim.y, t / blockDim.x / blockDim.y};
}
static void run_fibers(Kernel kernel, const void* args, unsigned count) {
  if (block == nullptr) {
    block = static_cast<Block*>(calloc(1, sizeof(Block)));
    block->stacks = static_cast<char*>(aligned_alloc(4096, kMostThreads * kStack));
  }
  Block& b = *block;
  b.kernel = kernel;
  b.args = args;
  b.count = count;
  b.all = {count, 0, 0};
  for (unsigned w = 0; w * 32 < count; ++w)
    b.warps[w] = {count - w * 32 < 32 ? count - w * 32 : 32, 0, 0};
  for (unsigned t = 0; t < count; ++t) {
    b.fibers[t].index = index_of(t);
    b.fibers[t].waits = nullptr;
    b.fibers[t].ended = false;
    b.copies[t].count = b.copies[t].groups = 0;
    prepare(b.fibers[t], b.stacks + t * kStack);
  }
  for (unsigned ended = 0; ended < count;) {
    bool moved = false;
    ended = 0;
    for (unsigned t = 0; t < count; ++t) {
      const Fiber& f = b.fibers[t];
      if (!f.ended && (f.waits == nullptr || f.waits->turn != f.turn)) {
        resume(t);
        moved = true;
      }
      ended += f.ended;
    }
    if (!moved && ended < count) {
      fputs("twin: threads of a block wait at different barriers\n", stderr);
      abort();
    }
  }
}

// Gives each lane of the warp the value of another one; a lane without a source keeps its own.
template <class T>
static T exchange(T v, int source) {
  static_assert(sizeof(T) <= 16);
  Block& b = *block;
  const unsigned t = b.now, base = t / 32 * 32;
  memcpy(b.slots[t], &v, sizeof v);
  wait(b.warps[t / 32]);
  T r = v;
  if (source >= 0 && base + source < b.count) memcpy(&r, b.slots[base + source], sizeof r);
  wait(b.warps[t / 32]);
  return r;
}
inline int lane() { return static_cast<int>(block->now % 32); }

// cp.async of 16 bytes, commit_group and wait_group.
inline void begin_copy(void* to, const void* from, bool zeros) {
  Copies& c = block->copies[block->now];
  const uintptr_t low = (reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from)) % 16;
  if (low != 0 || c.count == kMostCopies) {
    fputs("twin: a copy that is not aligned to 16 bytes, or too many at once\n", stderr);
    abort();
  }
  c.list[c.count++] = {to, zeros ? nullptr : from, c.groups};
}
inline void end_copies() { ++block->copies[block->now].groups; }
inline void copies_arrived(int left) {
  Copies& c = block->copies[block->now];
  int kept = 0;
  for (int i = 0; i < c.count; ++i) {
    const Copies::Copy one = c.list[i];
    if (one.group >= c.groups - left)
      c.list[kept++] = one;
    else if (one.from == nullptr)
      memset(one.to, 0, 16);
    else
      memcpy(one.to, one.from, 16);
  }
  c.count = kept;
}

// ldmatrix.x4 by the tables of the PTX manual: matrix i has its row r at the address that lane
// 8 i + r passes; lane l gets elements 2 (l % 4) and the next one of row l / 4, or, transposed, of
// column l / 4.
inline void load_matrices(uint32_t (&r)[4], const void* row, bool transposed) {
  Block& b = *block;
  const unsigned t = b.now, base = t / 32 * 32;
  if (reinterpret_cast<uintptr_t>(row) % 16 != 0) {
    fputs("twin: a row of ldmatrix is not aligned to 16 bytes\n", stderr);
    abort();
  }
  memcpy(b.slots[t], &row, sizeof row);
  wait(b.warps[t / 32]);
  const int first = lane() % 4 * 2, line = lane() / 4;
  for (int i = 0; i < 4; ++i) {
    uint16_t v[2];
    for (int e = 0; e < 2; ++e) {
      const int from = transposed ? first + e : line, at = transposed ? line : first + e;
      const uint16_t* there;
      memcpy(&there, b.slots[base + static_cast<unsigned>(8 * i + from)], sizeof there);
      v[e] = there[at];
    }
    r[i] = v[0] | static_cast<uint32_t>(v[1]) << 16;
  }
  wait(b.warps[t / 32]);
}
// mma.m16n8k16 by the tables of the PTX manual, where a lane's group is l / 4 and its place l % 4:
// a's register i has row group + 8 (i % 2), columns 2 place + 8 (i / 2) and the next one; b's has
// rows 2 place + 8 i and the next one of column group; c has rows group + 8 (i / 2), columns
// 2 place + i % 2. `value` decodes an element.
template <class F>
inline void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                         F&& value) {
  Block& b = *block;
  const unsigned t = b.now, base = t / 32 * 32;
  const uint32_t all[6] = {a[0], a[1], a[2], a[3], b0, b1};
  memcpy(b.words[t], all, sizeof all);
  wait(b.warps[t / 32]);
  const auto element = [&](int group, int place, int word, int half) {
    const uint32_t w = b.words[base + static_cast<unsigned>(4 * group + place)][word];
    return value(static_cast<uint16_t>(w >> (16 * half)));
  };
  for (int i = 0; i < 4; ++i) {
    const int row = lane() / 4 + 8 * (i / 2), column = lane() % 4 * 2 + i % 2;
    for (int k = 0; k < 16; ++k) {
      const int place = k % 8 / 2, right = k / 8;
      c[i] += element(row % 8, place, row / 8 + 2 * right, k % 2) *
              element(column, place, 4 + right, k % 2);
    }
  }
  wait(b.warps[t / 32]);
}
// Returns the lane `to` if it is in the same part of the warp, else this one.
inline int within(int to, int width) {
  const int first = lane() / width * width;
  return to >= first && to < first + width ? to : lane();
}

}  // namespace cograd_twin

inline void __syncthreads() { cograd_twin::wait(cograd_twin::block->all); }
inline void __syncwarp(unsigned = 0xFFFFFFFFu) {
  cograd_twin::wait(cograd_twin::block->warps[cograd_twin::block->now / 32]);
}
inline void __threadfence() {}
inline void __threadfence_block() {}
template <class T>
T __shfl_sync(unsigned, T v, int source, int width = 32) {
  return cograd_twin::exchange(v, cograd_twin::lane() / width * width + source % width);
}
template <class T>
T __shfl_down_sync(unsigned, T v, unsigned delta, int width = 32) {
  return cograd_twin::exchange(v, cograd_twin::within(cograd_twin::lane() + int(delta), width));
}
template <class T>
T __shfl_up_sync(unsigned, T v, unsigned delta, int width = 32) {
  return cograd_twin::exchange(v, cograd_twin::within(cograd_twin::lane() - int(delta), width));
}
template <class T>
T __shfl_xor_sync(unsigned, T v, int mask, int width = 32) {
  return cograd_twin::exchange(v, cograd_twin::within(cograd_twin::lane() ^ mask, width));
}
inline unsigned __ballot_sync(unsigned, int predicate) {
  cograd_twin::Block& b = *cograd_twin::block;
  const unsigned t = b.now, base = t / 32 * 32;
  b.slots[t][0] = predicate != 0;
  cograd_twin::wait(b.warps[t / 32]);
  unsigned bits = 0;
  for (unsigned i = 0; i < 32 && base + i < b.count; ++i)
    bits |= unsigned{b.slots[base + i][0] != 0 && !b.fibers[base + i].ended} << i;
  cograd_twin::wait(b.warps[t / 32]);
  return bits;
}
inline int __any_sync(unsigned m, int p) { return __ballot_sync(m, p) != 0; }
inline int __all_sync(unsigned m, int p) { return __ballot_sync(m, !p) == 0; }
inline int __syncthreads_or(int predicate) {
  static thread_local unsigned result;
  if (cograd_twin::block->now == 0) result = 0;
  __syncthreads();
  if (predicate != 0) result = 1;
  __syncthreads();
  const int all = static_cast<int>(result);
  __syncthreads();
  return all;
}
inline int __syncthreads_and(int predicate) { return !__syncthreads_or(!predicate); }

inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<uint64_t>(a) * b >> 32);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
inline int __clz(int v) { return v == 0 ? 32 : __builtin_clz(static_cast<unsigned>(v)); }
inline int __clzll(long long v) { return v == 0 ? 64 : __builtin_clzll(v); }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline unsigned __brev(unsigned v) {
  unsigned r = 0;
  for (int i = 0; i < 32; ++i) r |= (v >> i & 1u) << (31 - i);
  return r;
}

// Launches on several streams may run at once, so these are atomic here, too.
template <class T, class F>
T cograd_twin_update(T* p, F&& f) {
  T old, now;
  __atomic_load(p, &old, __ATOMIC_SEQ_CST);
  do now = f(old);
  while (!__atomic_compare_exchange(p, &old, &now, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  return old;
}
#define COGRAD_TWIN_ATOMIC(T)                                                     \
  inline T atomicAdd(T* p, T v) {                                                 \
    return cograd_twin_update(p, [=](T old) { return static_cast<T>(old + v); }); \
  }                                                                               \
  inline T atomicExch(T* p, T v) {                                                \
    return cograd_twin_update(p, [=](T) { return v; });                           \
  }
#define COGRAD_TWIN_INTEGER(T)                                                               \
  COGRAD_TWIN_ATOMIC(T)                                                                      \
  inline T atomicSub(T* p, T v) {                                                            \
    return cograd_twin_update(p, [=](T old) { return static_cast<T>(old - v); });            \
  }                                                                                          \
  inline T atomicMax(T* p, T v) {                                                            \
    return cograd_twin_update(p, [=](T old) { return old < v ? v : old; });                  \
  }                                                                                          \
  inline T atomicMin(T* p, T v) {                                                            \
    return cograd_twin_update(p, [=](T old) { return v < old ? v : old; });                  \
  }                                                                                          \
  inline T atomicAnd(T* p, T v) { return __atomic_fetch_and(p, v, __ATOMIC_SEQ_CST); }       \
  inline T atomicOr(T* p, T v) { return __atomic_fetch_or(p, v, __ATOMIC_SEQ_CST); }         \
  inline T atomicXor(T* p, T v) { return __atomic_fetch_xor(p, v, __ATOMIC_SEQ_CST); }       \
  inline T atomicCAS(T* p, T expected, T v) {                                                \
    __atomic_compare_exchange_n(p, &expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
    return expected;                                                                         \
  }
COGRAD_TWIN_INTEGER(int)
COGRAD_TWIN_INTEGER(unsigned)
COGRAD_TWIN_INTEGER(unsigned long long)
COGRAD_TWIN_INTEGER(long long)
COGRAD_TWIN_ATOMIC(float)
COGRAD_TWIN_ATOMIC(double)
#undef COGRAD_TWIN_INTEGER
#undef COGRAD_TWIN_ATOMIC

// Runs a kernel of this library. Static shared memory keeps what the block before left there;
// dynamic shared memory begins as NaNs.
extern "C" COGRAD_EXPORT void cograd_twin_launch(void (*kernel)(const void*),
                                                 const unsigned grid[3], const unsigned shape[3],
                                                 unsigned shared_bytes, const void* args) {
  const unsigned count = shape[0] * shape[1] * shape[2];
  if (count == 0 || count > cograd_twin::kMostThreads) {
    fprintf(stderr, "twin: a block of %u threads\n", count);
    abort();
  }
  blockDim = {shape[0], shape[1], shape[2]};
  gridDim = {grid[0], grid[1], grid[2]};
  const size_t bytes = (size_t{shared_bytes} + 63) / 64 * 64;
  cograd_twin::dynamic_shared =
      bytes == 0 ? nullptr : static_cast<unsigned char*>(aligned_alloc(64, bytes));
  const bool fibers = cograd_twin::BlockKernel::has(kernel);
  for (unsigned z = 0; z < grid[2]; ++z) {
    for (unsigned y = 0; y < grid[1]; ++y) {
      for (unsigned x = 0; x < grid[0]; ++x) {
        blockIdx = {x, y, z};
        if (bytes != 0) memset(cograd_twin::dynamic_shared, 0xFF, bytes);
        if (fibers) {
          cograd_twin::run_fibers(kernel, args, count);
          continue;
        }
        for (unsigned t = 0; t < count; ++t) {
          threadIdx = cograd_twin::index_of(t);
          kernel(args);
        }
      }
    }
  }
  free(cograd_twin::dynamic_shared);
  cograd_twin::dynamic_shared = nullptr;
}
