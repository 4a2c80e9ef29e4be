// SPDX-License-Identifier: BSD-3-Clause
// The Generator's state, and the stream that new generators use.
#include "ops/random/generator.h"
#include "tensor/backend.h"
#include "tensor/slot.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <random>

namespace cograd {

namespace {
std::atomic<Stream> g_stream{Stream::Philox};
constexpr uint64_t kOfCapture = uint64_t{1} << 63;  // marks the offset in a state of a capture
}  // namespace

void set_stream(Stream stream) {
  default_generator().set_stream(stream);
  g_stream.store(stream, std::memory_order_relaxed);
}
Stream stream() noexcept { return g_stream.load(std::memory_order_relaxed); }

CapturedRandom* Generator::captured() const {
  if (device_ == kHost || !capturing()) [[likely]]
    return nullptr;
  auto* const runtime = static_cast<CudaRuntime*>(backend_of(DeviceType::CUDA));
  return runtime->captured_random(device_, this);
}

kernels::PhiloxState Generator::take_captured(uint64_t blocks) {
  CapturedRandom* const c = captured();
  if (c == nullptr) {  // another GPU is captured
    const kernels::PhiloxState s{seed_, offset_};
    offset_ += blocks;
    return s;
  }
  const kernels::PhiloxState s{0, c->offset, c->state};
  c->offset += blocks;
  c->most = std::max(c->most, c->offset);
  return s;
}

void Generator::manual_seed(uint64_t seed) {
  COGRAD_CHECK(captured() == nullptr,
               "Generator.manual_seed(): a CUDA graph is being captured, whose replays go on with "
               "the generator's numbers. Seed it before a replay");
  const std::lock_guard lock(mutex_);
  seed_ = seed;
  offset_ = 0;
  if (mt_ != nullptr) mt_->reseed(seed);
}

uint64_t Generator::seed() {
  std::random_device source;
  const uint64_t high = source();
  // Uses 53 bits, which a Python float and every JSON reader represent exactly.
  const uint64_t fresh = (high << 32 | source()) & ((uint64_t{1} << 53) - 1);
  manual_seed(fresh);
  return fresh;
}

uint64_t Generator::initial_seed() const noexcept {
  const std::lock_guard lock(mutex_);
  return mt_ != nullptr ? mt_->seed() : seed_;
}

void Generator::set_stream(Stream stream) {
  const std::lock_guard lock(mutex_);
  if ((mt_ != nullptr) == (stream == Stream::Torch)) return;
  if (stream == Stream::Torch) {
    mt_ = std::make_unique<kernels::MtStream>(seed_);
    kind_.store(Stream::Torch, std::memory_order_relaxed);
    return;
  }
  seed_ = mt_->seed();
  offset_ = 0;
  mt_.reset();
  kind_.store(Stream::Philox, std::memory_order_relaxed);
}

std::vector<uint8_t> Generator::state() const {
  const CapturedRandom* const c = captured();
  const std::lock_guard lock(mutex_);
  if (mt_ != nullptr) return mt_->state();
  std::vector<uint8_t> bytes(kStateBytes);
  const uint64_t offset = c == nullptr ? offset_ : c->offset | kOfCapture;
  for (size_t i = 0; i < 8; ++i) {
    bytes[i] = static_cast<uint8_t>(seed_ >> (8 * i));
    bytes[8 + i] = static_cast<uint8_t>(offset >> (8 * i));
  }
  return bytes;
}

void Generator::set_state(std::span<const uint8_t> bytes) {
  if (bytes.size() == kernels::MtStream::kStateBytes) {
    auto fresh = std::make_unique<kernels::MtStream>(0);
    COGRAD_CHECK(fresh->set_state(bytes), "Invalid mt19937 state");
    const std::lock_guard lock(mutex_);
    mt_ = std::move(fresh);
    kind_.store(Stream::Torch, std::memory_order_relaxed);
    return;
  }
  COGRAD_CHECK(bytes.size() == kStateBytes, "RNG state is wrong size: expected ", kStateBytes,
               " bytes, or ", kernels::MtStream::kStateBytes, " for torch's stream, got ",
               bytes.size());
  uint64_t seed = 0;
  uint64_t offset = 0;
  for (size_t i = 0; i < 8; ++i) {
    seed |= uint64_t{bytes[i]} << (8 * i);
    offset |= uint64_t{bytes[8 + i]} << (8 * i);
  }
  CapturedRandom* const c = captured();
  COGRAD_CHECK(
      (c != nullptr) == ((offset & kOfCapture) != 0),
      "Generator.set_state(): a state of the capture of a CUDA graph belongs into the same "
      "capture, and other states outside of it");
  if (c != nullptr) {
    c->offset = offset & ~kOfCapture;
    return;
  }
  const std::lock_guard lock(mutex_);
  mt_.reset();
  kind_.store(Stream::Philox, std::memory_order_relaxed);
  seed_ = seed;
  offset_ = offset;
}

kernels::PhiloxState Generator::take(uint64_t blocks) {
  if (detail::on_meta()) return {};  // there is nothing to fill, so nothing is used up
  const std::lock_guard lock(mutex_);
  return mt_ != nullptr ? kernels::PhiloxState{mt_->pair(), 0} : take_locked(blocks);
}

Generator& default_generator() noexcept {
  static Generator* generator = [] {
    // Leaked: threads may draw while the process ends.
    auto* made = new Generator(Stream::Philox);  // NOLINT(bugprone-unhandled-exception-at-new)
    pthread_atfork([] { default_generator().lock(); }, [] { default_generator().unlock(); },
                   [] { default_generator().unlock(); });
    return made;
  }();
  return *generator;
}

Generator& default_generator_of(Device d) {
  if (d.type != DeviceType::CUDA) return default_generator();
  static auto* const all = new std::array<std::atomic<Generator*>, 128>{};
  static std::mutex mutex;
  Backend* const backend = backend_of(d.type);
  const int index = d.index >= 0 || backend == nullptr ? d.index : backend->current();
  std::atomic<Generator*>& one = (*all)[static_cast<size_t>(std::max(index, 0))];
  if (Generator* g = one.load(std::memory_order_acquire)) return *g;
  const std::lock_guard lock(mutex);
  if (one.load(std::memory_order_relaxed) == nullptr) {
    auto* made = new Generator(d);
    made->manual_seed(default_generator().initial_seed());
    one.store(made, std::memory_order_release);
  }
  return *one.load(std::memory_order_relaxed);
}

Generator& generator_or_default(Generator* given) {
  const Device here = thread_place.now;
  if (given == nullptr) return default_generator_of(here);
  COGRAD_CHECK((given->device().type == DeviceType::CUDA) == (here.type == DeviceType::CUDA),
               "Expected a '", to_string(Device{here.type, -1}),
               "' device type for generator but found '",
               to_string(Device{given->device().type, -1}), "'");
  return *given;
}

}  // namespace cograd
