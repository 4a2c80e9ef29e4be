// SPDX-License-Identifier: BSD-3-Clause
// Generator: a seed and a position in its stream of random numbers, shared by random ops.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "cograd/error.h"
#include "kernels/random.h"
#include "kernels/random_mt.h"

namespace cograd {

// Philox: blocks found by their number. Torch: the words that torch's CPU generator gives.
enum class Stream : uint8_t { Philox, Torch };

// What generators are made with from here on; the default generator restarts its seed with it.
COGRAD_API void set_stream(Stream stream);
COGRAD_API Stream stream() noexcept;

class COGRAD_API Generator {
 public:
  static constexpr uint64_t kDefaultSeed = 67280421310721;
  static constexpr size_t kStateBytes = 16;  // of Philox
  Generator() : Generator(cograd::stream()) {}
  explicit Generator(Stream stream) { set_stream(stream); }
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  // Starts the stream of `seed` from its beginning.
  void manual_seed(uint64_t seed) noexcept;
  // Seeds from the system's entropy and returns the seed.
  uint64_t seed();
  uint64_t initial_seed() const noexcept;
  // Philox: seed and offset, little-endian. Torch: torch's own layout.
  std::vector<uint8_t> state() const;
  // Either's state; the generator has that stream from then on.
  void set_state(std::span<const uint8_t> bytes);
  // Restarts the seed with that kind of stream, if it is another.
  void set_stream(Stream stream);
  Stream stream() const noexcept { return kind_.load(std::memory_order_relaxed); }

  // Around a fork, so that the child finds the generator whole.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

  // Takes `blocks` of 128 bits from the stream: where they begin. The lock is not held while they
  // are used, so a fill that gives up the GIL cannot block the holder of it. A Torch stream gives a
  // seed of its next 64 bits.
  kernels::PhiloxState take(uint64_t blocks) noexcept;

  // Draws by philox(state), after taking `blocks`, or by torch(stream), which runs under the lock
  // and must not take the GIL.
  template <class P, class T>
  void draw(uint64_t blocks, const P& philox, const T& torch) {
    std::unique_lock lock(mutex_);
    if (mt_ != nullptr) {
      torch(*mt_);
      return;
    }
    const kernels::PhiloxState s = take_locked(blocks);
    lock.unlock();
    philox(s);
  }

 private:
  kernels::PhiloxState take_locked(uint64_t blocks) noexcept {
    const kernels::PhiloxState s{seed_, offset_};
    offset_ += blocks;
    return s;
  }

  mutable std::mutex mutex_;
  uint64_t seed_ = kDefaultSeed;
  uint64_t offset_ = 0;
  std::atomic<Stream> kind_{Stream::Philox};  // whether mt_ is null, for readers without the lock
  std::unique_ptr<kernels::MtStream> mt_;     // of a Torch stream, which has seed and place itself
};

// The generator of ops that are given none.
COGRAD_API Generator& default_generator() noexcept;

}  // namespace cograd
