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
struct Block {
  Fiber fibers[kMostThreads];
  Barrier all, warps[kMostThreads / 32];
  unsigned char slots[kMostThreads][16];
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
