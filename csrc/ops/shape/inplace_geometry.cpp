// SPDX-License-Identifier: BSD-3-Clause
// In-place changes of a tensor's geometry: resize_, resize_as_ and helpers of in-place view ops.
#include "ops/shape/inplace_geometry.h"

#include "ops/compute/elementwise.h"
#include "ops/compute/resize.h"
#include "ops/compute/scalars.h"
#include "ops/compute/strides.h"
#include "tensor/sparse.h"
#include "transforms/batch.h"

namespace cograd {

namespace {

void check_untransformed(const Tensor& t, const char* op) {
  if (!transforms_open() || !transformed(t)) return;
  check_not_batched(t, op);
  check_not_sparse(t, op);
  COGRAD_CHECK_KIND(NotImplemented, tangent_level(t) == nullptr, op,
                    "(): forward AD does not change the geometry of a tensor with a tangent in "
                    "place; use the out-of-place form");
}

void resize(const char* op, const Tensor& self, IntList sizes, MemoryFormat format) {
  const PlaceGuard here(self->device);
  check_untransformed(self, op);
  COGRAD_CHECK(format != MemoryFormat::Preserve, op, "(): Unsupported memory format Preserve");
  COGRAD_CHECK(!requires_grad(self), "cannot resize variables that require grad");
  check_inplace(self, op, false);
  for (int64_t s : sizes)
    COGRAD_CHECK(s >= 0, op, "(): Trying to create tensor with negative dimension ", s, ": ",
                 to_string(sizes));
  storage_bytes(sizes, self.itemsize());  // raises on overflow
  const bool in_order = format == MemoryFormat::Contiguous;
  if (!in_order || !same(self.sizes(), sizes))
    resize_dense(op, self, sizes,
                 in_order ? contiguous_strides(sizes) : format_strides(sizes, format));
  self->bump_version();
}

template <class... Args>
bool add_resize(const char* name, const char* args, const char* doc, OpRecord::Run run) {
  auto* r = new OpRecord;
  r->spec = {name, args, kInplace, doc, "none: changes the tensor's geometry; tested by hand"};
  r->args = detail::arg_infos(detail::ArgShapes<std::tuple<Args...>>::all);
  r->result = Result::Kind::Tensor;
  r->call_plain = [](const Value*, Result&, const CallForm&) {};
  r->has_inplace = true;
  r->run = run;
  return add_record(r);
}

[[maybe_unused]] const bool added =
    add_resize<Tensor, IntList, std::optional<std::string_view>>(
        "resize", "input, *size, memory_format=None",
        "Changes the shape, in C order over the same memory; new elements are undefined.",
        [](const OpRecord&, const CallForm& form, const Value* v, Result&) {
          resize("resize_", *form.target, ArgTraits<IntList>::get(v[1]),
                 memory_format("resize_", ArgTraits<std::optional<std::string_view>>::get(v[2]),
                               MemoryFormat::Contiguous));
        }) &&
    add_resize<Tensor, Tensor, std::optional<std::string_view>>(
        "resize_as", "input, the_template, *, memory_format=None",
        "resize_ to the shape of another tensor.",
        [](const OpRecord&, const CallForm& form, const Value* v, Result&) {
          const Tensor& other = ArgTraits<Tensor>::get(v[1]);
          MemoryFormat format =
              memory_format("resize_as_", ArgTraits<std::optional<std::string_view>>::get(v[2]),
                            MemoryFormat::Contiguous);
          if (format == MemoryFormat::Preserve) format = suggested_format(other);
          resize("resize_as_", *form.target, other.sizes(), format);
        });

}  // namespace

void change_geometry(const Tensor& self, const char* op, const Value* args, MakeView make) {
  const std::string name = std::string(op) + "_";
  if (!is_batched(self)) check_untransformed(self, name.c_str());
  check_unused(name.c_str(), self);
  const bool tracked = thread_state.grad_enabled && requires_grad(self);
  check_inplace(physical_tensor(self), name.c_str(), tracked);
  const Tensor view = make(args);
  const NodeRef node = NodeRef::borrow(view->grad_fn);
  if (is_batched(self)) rewrap(self, view);
  const Dims sizes(view.sizes());
  const Dims strides(view.strides());
  take_geometry(self, sizes, strides, view.bytes());
  self->bump_version();
  // A graph that was recorded before has gradients of the old shape, which must not reach .grad.
  if (self->meta != nullptr && self->meta->accumulator != nullptr)
    self->meta->accumulator->set_output(0, self);
  // A view's history is regenerated from its base, as after any write; see grad_fn().
  if (tracked && self->base == nullptr && !is_batched(self)) rebase_history(self, node.get());
}

namespace {

// Writes every diagonal element of a matrix, or of a tensor with more dims, all of equal size.
struct FillDiagonal {
  static constexpr OpSpec spec{
      "fill_diagonal", "input, fill_value, wrap=False", kInplace | kShape,
      "Overwrites the main diagonal; with wrap it restarts below after skipping one row.",
      "none: in place only, tested by hand"};
  struct State {
    bool wrap;
  };
  static Tensor forward(Ctx<FillDiagonal>& ctx, const Tensor& x, Scalar value, bool wrap) {
    COGRAD_CHECK(x.dim() >= 2, "dimensions must larger than 1");
    for (int d = 1; x.dim() > 2 && d < x.dim(); ++d)
      COGRAD_CHECK(x.size(d) == x.size(0), "all dimensions of input must be of equal length");
    check_number("fill_diagonal_", "fill_value", value, x.dtype(), OutOfRange::Raises);
    ctx->wrap = wrap;
    Tensor out = ctx.out(x.sizes(), x.dtype());
    if (!out.is(x)) raw_copy(out, x);
    const int64_t rows = x.size(0), cols = x.size(1);
    int64_t step[1] = {0};
    for (int64_t s : out.strides()) step[0] += s;
    for (int64_t top = 0; top < rows; top += cols + 1) {
      const int64_t length[1] = {std::min(rows - top, cols)};
      char* at = out.bytes() + top * out.stride(0) * out.itemsize();
      if (length[0] > 0) raw_fill(alias_strided(out, length, step, at), value);
      if (!wrap || x.dim() > 2) break;
    }
    return out;
  }
  static Tensor backward(Ctx<FillDiagonal>& ctx, const Tensor& g) {
    return apply<FillDiagonal>(g, Scalar(0), ctx->wrap);
  }
};
COGRAD_OP(FillDiagonal)

}  // namespace

}  // namespace cograd
