// SPDX-License-Identifier: BSD-3-Clause
// What the machine can do with a number of threads (fused multiplications and additions, copying),
// and what cograd's pool costs. Compiled by machine.py when the benchmark runs.
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kMaxThreads = 256, kChains = 12, kRepeats = 1000 };
static const double kWindow = 0.04;  // seconds of one measurement

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Each runs kChains independent chains and returns the number of multiplications of one call.
#define CHAINS(name, attributes, bytes)                                        \
  typedef float name##_vector __attribute__((vector_size(bytes), aligned(4))); \
  attributes static int64_t name(float* sums) {                                \
    name##_vector sum[kChains], factor = {0}, term = {0};                      \
    for (int i = 0; i < bytes / 4; ++i) factor[i] = 0.5f, term[i] = 1.0f;      \
    for (int c = 0; c < kChains; ++c) sum[c] = term * sums[c];                 \
    for (int r = 0; r < kRepeats; ++r)                                         \
      for (int c = 0; c < kChains; ++c) sum[c] = sum[c] * factor + term;       \
    for (int c = 1; c < kChains; ++c) sum[0] += sum[c];                        \
    memcpy(sums, &sum[0], sizeof sum[0]);                                      \
    return (int64_t)kChains * kRepeats * (bytes / 4);                          \
  }
#define FAST __attribute__((optimize("O3,unroll-loops,fp-contract=fast"), noinline))
#if defined(__x86_64__)
CHAINS(chains_512, FAST __attribute__((target("avx512f,prefer-vector-width=512"))), 64)
CHAINS(chains_256, FAST __attribute__((target("avx2,fma"))), 32)
#endif
CHAINS(chains_128, FAST, 16)

static int64_t (*best_chains(void))(float*) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return chains_512;
  if (__builtin_cpu_supports("fma")) return chains_256;
#endif
  return chains_128;
}

struct part {
  pthread_barrier_t* start;
  int copies;
  size_t bytes;
  double rate;
};

static void* measure(void* argument) {
  struct part* part = argument;
  int64_t (*chains)(float*) = best_chains();
  float sums[16] = {0};
  __asm__ volatile("" : : "r"(sums) : "memory");
  char *from = NULL, *to = NULL;
  if (part->copies) {
    from = malloc(part->bytes), to = malloc(part->bytes);
    memset(from, 1, part->bytes), memset(to, 2, part->bytes);
  }
  pthread_barrier_wait(part->start);
  const double begin = now();
  double done = 0, end = begin;
  while (end - begin < kWindow) {
    if (part->copies) {
      memcpy(to, from, part->bytes);
      __asm__ volatile("" : : "r"(to) : "memory");
      done += 2.0 * (double)part->bytes;
    } else {
      done += (double)chains(sums);
      __asm__ volatile("" : : "r"(sums) : "memory");
    }
    end = now();
  }
  part->rate = done / (end - begin);
  free(from), free(to);
  return NULL;
}

// Returns the sum of what so many threads do in a second: multiplications with their additions, or
// bytes read and written by copies of `bytes` bytes for each thread.
double machine_rate(int threads, int copies, int64_t bytes) {
  pthread_t ids[kMaxThreads];
  struct part parts[kMaxThreads];
  pthread_barrier_t start;
  pthread_barrier_init(&start, NULL, (unsigned)threads);
  for (int i = 0; i < threads; ++i) {
    parts[i] = (struct part){&start, copies, (size_t)bytes, 0};
    if (pthread_create(&ids[i], NULL, measure, &parts[i]) != 0) abort();
  }
  double rate = 0;
  for (int i = 0; i < threads; ++i) {
    pthread_join(ids[i], NULL);
    rate += parts[i].rate;
  }
  pthread_barrier_destroy(&start);
  return rate;
}

typedef int32_t (*range_fn)(void* context, int64_t lo, int64_t hi);
typedef int32_t (*parallel_for_fn)(int64_t, int64_t, int64_t, range_fn, void*);

static void spin_until(double end) {
  while (now() < end) {
  }
}

static int32_t busy(void* context, int64_t lo, int64_t hi) {
  const double each = *(const double*)context;
  if (each > 0) spin_until(now() + each * (double)(hi - lo));
  return 0;
}

// Calls a loop of one chunk for each thread; a chunk takes `each` seconds. Before each call the
// caller works for `pause` seconds, or sleeps if `sleeps`. Stores the least and the mean duration.
void machine_hand_off(void* parallel_for, int threads, double each, double pause, int sleeps,
                      int rounds, double* least, double* mean) {
  parallel_for_fn loop = (parallel_for_fn)parallel_for;
  double total = 0;
  *least = 1e9;
  for (int r = 0; r < rounds; ++r) {
    if (sleeps) {
      const struct timespec t = {0, (long)(pause * 1e9)};
      nanosleep(&t, NULL);
    } else if (pause > 0) {
      spin_until(now() + pause);
    }
    const double begin = now();
    loop(0, threads, 1, busy, &each);
    const double took = now() - begin;
    total += took;
    if (took < *least) *least = took;
  }
  *mean = total / rounds;
}

// Returns the duration of one of `rounds` empty loops that follow one another.
double machine_back_to_back(void* parallel_for, int threads, int rounds) {
  parallel_for_fn loop = (parallel_for_fn)parallel_for;
  const double none = 0, begin = now();
  for (int r = 0; r < rounds; ++r) loop(0, threads, 1, busy, (void*)&none);
  return (now() - begin) / rounds;
}
