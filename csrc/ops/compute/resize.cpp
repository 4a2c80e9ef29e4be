// SPDX-License-Identifier: BSD-3-Clause
// Gives tensors a new shape and grows their storage.
#include "ops/compute/resize.h"

#include "autograd/graph/variable.h"
#include "autograd/modes/in_use.h"
#include "kernels/core/moves.h"
#include "ops/compute/strides.h"
#include "tensor/warn.h"

namespace cograd {

namespace {

// Returns the number of bytes that t's storage needs for elements of these sizes.
int64_t bytes_needed(const char* op, const Tensor& t, IntList sizes) {
  const int64_t bytes = storage_bytes(sizes, t.itemsize());
  if (bytes == 0) return 0;  // a tensor without elements may point anywhere
  const int64_t offset = t.bytes() - static_cast<char*>(t->storage->data);
  COGRAD_CHECK(offset >= 0, op, "(): the tensor's storage offset is out of range");
  return checked_add(offset, bytes);
}

// Raises if the storage cannot grow: it is external, or other tensors hold pointers into it.
void check_resizable(const char* op, const Storage* s, int64_t nbytes) {
  COGRAD_CHECK(s->kind != 2, "Trying to resize storage that is not resizable: ", op, "() needs ",
               nbytes, " bytes, but its external storage has ", s->nbytes);
  COGRAD_CHECK(s->unique() || s->nbytes == 0, op, "(): the tensor shares its ", s->nbytes,
               " bytes of memory with other tensors or arrays, which cannot grow to ", nbytes,
               " bytes; clone() it first");
}

void grow_storage(TensorImpl* p, int64_t nbytes) {
  Storage* old = p->storage;
  const int64_t offset = p->data - static_cast<char*>(old->data);
  Storage* fresh = Storage::make(nbytes);
  kernels::copy_bytes(old->data, old->nbytes, fresh->data);
  // Saved tensors compare versions, so the new storage continues the old one's count.
  fresh->version.store(old->version.load(std::memory_order_relaxed), std::memory_order_relaxed);
  p->storage = fresh;
  p->data = static_cast<char*>(fresh->data) + offset;
  old->release();
}

bool unchanged(const Tensor& t, const Tensor& before) {
  return is_set_to(t, before) && t.dtype() == before.dtype();
}

// Warns, then raises if the warning's handler ran code that changed the tensors.
void warn_of_resize(const char* op, const Tensor& out, const Tensor& result) {
  const Tensor out_before = Tensor::steal(out->alias());
  const Tensor result_before = Tensor::steal(result->alias());
  const bool grad = requires_grad(out);
  warn(detail::concat(
      "An output with one or more elements was resized since it had shape ", to_string(out.sizes()),
      ", which does not match the required output shape ", to_string(result.sizes()),
      ". This behavior is deprecated, and in a future release outputs will not be resized unless "
      "they have zero elements. You can explicitly reuse an out tensor t by resizing it, "
      "inplace, "
      "to zero elements with t.resize_(0)."));
  COGRAD_CHECK(
      unchanged(out, out_before) && unchanged(result, result_before) && requires_grad(out) == grad,
      op,
      "(): out= or an input was changed while the warning that out= is resized was "
      "shown");
}

}  // namespace

bool is_set_to(const Tensor& a, const Tensor& b) noexcept {
  return a->storage == b->storage && a.bytes() == b.bytes() && same(a.sizes(), b.sizes()) &&
         same(a.strides(), b.strides());
}

void check_unused(const char* op, const Tensor& t) {
  check_not_in_use(t.impl(), op, true);
  COGRAD_CHECK(!in_use_elsewhere(t.impl()), op,
               "(): the tensor is an argument of a call on another thread");
}

void take_geometry(const Tensor& t, IntList sizes, IntList strides, char* data) {
  TensorImpl* p = t.impl();
  p->set_ndim(static_cast<int>(sizes.size()));
  std::copy(sizes.begin(), sizes.end(), p->sizes_);
  std::copy(strides.begin(), strides.end(), p->strides_);
  p->data = data;
  p->refresh_geometry();
}

void check_growth(const char* op, const Tensor& t, IntList sizes) {
  const int64_t needed = bytes_needed(op, t, sizes);
  if (needed > t->storage->nbytes) check_resizable(op, t->storage, needed);
}

void resize_dense(const char* op, const Tensor& t, IntList sizes, IntList strides) {
  check_growth(op, t, sizes);
  check_unused(op, t);
  const Dims own_sizes(sizes), own_strides(strides);  // the caller may have passed t's own
  const int64_t needed = bytes_needed(op, t, sizes);
  if (needed > t->storage->nbytes) grow_storage(t.impl(), needed);
  take_geometry(t, own_sizes, own_strides, t.bytes());
}

void resize_out(const char* op, const Tensor& out, const Tensor& result) {
  // The op has checked this, but the warning about another output may have run code since.
  COGRAD_CHECK(!out->storage->read_only, op,
               "(): out= shares memory with a read-only buffer and cannot be written");
  const IntList sizes = result.sizes();
  if (same(out.sizes(), sizes)) return;
  COGRAD_CHECK(out->base == nullptr || !requires_grad(out),
               "cannot resize variables that require grad");
  check_growth(op, out, sizes);
  if (out.numel() != 0) warn_of_resize(op, out, result);
  const Tensor* const like[1] = {&result};
  const Dims strides = result_strides(sizes, like);
  resize_dense(op, out, sizes, strides.empty() ? contiguous_strides(sizes) : strides);
}

}  // namespace cograd
