// SPDX-License-Identifier: BSD-3-Clause
// Generator: a seed and a position in its stream of random numbers, shared by random ops.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "cograd/error.h"
#include "kernels/random/random.h"
#include "kernels/random/random_mt.h"
#include "tensor/backend.h"

namespace cograd {

// Philox addresses blocks by number. Torch reproduces the words of torch's CPU generator.
enum class Stream : uint8_t { Philox, Torch };

// Sets the stream of generators created from now on; restarts the default generator's seed with it.
COGRAD_API void set_stream(Stream stream);
COGRAD_API Stream stream() noexcept;

class COGRAD_API Generator {
 public:
  static constexpr uint64_t kDefaultSeed = 67280421310721;
  static constexpr size_t kStateBytes = 16;  // of Philox
  Generator() : Generator(cograd::stream()) {}
  // A generator of a GPU is always a Philox stream: its blocks can be drawn in parallel.
  explicit Generator(Device d) : device_(d) {}
  explicit Generator(Stream stream) { set_stream(stream); }
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  // Starts the stream of `seed` from its beginning. Raises while the current stream is captured.
  void manual_seed(uint64_t seed);
  // Seeds from the system's entropy and returns the seed.
  uint64_t seed();
  uint64_t initial_seed() const noexcept;
  // Returns seed and offset, little-endian, for Philox; torch's own layout for Torch. In a capture,
  // the offset counts from where a replay begins, and only the capture can restore it.
  std::vector<uint8_t> state() const;
  // Restores a state of either kind, and switches the generator to that kind of stream.
  void set_state(std::span<const uint8_t> bytes);
  // Switches to that kind of stream and restarts the seed, unless it is the current kind.
  void set_stream(Stream stream);
  Stream stream() const noexcept { return kind_.load(std::memory_order_relaxed); }
  Device device() const noexcept { return device_; }

  // Held across a fork, so that the child's generator is in a consistent state.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

  // Reserves `blocks` of 128 bits and returns their position. The lock is not held while they are
  // used, so that a fill that releases the GIL cannot deadlock with the lock's holder. A Torch
  // stream returns a seed made from its next 64 bits.
  kernels::PhiloxState take(uint64_t blocks);

  // Draws with philox(state) after reserving `blocks`, or with torch(stream), which runs under the
  // lock and must not acquire the GIL.
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
  kernels::PhiloxState take_locked(uint64_t blocks) {
    if (device_ != kHost && capturing()) [[unlikely]]
      return take_captured(blocks);
    const kernels::PhiloxState s{seed_, offset_};
    offset_ += blocks;
    return s;
  }

  kernels::PhiloxState take_captured(uint64_t blocks);
  // Returns this generator's numbers in the capture of the current stream, or null.
  CapturedRandom* captured() const;

  mutable std::mutex mutex_;
  Device device_ = kHost;
  uint64_t seed_ = kDefaultSeed;
  uint64_t offset_ = 0;
  std::atomic<Stream> kind_{Stream::Philox};  // whether mt_ is null, for readers without the lock
  std::unique_ptr<kernels::MtStream> mt_;     // of a Torch stream, with its own seed and position
};

// Returns the generator that ops on the host use if they get none.
COGRAD_API Generator& default_generator() noexcept;
// Returns the one of a device: each GPU has its own.
COGRAD_API Generator& default_generator_of(Device d);
// Returns `given`, or the default generator of the place; raises if `given` is another device's.
COGRAD_API Generator& generator_or_default(Generator* given);

}  // namespace cograd
