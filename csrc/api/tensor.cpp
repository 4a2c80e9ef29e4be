// SPDX-License-Identifier: BSD-3-Clause
// The C interface to tensors: lifetime, description, creation, indexing.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>

#include "api/devices.h"
#include "api/handles.h"
#include "cograd/c_devices.h"
#include "ops/index/indexing.h"
#include "tensor/foreign.h"
#include "tensor/sparse.h"
#include "transforms/batch.h"

namespace cograd::api {

namespace {

DType dtype_of_code(int32_t code, const char* who) {
  COGRAD_CHECK_TYPE(code >= 0 && code < kNumDTypes, who, "(): dtype ", code,
                    " is unknown, expected 0 to ", kNumDTypes - 1);
  return static_cast<DType>(code);
}

IntList checked_sizes(const char* who, int32_t dim, const int64_t* sizes,
                      const char* what = "sizes") {
  COGRAD_CHECK_VALUE(dim >= 0 && dim <= 64, who, "(): dim is ", dim, ", expected 0 to 64");
  return given_list(sizes, static_cast<size_t>(dim), who, what);
}

// Returns the bytes that sizes and strides span; raises if they overflow or one is negative.
int64_t checked_span(const char* who, IntList sizes, IntList strides, int64_t itemsize) {
  int64_t last = 0;
  bool empty = false, overflow = false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    COGRAD_CHECK_VALUE(sizes[i] >= 0 && strides[i] >= 0, who, "(): size ", sizes[i],
                       " with stride ", strides[i], " of dim ", i, ", expected none negative");
    empty |= sizes[i] == 0;
    int64_t step = 0;
    if (sizes[i] > 0) overflow |= __builtin_mul_overflow(sizes[i] - 1, strides[i], &step);
    overflow |= __builtin_add_overflow(last, step, &last);
  }
  int64_t bytes = 0;
  overflow |= __builtin_add_overflow(last, int64_t{1}, &last);
  overflow |= __builtin_mul_overflow(last, itemsize, &bytes);
  COGRAD_CHECK_VALUE(!overflow || empty, who, "(): ", to_string(sizes), " is too large");
  return empty ? 0 : bytes;
}

class Key {
 public:
  Key(const Tensor& x, std::span<const cograd_index> items) : basic_(x) {
    bool ellipsis = false;
    for (size_t i = 0; i < items.size(); ++i) {
      const cograd_index& it = items[i];
      switch (it.kind) {
        case COGRAD_INDEX_INT:
          basic_.select(it.start);
          break;
        case COGRAD_INDEX_SLICE:
          COGRAD_CHECK_VALUE(it.step > 0, "index(): step must be greater than zero, got ", it.step);
          basic_.slice(it.start == std::numeric_limits<int64_t>::min() ? 0 : it.start, it.stop,
                       it.step);
          break;
        case COGRAD_INDEX_NONE:
          basic_.unsqueeze();
          break;
        case COGRAD_INDEX_ELLIPSIS: {
          COGRAD_CHECK_INDEX(!ellipsis, "index(): can only have a single ellipsis ('...')");
          ellipsis = true;
          int needed = 0;
          for (const cograd_index& rest : items.subspan(i + 1)) needed += dims_of(rest);
          COGRAD_CHECK_INDEX(needed <= basic_.remaining(),
                             "index(): too many indices for tensor of dimension ", x.dim());
          basic_.keep(basic_.remaining() - needed);
          break;
        }
        case COGRAD_INDEX_TENSOR:
          COGRAD_CHECK_VALUE(it.tensor != nullptr, "index(): item ", i, " has no tensor");
          tensors_.push_back({basic_.out_dim(), borrow(it.tensor)});
          basic_.keep(dims_of(it));
          break;
        default:
          detail::fail(ErrorKind::Value, "index(): item ", i, " is of unknown kind ", it.kind);
      }
    }
    basic_.finish();
  }
  bool advanced() const noexcept { return !tensors_.empty(); }
  Tensor view(const Tensor& x) const {
    return basic_.kind == BasicIndex::Kind::Alias && advanced() ? x : index_view(x, basic_);
  }
  std::vector<Tensor> tensors() const {
    std::vector<Tensor> out;
    int dim = 0;
    for (const auto& [at, index] : tensors_) {
      for (; dim < at; ++dim) out.emplace_back();
      out.push_back(index);
      dim += takes(index);
    }
    return out;
  }

 private:
  static int takes(const Tensor& t) {
    return t.dtype() == DType::Bool || t.dtype() == DType::UInt8 ? t.dim() : 1;
  }
  static int dims_of(const cograd_index& it) {
    if (it.kind == COGRAD_INDEX_TENSOR) return it.tensor == nullptr ? 0 : takes(borrow(it.tensor));
    return it.kind == COGRAD_INDEX_INT || it.kind == COGRAD_INDEX_SLICE ? 1 : 0;
  }
  BasicIndex basic_;
  std::vector<std::pair<int, Tensor>> tensors_;
};

}  // namespace

}  // namespace cograd::api

using namespace cograd;
using namespace cograd::api;

void cograd_tensor_retain(cograd_tensor t) noexcept {
  if (t != nullptr) impl(t)->retain();
}
void cograd_tensor_release(cograd_tensor t) noexcept {
  if (t != nullptr) impl(t)->release();
}
uint32_t cograd_tensor_use_count(cograd_tensor t) noexcept {
  return t == nullptr ? 0 : impl(t)->refs.load(std::memory_order_acquire);
}

namespace {
// True if `t` is not NULL; otherwise sets an error that names `who`.
bool given_tensor(cograd_tensor t, const char* who) noexcept {
  if (t != nullptr) [[likely]]
    return true;
  guarded([&] { view_of(t, who); });
  return false;
}
bool loses_tangent(cograd_tensor t) noexcept {
  return thread_state.once && has_tangent_here(borrow(t));
}
}  // namespace

void* cograd_tensor_data(cograd_tensor t) noexcept {
  if (!given_tensor(t, "data")) return nullptr;
  if ((impl(t)->flags & (kBatched | kSparse)) != 0) [[unlikely]] {
    guarded([t] {
      check_not_sparse(view_of(t), "data_ptr()");
      fail_one_value("data_ptr()");
    });
    return nullptr;
  }
  if (loses_tangent(t)) [[unlikely]] {
    guarded([] { fail_tangent_lost("data_ptr()"); });
    return nullptr;
  }
  if (thread_state.reads != nullptr) [[unlikely]]
    guarded([t] { thread_state.reads->note(borrow(t), "data_ptr()"); });
  if (impl(t)->device.type != DeviceType::CPU) [[unlikely]] {
    guarded([t] { fail_unreadable(impl(t)->device, "data_ptr()"); });
    return nullptr;
  }
  return impl(t)->data;
}
int64_t cograd_tensor_numel(cograd_tensor t) noexcept {
  return given_tensor(t, "numel") ? impl(t)->numel : -1;
}
int32_t cograd_tensor_dim(cograd_tensor t) noexcept {
  return given_tensor(t, "dim") ? impl(t)->ndim : -1;
}
int32_t cograd_tensor_dtype(cograd_tensor t) noexcept {
  return given_tensor(t, "dtype") ? static_cast<int32_t>(impl(t)->dtype) : -1;
}
const int64_t* cograd_tensor_sizes(cograd_tensor t) noexcept {
  return given_tensor(t, "sizes") ? impl(t)->sizes_ : nullptr;
}
const int64_t* cograd_tensor_strides(cograd_tensor t) noexcept {
  return given_tensor(t, "strides") ? impl(t)->strides_ : nullptr;
}
uint32_t cograd_tensor_flags(cograd_tensor t) noexcept {
  if (!given_tensor(t, "flags")) return 0;
  TensorImpl* p = impl(t);
  uint32_t flags = 0;
  if ((p->flags & kContiguous) != 0) flags |= COGRAD_IS_CONTIGUOUS;
  if (requires_grad(p)) flags |= COGRAD_REQUIRES_GRAD;
  if (p->grad_fn == nullptr && (p->base == nullptr || !requires_grad(p))) flags |= COGRAD_IS_LEAF;
  if (p->base != nullptr) flags |= COGRAD_IS_VIEW;
  if ((p->flags & kInference) != 0) flags |= COGRAD_IS_INFERENCE;
  return flags;
}
void cograd_tensor_bump_version(cograd_tensor t) noexcept {
  if (given_tensor(t, "bump_version")) impl(t)->bump_version();
}

void cograd_tensor_describe(cograd_tensor t, cograd_tensor_info* info) noexcept {
  if (info == nullptr) {
    guarded([&] { given(info, "describe", "info"); });
    return;
  }
  cograd_tensor_info all{};
  all.struct_size = info->struct_size;
  if (!given_tensor(t, "describe")) {
    all.numel = all.dim = all.dtype = -1;
    std::memcpy(info, &all, std::min(info->struct_size, sizeof all));
    return;
  }
  TensorImpl* p = impl(t);
  const bool readable = (p->flags & (kBatched | kSparse)) == 0 &&
                        p->device.type == DeviceType::CPU && !loses_tangent(t);
  all.data = readable ? p->data : nullptr;
  all.sizes = p->sizes_;
  all.strides = p->strides_;
  all.numel = p->numel;
  all.storage_offset = (p->data - static_cast<char*>(p->storage->data)) / dtype_size(p->dtype);
  all.dim = p->ndim;
  all.dtype = static_cast<int32_t>(p->dtype);
  all.device_type = device_type_to_c(p->device.type);
  all.device_index = p->device.index;
  all.flags = cograd_tensor_flags(t);
  all.version = p->write_count();
  std::memcpy(info, &all, std::min(info->struct_size, sizeof all));
}

cograd_status cograd_tensor_empty(int32_t dtype, int32_t dim, const int64_t* sizes,
                                  cograd_tensor* out) noexcept {
  return guarded([&] {
    put(out, "empty",
        empty_checked("empty", checked_sizes("empty", dim, sizes), dtype_of_code(dtype, "empty")));
  });
}

cograd_status cograd_tensor_empty_on(int32_t dtype, int32_t dim, const int64_t* sizes,
                                     int32_t device_type, int32_t device_index,
                                     cograd_tensor* out) noexcept {
  return guarded([&] {
    given(out, "empty_on", "out");
    const IntList shape = checked_sizes("empty_on", dim, sizes);
    const PlaceGuard place(device_from_c(device_type, device_index, "empty_on"));
    put(out, "empty_on", empty_checked("empty_on", shape, dtype_of_code(dtype, "empty_on")));
  });
}

cograd_status cograd_tensor_empty_strided(int32_t dtype, int32_t dim, const int64_t* sizes,
                                          const int64_t* strides, cograd_tensor* out) noexcept {
  return guarded([&] {
    given(out, "empty_strided", "out");
    const IntList shape = checked_sizes("empty_strided", dim, sizes);
    const IntList steps = checked_sizes("empty_strided", dim, strides, "strides");
    const DType t = dtype_of_code(dtype, "empty_strided");
    const int64_t bytes = checked_span("empty_strided", shape, steps, dtype_size(t));
    const int64_t count[1] = {bytes};
    const Tensor whole = empty_checked("empty_strided", count, DType::UInt8);
    Storage* storage = whole->storage;
    storage->retain();
    *out = owned_handle(
        tensor_of_storage(storage, t, shape, steps, static_cast<char*>(storage->data)));
  });
}

cograd_status cograd_tensor_from_blob(void* data, int32_t dtype, int32_t dim, const int64_t* sizes,
                                      const int64_t* strides, void (*deleter)(void*), void* context,
                                      cograd_tensor* out) noexcept {
  return guarded([&] {
    given(out, "from_blob", "out");
    const IntList shape = checked_sizes("from_blob", dim, sizes);
    const DType t = dtype_of_code(dtype, "from_blob");
    Dims dense;
    if (strides == nullptr) {
      for (int64_t s : shape)
        COGRAD_CHECK_VALUE(s >= 0, "from_blob(): sizes are ", to_string(shape),
                           ", expected none negative");
      dense = contiguous_strides(shape);
      strides = dense.data();
    }
    const IntList steps(strides, shape.size());
    const int64_t bytes = checked_span("from_blob", shape, steps, dtype_size(t));
    COGRAD_CHECK_VALUE(data != nullptr || bytes == 0, "from_blob(): data is NULL, expected ", bytes,
                       " bytes");
    Storage* storage = Storage::wrap(data, bytes, nullptr, nullptr, false);
    Tensor made = tensor_of_storage(storage, t, shape, steps, static_cast<char*>(data));
    storage->deleter = deleter;  // set last: after an error the caller still owns the memory
    storage->context = context;
    *out = owned_handle(std::move(made));
  });
}

cograd_status cograd_tensor_item(cograd_tensor t, double* as_double, int64_t* as_int) noexcept {
  return guarded([&] {
    COGRAD_CHECK(view_of(t, "item").numel() == 1, "a Tensor with ", impl(t)->numel,
                 " elements cannot be converted to Scalar");
    check_readable(view_of(t, "item"), "item()");
    COGRAD_CHECK(is_real(impl(t)->dtype), "item(): expected a tensor of real numbers, got dtype ",
                 dtype_name(impl(t)->dtype), "; read its real and imag");
    dispatch_values(impl(t)->dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      if constexpr (!is_complex_type<T>) {
        const T v = *reinterpret_cast<const T*>(impl(t)->data);
        if (as_double != nullptr) *as_double = static_cast<double>(v);
        if (as_int != nullptr) *as_int = static_cast<int64_t>(v);
      }
    });
  });
}

cograd_status cograd_tensor_summary(cograd_tensor t, char* text, size_t capacity) noexcept {
  return guarded([&] {
    const std::string s =
        t == nullptr ? "None"
                     : detail::concat(dtype_name(impl(t)->dtype), to_string(impl(t)->sizes()));
    given_list(text, capacity, "summary", "text");
    std::snprintf(text, capacity, "%s", s.c_str());
  });
}

int32_t cograd_default_dtype(void) noexcept { return static_cast<int32_t>(default_dtype()); }

cograd_status cograd_tensor_index(cograd_tensor x, const cograd_index* items, size_t n,
                                  cograd_tensor* out) noexcept {
  return guarded([&] {
    const Tensor& t = view_of(x, "index", "x");
    const Key k(t, given_list(items, n, "index", "items"));
    put(out, "index", k.advanced() ? index_get(k.view(t), k.tensors()) : k.view(t));
  });
}

cograd_status cograd_tensor_index_put(cograd_tensor x, const cograd_index* items, size_t n,
                                      cograd_tensor value) noexcept {
  return guarded([&] {
    const Tensor& t = view_of(x, "index_put_", "x");
    const Tensor& v = view_of(value, "index_put_", "value");
    const Key k(t, given_list(items, n, "index_put_", "items"));
    const Tensor target = k.view(t);
    if (k.advanced())
      index_put_(target, k.tensors(), v);
    else
      copy_(target, v);
  });
}
