// SPDX-License-Identifier: BSD-3-Clause
// In-place forms of view ops (t_, squeeze_, ...): they give the tensor itself the view's geometry.
#pragma once
#include "ops/declare/op.h"

namespace cograd {

using MakeView = Tensor (*)(const Value* args);

// Gives `self` the geometry of its view make(args) and, if recorded, the view's history.
void change_geometry(const Tensor& self, const char* op, const Value* args, MakeView make);

namespace detail {
template <class Op, size_t... I>
Tensor boxed_view(const Value* v, std::index_sequence<I...>) {
  using Args = typename Traits<Op>::Args;
  return apply<Op>(ArgTraits<std::tuple_element_t<I, Args>>::get(v[I])...);
}
}  // namespace detail

// Adds the method `name_` of a view op, by default with the op's own name and parameters.
template <class Op>
bool add_geometry_op(const char* name = Op::spec.name, const char* args = Op::spec.args) {
  using Args = typename detail::Traits<Op>::Args;
  using Index = std::make_index_sequence<std::tuple_size_v<Args>>;
  auto* r = new OpRecord;
  r->spec = Op::spec;
  r->spec.name = name;
  r->spec.args = args;
  r->spec.flags = kInplace;
  r->spec.doc = "In-place form: changes the shape and strides of the tensor itself.";
  r->spec.samples = "none: changes the tensor's geometry; tested by hand";
  r->spec.ref = "";
  r->args = detail::arg_infos(detail::ArgShapes<Args>::all);
  r->differentiable = true;
  r->result = Result::Kind::Tensor;
  r->call_plain = [](const Value* v, Result& out, const CallForm& form) {
    detail::boxed_call<Op>(form, v, out, Index{});
  };
  r->has_inplace = true;
  r->run = [](const OpRecord&, const CallForm& form, const Value* v, Result&) {
    change_geometry(*form.target, Op::spec.name, v,
                    [](const Value* a) { return detail::boxed_view<Op>(a, Index{}); });
  };
  return add_record(r);
}

}  // namespace cograd
