// SPDX-License-Identifier: BSD-3-Clause
// A convolution of some images and channels as oneDNN computes it; made once per shape.
#pragma once
#include <memory>
#include <new>
#include <utility>

#include "kernels/conv/conv.h"
#include "kernels/libraries/onednn.h"

namespace cograd::kernels::onednn {

enum class Kind : uint8_t { forward, input_grad, weight_grad };

// Images and channels of `shape` whose arrays are parts of larger ones. The steps are the elements
// from one image to the next, and from one output channel's weights to the next.
struct Piece {
  Kind kind = Kind::forward;
  bool bias = false;
  ConvShape shape;
  int64_t x_step = 0, y_step = 0, w_step = 0;
};

// Owns an object of the library and destroys it by the library's own function.
template <auto Destroy>
struct Handle {
  Object object = nullptr;
  Handle() = default;
  Handle(Handle&& other) noexcept : object(std::exchange(other.object, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(object, other.object);
    return *this;
  }
  ~Handle() {
    if (object != nullptr) (api().*Destroy)(object);
  }
};
using Layout = Handle<&Api::layout_destroy>;
using Description = Handle<&Api::desc_destroy>;
using Primitive = Handle<&Api::primitive_destroy>;
using Memory = Handle<&Api::memory_destroy>;
using Stream = Handle<&Api::stream_destroy>;

// Memory for an array in one of the library's layouts; get() allocates only if it must grow.
class Buffer {
 public:
  ~Buffer() { ::operator delete(data_, kAligned); }
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  void* get(size_t bytes) {
    if (bytes <= size_) return data_;
    void* fresh = ::operator new(bytes, kAligned);
    ::operator delete(data_, kAligned);
    data_ = fresh;
    size_ = bytes;
    return data_;
  }

 private:
  static constexpr std::align_val_t kAligned{64};
  void* data_ = nullptr;
  size_t size_ = 0;
};

// One array of a plan: its layout in cograd, the layout that the library wants, and the conversion.
struct Array {
  int name = 0;
  Layout plain;
  Object wanted = nullptr;  // owned by the description
  Primitive reorder;        // null if both layouts are the same
  size_t bytes = 0;         // size in the wanted layout
};

struct Plan {
  Description description;
  Primitive primitive;
  Array first, second, result;  // the result's reorder converts from the wanted layout
  Layout bias;
  Object scratch = nullptr;
  size_t scratch_bytes = 0;
};

// Returns the plan of a piece, or null if the library has none. Raises Memory.
std::shared_ptr<const Plan> plan_of(const Piece& piece);

// Holds what a thread needs to run plans.
class Runner {
 public:
  Runner();
  // Returns the array at `data` in the wanted layout; converts it into `buffer` unless it has that
  // layout.
  const void* convert(const Array& array, const void* data, Buffer& buffer);
  // `second` must be in its wanted layout.
  void run(const Plan& plan, const void* first, const void* second, const void* bias, void* result);

 private:
  void execute(Object primitive, const Argument* arguments, int count);
  OneThread one_;
  Stream stream_;
  Buffer first_, result_, scratch_;
};

}  // namespace cograd::kernels::onednn
