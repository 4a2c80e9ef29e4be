// SPDX-License-Identifier: BSD-3-Clause
#include "tensor/fake_device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

namespace cograd {

namespace {

constexpr size_t kRange = size_t{1} << 32;  // address space; memory is used as it is touched
constexpr size_t kAlign = 64;

// The two mappings of one anonymous file, and its free blocks by offset.
class FakeMemory {
 public:
  FakeMemory() {
    const int file = memfd_create("cograd_fake_device", MFD_CLOEXEC);
    COGRAD_CHECK(file >= 0 && ftruncate(file, static_cast<off_t>(kRange)) == 0,
                 "the fake device cannot reserve its memory");
    device_ = map(file, PROT_NONE);
    kernel_ = map(file, PROT_READ | PROT_WRITE);
    close(file);
    free_[0] = kRange;
  }
  // Returns the address in the device view.
  char* take(size_t bytes) {
    const std::lock_guard lock(mutex_);
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      const auto [at, size] = *it;
      if (size < bytes) continue;
      free_.erase(it);
      if (size > bytes) free_[at + bytes] = size - bytes;
      return device_ + at;
    }
    detail::fail(ErrorKind::Memory, "the fake device is out of memory: it has ", kRange, " bytes");
  }
  // Fills the block with bytes that are a NaN in every floating dtype, and frees it.
  void give(const char* p, size_t bytes) noexcept {
    const std::lock_guard lock(mutex_);
    size_t at = static_cast<size_t>(p - device_);
    std::memset(kernel_ + at, 0xff, bytes);
    auto next = free_.lower_bound(at);
    if (next != free_.end() && next->first == at + bytes) {
      bytes += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == at) {
        before->second += bytes;
        return;
      }
    }
    free_[at] = bytes;
  }
  char* kernel_view(const char* p) const noexcept {
    return p >= device_ && p < device_ + kRange ? kernel_ + (p - device_) : const_cast<char*>(p);
  }

 private:
  static char* map(int file, int access) {
    void* p = mmap(nullptr, kRange, access, MAP_SHARED | MAP_NORESERVE, file, 0);
    COGRAD_CHECK(p != MAP_FAILED, "the fake device cannot map its memory");
    return static_cast<char*>(p);
  }
  char *device_, *kernel_;
  std::mutex mutex_;
  std::map<size_t, size_t> free_;  // offset to size
};

FakeMemory& memory() {
  static auto* m = new FakeMemory;  // never freed: tensors may outlive static objects
  return *m;
}

size_t block_size(int64_t nbytes) noexcept {
  return (static_cast<size_t>(nbytes) / kAlign + 1) * kAlign;
}

void give_back(void* context) noexcept {
  auto* block = static_cast<std::pair<char*, size_t>*>(context);
  memory().give(block->first, block->second);
  delete block;
}

}  // namespace

bool fake_device_enabled() noexcept {
  static const bool enabled = [] {
    const char* v = std::getenv("COGRAD_FAKE_DEVICE");
    return v != nullptr && std::strcmp(v, "1") == 0;
  }();
  return enabled;
}

Storage* make_fake_storage(int64_t nbytes) {
  const size_t size = block_size(nbytes);
  char* at = memory().take(size);
  return Storage::wrap(at, nbytes, give_back, new std::pair<char*, size_t>(at, size), false);
}

void* kernel_view(const void* p) noexcept {
  return memory().kernel_view(static_cast<const char*>(p));
}

}  // namespace cograd
