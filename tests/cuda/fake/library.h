// SPDX-License-Identifier: BSD-3-Clause
// What the fake driver offers to the fakes of NVIDIA's libraries: its streams, its memory and its
// failures on demand.
#pragma once
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>

#define FAKE_API extern "C" __attribute__((visibility("default"))) int

namespace fake {

class Driver {
 public:
  Driver() {
    void* const library =
        dlopen(std::getenv("COGRAD_CUDA_DRIVER"), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (library == nullptr) std::abort();
    get(library, enqueue_, "fake_cuda_enqueue");
    get(library, failure_, "fake_cuda_failure");
    get(library, owns_, "fake_cuda_owns");
    get(library, device_, "fake_cuda_device");
  }
  // Queues work, which counts as a launch of `name`. It is never freed: a graph may repeat it.
  void enqueue(const char* name, void* stream, std::function<void()> work) const {
    enqueue_(
        name, stream,
        [](void* w) {
          const auto& f = *static_cast<const std::function<void()>*>(w);
          if (f) f();
        },
        new std::function<void()>(std::move(work)));
  }
  // Returns the status that this call of a function has to return, mostly 0.
  int failure(const char* symbol) const { return failure_(symbol); }
  // True if all bytes are memory of a GPU, or there are none.
  bool owns(const void* p, size_t n) const { return n == 0 || owns_(p, n) != 0; }
  int device() const { return device_(); }  // of this thread; -1 without a context

 private:
  template <class F>
  static void get(void* library, F& f, const char* symbol) {
    f = reinterpret_cast<F>(dlsym(library, symbol));
    if (f == nullptr) std::abort();
  }
  void (*enqueue_)(const char*, void*, void (*)(void*), void*);
  int (*failure_)(const char*);
  int (*owns_)(const void*, size_t);
  int (*device_)();
};

inline const Driver& driver() {
  static const Driver d;
  return d;
}

}  // namespace fake

#define FAKE_ENTER(symbol) \
  if (const int failed = fake::driver().failure(#symbol); failed != 0) return failed
